"""What the screen writes: a new file in the present folder, never over one that is there."""

import contextlib
from pathlib import Path
from typing import Final, TextIO

from kvtui.client.recorder import Recorder
from kvtui.errors import SourceError
from kvtui.session.answer import Answer
from kvtui.session.export import export_csv, export_json, export_markdown
from kvtui.session.live import Live
from kvtui.tui import fresh_file

SUFFIXES: Final = {"svg": ".svg", "csv": ".csv", "json": ".json", "markdown": ".md"}


_TEXTS: Final = {"csv": export_csv, "json": export_json, "markdown": export_markdown}


def text_of(form: str, answer: Answer | None, live: Live) -> str:
    """The data on the screen in one of the forms that are no picture."""
    return _TEXTS[form](answer, live)


def new_recorder() -> Recorder:
    """A recording under a name that is free.

    Raises:
        SourceError: it cannot be opened.
    """
    return fresh_file.opened("recording", ".jsonl.gz", lambda path: Recorder(path, replace=False))


def open_new(path: Path) -> TextIO:
    """A file that was not there before."""
    return path.open("x", encoding="utf-8")


def write_new(form: str, text: str) -> Path:
    """Write ``text`` under a name that is free, whole or not at all; the path.

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
