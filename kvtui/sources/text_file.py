"""Reading a text file from outside: bounded in size, every failure one sentence."""

import errno
import stat
from pathlib import Path
from typing import Final

from kvtui.errors import SourceError
from kvtui.units import MIB, format_bytes

LIMIT_BYTES: Final = 16 * MIB
"""Far above any real config.json (the largest published ones are under 1 MiB)."""


def read_text(path: Path, *, limit_bytes: int = LIMIT_BYTES) -> str:
    """The text of ``path``.

    Raises:
        SourceError: it is missing, no regular file, too large, unreadable or not UTF-8.
    """
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise SourceError(f"{path} is a folder; give a file.")
        if not stat.S_ISREG(found.st_mode):
            raise SourceError(f"{path} is not a regular file.")
        if found.st_size > limit_bytes:
            raise SourceError(
                f"{path} is {format_bytes(found.st_size)}; at most "
                f"{format_bytes(limit_bytes)} are read."
            )
        with path.open("rb") as file:
            raw = file.read(limit_bytes + 1)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {_reason(error)}.") from None
    except ValueError:
        raise SourceError("A path must not hold a null character.") from None
    if len(raw) > limit_bytes:
        raise SourceError(f"{path} is larger than {format_bytes(limit_bytes)}.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SourceError(f"{path} is not UTF-8 text.") from None


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "its symbolic links go in a circle"
    if error.errno == errno.ENOENT:
        return "there is no such file"
    return (error.strerror or type(error).__name__).lower()
