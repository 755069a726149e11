"""Saves a question as a workload preset of the user's own, in the form of the shipped ones."""

import json
import re
from typing import Final

from kvtui.errors import InputError, SourceError
from kvtui.sources.presets import user_folder
from kvtui.sources.request import Request, with_workload_preset

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


def save_workload(name: str, request: Request) -> str:
    """Write every field of ``request`` as the workload preset ``name``; where it was written.

    Fields that a workload preset gave it are among them, so that the new one stands alone.

    Raises:
        InputError: the name is none, is taken already, or there is nothing to save.
        SourceError: the folder cannot be written to.
    """
    if not _NAME.fullmatch(name):
        allowed = "1 to 63 small letters, digits, dots, dashes, beginning with no dash or dot"
        raise InputError("preset name", name, allowed)
    fields = with_workload_preset(request).given()
    fields.pop("workload", None)
    if not fields:
        raise InputError("preset", None, "a question with at least one field typed")
    path = user_folder() / "workloads" / f"{name}.toml"
    lines = ['title = "Saved from the dashboard"', 'source = "typed"', ""]
    # A JSON string is a TOML basic string.
    lines += [f"{field} = {json.dumps(value)}" for field, value in fields.items()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    except FileExistsError:
        raise InputError("preset name", name, "a name that no saved preset has") from None
    except OSError as error:
        raise SourceError(f"save {path}: {error.strerror or error}.") from None
    return str(path)
