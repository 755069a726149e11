"""The records of the present run, kept compressed: a recording can begin with its beginning.

A run takes a few megabytes an hour here. Past the limit nothing more is kept until the next run: a
recording that is asked for then has the run's beginning, and what comes after it was asked for.
"""

import zlib
from collections.abc import Iterator
from typing import Final

from kvtui.records import AnyRecord, RunAsked, encode

_LIMIT_BYTES: Final = 32 * 2**20
_PIECE_BYTES: Final = 2**20


class Spool:
    """Everything since the last run was asked for."""

    def __init__(self, limit_bytes: int = _LIMIT_BYTES) -> None:
        """Hold at most ``limit_bytes``, compressed."""
        self._limit_bytes = limit_bytes
        self._squeeze = zlib.compressobj()
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self.whole = True
        """Everything since the beginning is kept."""

    def add(self, record: AnyRecord) -> None:
        """Keep one record; with a new run, what was of the last one goes."""
        if isinstance(record, RunAsked):
            self._begin()
        if not self.whole:
            return
        piece = self._squeeze.compress(encode(record))
        if piece:
            self._pieces.append(piece)
            self._held_bytes += len(piece)
        if self._held_bytes > self._limit_bytes:
            self.whole = False

    def data(self) -> Iterator[bytes]:
        """The lines kept, in pieces of bounded size."""
        unpack = zlib.decompressobj()
        ending = self._squeeze.copy().flush(zlib.Z_SYNC_FLUSH)
        for piece in (*self._pieces, ending):
            left = piece
            while left:
                yield unpack.decompress(left, _PIECE_BYTES)
                left = unpack.unconsumed_tail
        yield unpack.flush()

    def _begin(self) -> None:
        self._squeeze = zlib.compressobj()
        self._pieces, self._held_bytes, self.whole = [], 0, True
