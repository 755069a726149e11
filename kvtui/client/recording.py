"""Recordings read back: checked when they are opened, then record by record from any mark on.

Nothing is kept of what was read. Lines that are no record (a banner, a torn tail, a type of a later
version) are skipped; what could break whoever computes with it is left out here. All producers
share one time, counted from the first line: each one's own clock is joined where its hello stands.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from kvtui.client.soundness import sound
from kvtui.client.unpacking import beginning, unpacked
from kvtui.decode_run import DecodeRun
from kvtui.errors import SourceError
from kvtui.records import (
    RECORDS_SCHEMA,
    AnyRecord,
    Ended,
    EngineDevice,
    EngineMemory,
    Evidence,
    Gone,
    GpuReading,
    Held,
    Hello,
    HostReading,
    Limit,
    Plan,
    Prefilled,
    RecordError,
    Role,
    RunAsked,
    Stage,
    Started,
    Steps,
    decode_record,
    run_command,
)

_CHUNK_BYTES: Final = 2**18
_LINE_MAX_BYTES: Final = 2**24
"""A longer line is no record; it is skipped without being held."""
_HEAD_BYTES: Final = 2**20
"""How far into a file its first record is looked for: banners come before it."""
_PACKED: Final = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
}
"""How files begin that Python's standard library cannot unpack everywhere, or not as a stream."""
_LOOK_AHEAD: Final = 10_000
"""Records in which the start of a run is looked for whose question was not recorded."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place between two lines of a recording: all that is needed to read on from there."""

    offset: int = 0
    """Bytes before it, unpacked."""
    at_ms: float = 0.0
    zeros_ms: tuple[float | None, float | None] = (None, None)
    """When the worker's and the monitor's own clock stood at 0."""
    run: int | None = None
    """The run that the records before it were about."""
    running: bool = False
    """That run had not ended."""


class Recording:
    """One file, open and known to hold records of this version."""

    def __init__(self, path: Path) -> None:
        """Open ``path``; a gzip is unpacked to a temporary file that nobody else sees.

        Raises:
            SourceError: it cannot be read, or holds no recording of this version.
        """
        self.path = path
        try:
            if path.exists() and not path.is_file():
                raise SourceError(f"{path} is no file; a recording is a file of JSON lines.")
            self._check(beginning(path, _HEAD_BYTES))
            self._file = unpacked(path)
        except OSError as error:
            raise SourceError(f"recording {path}: {error.strerror or error}.") from None
        self.size_bytes = os.fstat(self._file.fileno()).st_size

    def read(self, start: Mark = Mark()) -> "Reader":
        """Read on from ``start``."""
        return Reader(self, start)

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def chunk(self, offset: int) -> bytes:
        """Some bytes from ``offset`` on, none at the end; readers do not disturb each other."""
        return os.pread(self._file.fileno(), _CHUNK_BYTES, offset)

    def _check(self, head: bytes) -> None:
        """A record of this version among the first lines, or a sentence that says what is there."""
        if not head:
            raise SourceError(f"recording {self.path}: the file is empty.")
        first = None
        for line in head.split(b"\n"):
            found = _heading(line)
            if found is None:
                continue
            first = first or found
            if found.schema is None or found.type not in ("recording", "hello"):
                continue
            if found.schema != RECORDS_SCHEMA:
                raise SourceError(
                    f"recording {self.path}: it holds {found.schema[:80]!r}, and this kvtui "
                    f"reads {RECORDS_SCHEMA!r}; replay it with the version that made it."
                )
            return
        if first is not None:
            raise SourceError(
                f"recording {self.path}: no line says which version made it "
                f"({RECORDS_SCHEMA!r} is read)."
            )
        kind = "binary data" if b"\0" in head else "no line of it is a record"
        for magic, name in _PACKED.items():
            if head.startswith(magic):
                kind = f"{name} is not unpacked here, only gzip"
        torn = b"\n" not in head and head.lstrip().startswith(b"{")
        why = "it breaks off within its first record" if torn else kind
        raise SourceError(f"recording {self.path}: {why}; kvtui run --record FILE makes one.")


class Reader:
    """Iterates the records from a mark on; ``at_ms`` and ``mark`` follow."""

    def __init__(self, recording: Recording, start: Mark) -> None:
        """Read ``recording`` from ``start``."""
        self._recording = recording
        self._offset = self._line_at = start.offset
        self._run = start.run
        self.running = start.running
        """A run was asked for and has not ended, up to the record read last."""
        self._zeros: list[float | None] = list(start.zeros_ms)
        self.at_ms = start.at_ms
        """Time of the record read last, from the beginning of the recording."""

    def mark(self) -> Mark:
        """Where the next record is read from."""
        return Mark(
            self._offset, self.at_ms, (self._zeros[0], self._zeros[1]), self._run, self.running
        )

    @property
    def offset(self) -> int:
        """Bytes read so far."""
        return self._offset

    def __iter__(self) -> Iterator[AnyRecord]:
        """Every record that can be used, in the order written."""
        for line in self._lines():
            try:
                record = decode_record(line)
            except RecordError:
                continue
            if record is None or not sound(record):
                continue
            self._advance(record)
            if isinstance(record, RunAsked):
                self._run, self.running = record.command.run, True
            elif isinstance(record, Ended) or (
                isinstance(record, Gone) and record.role == "worker"
            ):
                self.running = False
            else:
                run = getattr(record, "run", None)
                if run is not None and (self._run is None or run > self._run):
                    # Its question was not recorded; a mark made here must not skip the record.
                    end, self._offset = self._offset, self._line_at
                    self._run, self.running = run, True
                    yield self._unasked(run)
                    self._offset = end
            yield record

    def _lines(self) -> Iterator[bytes]:
        """Lines without their ends; the last one as it is, torn or whole."""
        position, tail, overlong = self._offset, b"", False
        while chunk := self._recording.chunk(position):
            position += len(chunk)
            *whole, tail = (tail + chunk).split(b"\n")
            for line in whole:
                self._line_at = self._offset
                self._offset += len(line) + 1
                if not overlong:
                    yield line
                overlong = False
            if len(tail) > _LINE_MAX_BYTES or overlong:
                self._offset += len(tail)
                tail, overlong = b"", True
        if tail:
            self._line_at = self._offset
            self._offset += len(tail)
            yield tail

    def _advance(self, record: AnyRecord) -> None:
        """Move ``at_ms`` on to ``record``; time never goes back."""
        clock = _CLOCKS[record.role] if isinstance(record, Hello) else _CLOCK_OF.get(type(record))
        if clock is None:
            return
        zero = self._zeros[clock]
        if zero is None or isinstance(record, Hello):
            zero = self._zeros[clock] = self.at_ms - record.at_ms
        self.at_ms = max(self.at_ms, zero + record.at_ms)

    def _unasked(self, run: int) -> RunAsked:
        """What can be said of a run without its question: how far it went, not its shapes."""
        started = self._start_of(run)
        known = DecodeRun(
            groups=(),
            batch=started.batch if started else 1,
            start=started.start if started else 1,
            target=started.target if started else 2,
            dtype=started.dtype if started else "fp32",
        )
        return RunAsked(command=run_command(run, known), fields={})

    def _start_of(self, run: int) -> Started | None:
        """The ``Started`` of ``run``, further on and before any other run."""
        ahead = Reader(self._recording, self.mark())
        for line in islice(ahead._lines(), _LOOK_AHEAD):
            try:
                record = decode_record(line)
            except RecordError:
                continue
            if getattr(record, "run", run) != run:
                return None
            if isinstance(record, Started) and sound(record):
                return record
        return None


_CLOCKS: Final[dict[Role, int]] = {"worker": 0, "monitor": 1}
_CLOCK_OF: Final[dict[type[AnyRecord], int]] = {
    **dict.fromkeys((EngineDevice, Stage, Limit, Plan, Started, Prefilled, Steps), 0),
    **dict.fromkeys((Held, EngineMemory, Evidence, Ended), 0),
    **dict.fromkeys((GpuReading, HostReading), 1),
}
"""Whose clock a record's ``at_ms`` is of; others come from either, or from neither."""


class _Heading(msgspec.Struct):
    """As much of a line as every version has."""

    type: str
    schema: str | None = None


_headings: Final = msgspec.json.Decoder(_Heading)


def _heading(line: bytes) -> _Heading | None:
    try:
        return _headings.decode(line)
    except msgspec.DecodeError:
        return None
