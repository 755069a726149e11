"""``kvtui config``: where the settings live, what holds, and where each value came from."""

import json

from kvtui.config import Settings
from kvtui.errors import ExitCode
from kvtui.headless import output

CONFIG_SCHEMA = "kvtui.config/1"


def print_settings(settings: Settings, *, as_json: bool = False) -> ExitCode:
    """Print every setting with its origin."""
    there = settings.file.is_file()
    if as_json:
        found = {
            name: {"value": one.value, "origin": one.origin}
            for name, one in settings.origins.items()
        }
        output.data(
            json.dumps(
                {
                    "schema": CONFIG_SCHEMA,
                    "file": str(settings.file),
                    "exists": there,
                    "settings": found,
                }
            )
        )
        return ExitCode.DONE
    made = "" if there else "  (not there; kvtui config --default prints one)"
    output.data(f"file  {settings.file}{made}\n")
    rows = [(name, _shown(one.value), one.origin) for name, one in settings.origins.items()]
    wide = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, value, origin in rows:
        output.data(f"{name:<{wide[0]}}  {value:<{wide[1]}}  {origin}")
    return ExitCode.DONE


def print_default(text: str) -> ExitCode:
    """Print the commented default file."""
    output.data(text)
    return ExitCode.DONE


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else f"{value}"
