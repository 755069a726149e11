"""What comes out of a child's pipes, cut into lines: records kept until asked for, stderr's tail.

A reader that falls behind pauses the pipe, so memory stays bounded; a line beyond the limit is
dropped, not the stream. Nothing here knows processes or records.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

_HIGH: Final = 4 * 2**20
"""Bytes held for a reader at which the pipe is paused."""
_TAIL_LINES: Final = 50
_TAIL_WIDTH: Final = 4096


class Lines:
    """Lines in the order they came, for one reader."""

    def __init__(self, limit: int) -> None:
        """Keep lines of at most ``limit`` bytes."""
        self._limit = limit
        self._whole: deque[bytes] = deque()
        self._held = 0
        self._partial = bytearray()
        self._overlong = self._ended = False
        self._news = asyncio.Event()
        self._pause: Callable[[bool], None] | None = None
        self._paused = False

    def throttle(self, pause: Callable[[bool], None] | None) -> None:
        """Call ``pause`` with True when too much is held, with False when it may go on."""
        if pause is None and self._paused and self._pause is not None:
            self._pause(False)
        self._pause, self._paused = pause, False

    def feed(self, data: bytes) -> None:
        """Take bytes in; what comes after the end is ignored."""
        if self._ended:
            return
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            self._grow(data[start:end])
            self._close_line()
            start = end
        self._grow(data[start:])
        if self._pause is not None and not self._paused and self._held > _HIGH:
            self._paused = True
            self._pause(True)

    def end(self) -> None:
        """Nothing more comes; a torn last line is handed out as it is. May be called again."""
        if not self._ended:
            if self._partial:
                self._close_line()
            self._ended = True
            self._news.set()

    async def next(self) -> bytes | None:
        """The next line, its newline included; None at the end."""
        while not self._whole:
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        line = self._whole.popleft()
        self._held -= len(line)
        if self._paused and self._held <= _HIGH // 2 and self._pause is not None:
            self._paused = False
            self._pause(False)
        return line

    def _grow(self, piece: bytes) -> None:
        if self._overlong or len(self._partial) + len(piece) > self._limit:
            self._overlong = True
            self._partial.clear()
        else:
            self._partial += piece

    def _close_line(self) -> None:
        if not self._overlong:
            self._whole.append(bytes(self._partial))
            self._held += len(self._partial)
            self._news.set()
        self._overlong = False
        self._partial.clear()


class Tail:
    """The last lines of a stream of text, however much of it there is."""

    def __init__(self) -> None:
        self._whole: deque[bytes] = deque(maxlen=_TAIL_LINES)
        self._partial = b""

    def feed(self, data: bytes) -> None:
        """Take bytes in."""
        *whole, last = data.split(b"\n")
        for line in whole:
            line = (self._partial + line).rstrip(b"\r")
            self._partial = b""
            if line.strip():
                self._whole.append(line[:_TAIL_WIDTH])
        self._partial = (self._partial + last)[:_TAIL_WIDTH]

    def lines(self) -> list[str]:
        """What is kept, as text without control characters."""
        kept = [*self._whole, self._partial] if self._partial.strip() else [*self._whole]
        return [_printable(line.decode("utf-8", errors="replace")) for line in kept]


def _printable(line: str) -> str:
    return "".join(one if one.isprintable() else " " for one in line.expandtabs(4)).rstrip()
