"""Writes records to a file as they come, so that a crash loses at most the last line.

A name that ends in ``.gz`` is compressed as it goes; what is on disk can be read at any moment. A
disk that fills up ends the recording, never the run: the reason is kept for whoever reports.
"""

import zlib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kvtui import __version__
from kvtui.errors import InputError, SourceError
from kvtui.records import RECORDS_SCHEMA, AnyRecord, RecordingOpened, encode

_GZIP_WINDOW: Final = 31
"""zlib's spelling of a gzip stream."""
_REFUSED: Final = (".zst", ".xz", ".bz2", ".lz4", ".zip")
"""Names that promise a compression not every supported Python can write."""


class Recorder:
    """One JSON line a record, on its way to the disk at once; a torn last line is all one loses."""

    def __init__(self, path: Path, *, replace: bool = True) -> None:
        """Open ``path`` anew; an older file gives way only if ``replace``.

        Raises:
            InputError: the name asks for a compression that is not written here.
            FileExistsError: not ``replace``, and there is one.
            SourceError: the file cannot be opened.
        """
        if path.suffix.lower() in _REFUSED:
            raise InputError("record", str(path), "a plain name or one ending in .gz")
        self.path = path
        self.failure: str | None = None
        """Why the recording is incomplete, in a sentence; None when it is whole."""
        self._squeeze = (
            zlib.compressobj(wbits=_GZIP_WINDOW) if path.suffix.lower() == ".gz" else None
        )
        try:
            self._file = path.open("wb" if replace else "xb", buffering=0)
        except OSError as error:
            if not replace and isinstance(error, FileExistsError):
                raise
            raise SourceError(f"record {path}: {error.strerror or error}.") from None
        began = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.write(RecordingOpened(schema=RECORDS_SCHEMA, version=__version__, began=began))

    def write(self, record: AnyRecord) -> None:
        """Append one record; after a failure nothing more is written."""
        self._put(encode(record), zlib.Z_SYNC_FLUSH)

    def copy(self, pieces: Iterable[bytes]) -> None:
        """Append lines that were encoded before."""
        for piece in pieces:
            self._put(piece, zlib.Z_SYNC_FLUSH)

    def close(self) -> None:
        """Nothing more comes; may be called again."""
        if self._file.closed:
            return
        if self._squeeze is not None:
            self._put(b"", zlib.Z_FINISH)
        try:
            self._file.close()
        except OSError as error:
            self._fail(error)

    def __enter__(self) -> Self:
        """The recorder itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file whatever happened."""
        self.close()

    def _put(self, data: bytes, flush: int) -> None:
        if self.failure is not None:
            return
        if self._squeeze is not None:
            data = self._squeeze.compress(data) + self._squeeze.flush(flush)
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.failure = (
            self.failure or f"The recording {self.path} is incomplete: {error.strerror or error}."
        )
