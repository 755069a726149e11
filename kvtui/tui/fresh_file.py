"""Names for what the screen writes: dated, and never over a file that is there."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from kvtui.errors import SourceError

Opened = TypeVar("Opened")


def names(what: str, suffix: str, now: datetime) -> Iterator[Path]:
    """``kvtui-WHAT-DATE.SUFFIX`` in the present folder, then numbered ones."""
    stem = f"kvtui-{what}-{now:%Y%m%d-%H%M%S}"
    yield Path.cwd() / f"{stem}{suffix}"
    for number in range(2, 1000):
        yield Path.cwd() / f"{stem}-{number}{suffix}"


def opened(what: str, suffix: str, open_new: Callable[[Path], Opened]) -> Opened:
    """What ``open_new`` makes of the first name that is free.

    ``open_new`` raises ``FileExistsError`` where the name is taken, so nothing is written over
    even where somebody else takes it at the same moment.

    Raises:
        SourceError: nothing can be written in the present folder.
    """
    try:
        for path in names(what, suffix, datetime.now()):  # the user's own clock
            try:
                return open_new(path)
            except FileExistsError:
                continue
    except OSError as error:
        raise SourceError(f"write {what} here: {error.strerror or error}.") from None
    raise SourceError(f"write {what} here: every name is taken.")
