"""Writing an export: a new file in the present folder, whole or not at all."""

import contextlib
from pathlib import Path
from typing import Final, TextIO

from kvtui.errors import SourceError
from kvtui.tui import fresh_file

SUFFIXES: Final = {"svg": ".svg", "csv": ".csv", "json": ".json", "markdown": ".md"}


def open_new(path: Path) -> TextIO:
    """A file that was not there before."""
    return path.open("x", encoding="utf-8")


def write_new(form: str, text: str) -> Path:
    """Write ``text`` under a name that is free; the path.

    Raises:
        SourceError: it cannot be written; nothing is left of it then.
    """
    file = fresh_file.opened(
        "screen" if form == "svg" else "data",
        SUFFIXES[form],
        open_new,
    )
    path = Path(file.name)
    try:
        with file:
            file.write(text)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        raise SourceError(f"export {path}: {error.strerror or error}.") from None
    return path
