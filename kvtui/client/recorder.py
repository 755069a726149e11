"""Writes records to a file as they come, so that a crash loses at most the last line."""

from pathlib import Path
from types import TracebackType
from typing import Self

from kvtui.errors import SourceError
from kvtui.records import AnyRecord, encode


class Recorder:
    """One JSON line a record, flushed each; a torn last line is all that can be lost."""

    def __init__(self, path: Path) -> None:
        """Open ``path`` anew; raises ``SourceError`` when it cannot be written."""
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise SourceError(f"record {path}: {error.strerror or error}.") from None

    def write(self, record: AnyRecord) -> None:
        """Append one record."""
        self._file.write(encode(record))
        self._file.flush()

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
