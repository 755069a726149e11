"""Recordings on disk."""

import zlib
from pathlib import Path

import pytest

from kvtui.client.recorder import Recorder
from kvtui.errors import InputError, SourceError
from kvtui.records import (
    RECORDS_SCHEMA,
    AnyRecord,
    Notice,
    RecordError,
    RecordingOpened,
    decode_record,
    encode,
)

NOTICE = Notice(topic="t", severity="info", sentence="s")


def after_the_opening(data: bytes) -> list[AnyRecord | None]:
    """The records after the first, which must open a recording of this version."""
    opening, *rest = [decode_record(line) for line in data.splitlines()]
    assert isinstance(opening, RecordingOpened)
    assert opening.schema == RECORDS_SCHEMA
    return rest


def test_a_recording_is_readable_whenever_it_breaks_off(tmp_path: Path) -> None:
    """Each record is on disk as soon as it is written; only a torn last line is no record."""
    path = tmp_path / "run.jsonl"
    with Recorder(path) as recorder:
        for count in (1, 2):
            recorder.write(NOTICE)
            assert after_the_opening(path.read_bytes()) == [NOTICE] * count
    torn = path.read_bytes() + encode(NOTICE)[:20]
    *whole, last = torn.splitlines(keepends=True)
    assert after_the_opening(b"".join(whole)) == [NOTICE] * 2
    with pytest.raises(RecordError):
        decode_record(last)


def test_a_compressed_recording_is_readable_whenever_it_breaks_off(tmp_path: Path) -> None:
    """Under a name in .gz the same holds of what unpacks, and the whole is an ordinary gzip."""
    path = tmp_path / "run.jsonl.gz"
    with Recorder(path) as recorder:
        for count in (1, 2):
            recorder.write(NOTICE)
            unpacked = zlib.decompressobj(wbits=31).decompress(path.read_bytes())
            assert after_the_opening(unpacked) == [NOTICE] * count
        for _ in range(1000):
            recorder.write(NOTICE)
    whole = zlib.decompressobj(wbits=31)
    unpacked = whole.decompress(path.read_bytes())
    assert whole.eof
    assert after_the_opening(unpacked) == [NOTICE] * 1002
    assert len(unpacked) > 3 * path.stat().st_size


@pytest.mark.parametrize("name", ["run.zst", "run.jsonl.XZ", "run.bz2"])
def test_a_compression_that_is_not_written_is_refused_by_name(tmp_path: Path, name: str) -> None:
    """A name that promises another compression is refused before a file exists."""
    with pytest.raises(InputError, match=r"^record is .*; it must be .* \.gz\.$"):
        Recorder(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("where", ["no-folder/run.jsonl", "."])
def test_a_path_that_cannot_be_written_is_a_sentence(tmp_path: Path, where: str) -> None:
    """A missing folder or a folder itself is refused before anything runs."""
    with pytest.raises(SourceError, match=r"^record .*: .*\.$"):
        Recorder(tmp_path / where)


def test_an_older_recording_is_replaced_only_where_that_was_asked(tmp_path: Path) -> None:
    """A recording holds one session, never the rest of another; a name made up never replaces."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"old\n" * 100)
    with pytest.raises(FileExistsError):
        Recorder(path, replace=False)
    assert path.read_bytes() == b"old\n" * 100
    with Recorder(path) as recorder:
        recorder.write(NOTICE)
    assert after_the_opening(path.read_bytes()) == [NOTICE]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_ends_the_recording_and_not_the_run() -> None:
    """Writing goes on without raising; the reason is kept for the report."""
    with Recorder(Path("/dev/full")) as recorder:
        recorder.write(NOTICE)
        recorder.write(NOTICE)
    assert recorder.failure == "The recording /dev/full is incomplete: No space left on device."
