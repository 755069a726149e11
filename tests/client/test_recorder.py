"""Recordings on disk."""

from pathlib import Path

import pytest

from kvtui.client.recorder import Recorder
from kvtui.errors import SourceError
from kvtui.records import Notice, RecordError, decode_record, encode

NOTICE = Notice(topic="t", severity="info", sentence="s")


def test_a_recording_is_readable_whenever_it_breaks_off(tmp_path: Path) -> None:
    """Each record is on disk as soon as it is written; only a torn last line is no record."""
    path = tmp_path / "run.jsonl"
    with Recorder(path) as recorder:
        for count in (1, 2):
            recorder.write(NOTICE)
            assert [decode_record(line) for line in path.read_bytes().splitlines()] == [
                NOTICE
            ] * count
    torn = path.read_bytes() + encode(NOTICE)[:20]
    *whole, last = torn.splitlines()
    assert [decode_record(line) for line in whole] == [NOTICE] * 2
    with pytest.raises(RecordError):
        decode_record(last)


@pytest.mark.parametrize("where", ["no-folder/run.jsonl", "."])
def test_a_path_that_cannot_be_written_is_a_sentence(tmp_path: Path, where: str) -> None:
    """A missing folder or a folder itself is refused before anything runs."""
    with pytest.raises(SourceError, match=r"^record .*: .*\.$"):
        Recorder(tmp_path / where)


def test_an_older_recording_is_replaced(tmp_path: Path) -> None:
    """A recording holds one run, never the rest of another."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"old\n" * 100)
    with Recorder(path) as recorder:
        recorder.write(NOTICE)
    assert path.read_bytes() == encode(NOTICE)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_ends_the_recording_and_not_the_run() -> None:
    """Writing goes on without raising; the reason is kept for the report."""
    with Recorder(Path("/dev/full")) as recorder:
        assert recorder.failure is None
        recorder.write(NOTICE)
        recorder.write(NOTICE)
    assert recorder.failure == "The recording /dev/full is incomplete: No space left on device."
