"""``kvtui config``: settings, where they live and where each came from."""

import argparse

from kvtui.cli import flags
from kvtui.cli.commands import Commands
from kvtui.errors import ExitCode


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "config",
        help="settings: where they live, what holds and why",
        allow_abbrev=False,
        description="Settings come from a file, the environment (KVTUI_THEME, ...) and flags.",
    )
    parser.add_argument("--default", action="store_true", help="print a commented default file")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(carry_out=carry_out)


def carry_out(options: argparse.Namespace) -> ExitCode:
    """Print the settings, or the default file."""
    from kvtui.headless.config import print_default, print_settings
    from kvtui.tui.bindings import changeable_keys
    from kvtui.tui.screen_settings import check

    keys = changeable_keys()
    if options.default:
        from kvtui.config import default_file

        return print_default(default_file(keys))
    found = flags.settings(options, ids=tuple(keys))
    check(found)
    return print_settings(found, as_json=options.json)
