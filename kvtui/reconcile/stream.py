"""Lines of a log, whatever it is: bounded in memory and in what is read at all.

A log may be a hundred megabytes of requests after a page of start-up, one endless line, binary
rubbish, or text that a shell wrote in two bytes a character. Lines keep their head only, ANSI
codes are dropped, a carriage return ends a line (progress bars).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

READ_MAX_BYTES: Final = 128 * 2**20
"""Start-up stands in the first pages; more than this is not read."""
QUIET_MAX_BYTES: Final = 32 * 2**20
"""Nor is more after this much without a line of interest: no engine starts up so late."""
LINE_MAX_BYTES: Final = 64 * 2**10
"""An engine's line of settings has some ten thousand characters."""
_CHUNK_BYTES: Final = 2**18

_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_ENDS: Final = re.compile(rb"[\r\n]+")
"""Runs of them, so that a megabyte of blank lines is one end."""


class Readable(Protocol):
    """A file of bytes."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes; none at the end."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its codes."""

    number: int
    """Counted from 1, blank lines included."""
    text: str
    anchors: tuple[str, ...]
    """Those of the wanted parts that it holds."""


def lines(file: Readable, anchors: tuple[str, ...]) -> Iterator[Line]:
    """The lines of ``file`` that hold one of ``anchors``.

    Args:
        file: bytes; read in pieces, as far as ``READ_MAX_BYTES`` and ``QUIET_MAX_BYTES`` let.
        anchors: substrings; a line without any is never decoded.
    """
    wanted = [(anchor, anchor.encode()) for anchor in anchors]
    number, left, quiet, held, cut = 1, READ_MAX_BYTES, 0, b"", False
    while left > 0 and quiet < QUIET_MAX_BYTES and (read := file.read(min(_CHUNK_BYTES, left))):
        left -= len(read)
        quiet += len(read)
        # Two bytes a character (UTF-16) leaves zeros between ASCII letters.
        piece = held + read.replace(b"\0", b"")
        # A piece holds few of the anchors; only those are looked for by line.
        here = [one for one in wanted if one[1] in piece]
        quiet = 0 if here else quiet
        at = 0
        for end in _ENDS.finditer(piece):
            if here and not cut:
                line = piece[at : end.start()]
                found = tuple([anchor for anchor, raw in here if raw in line])
                if found:
                    yield Line(number, _clean(line), found)
            number += end[0].count(b"\n")
            at, cut = end.end(), False
        held = piece[at:]
        if len(held) > LINE_MAX_BYTES:
            if not cut:
                yield from _last(number, held, here)
            held, cut = b"", True
    if held and not cut:
        yield from _last(number, held, wanted)


def _last(number: int, held: bytes, wanted: list[tuple[str, bytes]]) -> Iterator[Line]:
    found = tuple(anchor for anchor, raw in wanted if raw in held[:LINE_MAX_BYTES])
    if found:
        yield Line(number, _clean(held), found)


def _clean(line: bytes) -> str:
    text = line[:LINE_MAX_BYTES].decode(errors="replace")
    return _ANSI.sub("", text).strip()
