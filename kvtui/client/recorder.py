"""Writes records to a file as they come, so that a crash loses at most the last line.

A disk that fills up ends the recording, never the run: the reason is kept for whoever reports.
"""

from pathlib import Path
from types import TracebackType
from typing import Self

from kvtui.errors import SourceError
from kvtui.records import AnyRecord, encode


class Recorder:
    """One JSON line a record, on its way to the disk at once; a torn last line is all one loses."""

    def __init__(self, path: Path) -> None:
        """Open ``path`` anew, an older file is replaced; ``SourceError`` when it cannot be."""
        self._path = path
        self.failure: str | None = None
        """Why the recording is incomplete, in a sentence; None when it is whole."""
        try:
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise SourceError(f"record {path}: {error.strerror or error}.") from None

    def write(self, record: AnyRecord) -> None:
        """Append one record; after a failure nothing more is written."""
        if self.failure is not None:
            return
        left = memoryview(encode(record))
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self.failure = f"The recording {self._path} is incomplete: {error.strerror or error}."

    def close(self) -> None:
        """Nothing more comes."""
        self._file.close()

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
