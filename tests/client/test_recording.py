"""Recordings read back, whole, torn and foreign."""

import bz2
import gzip
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from kvtui.client.recording import Recording
from kvtui.errors import SourceError
from kvtui.records import (
    RECORDS_SCHEMA,
    AnyRecord,
    Ended,
    GroupShape,
    Hello,
    HostReading,
    Limit,
    Record,
    RunAsked,
    Steps,
    decode_record,
    encode,
    run_command,
)
from kvtui.session.live import Live
from tests.client.recordings import decode, host, memory, opening, write
from tests.client.recordings import ended as ended_record


def records(path: Path) -> list[AnyRecord]:
    with closing(Recording(path)) as recording:
        return list(recording.read())


def recorded(path: Path, *found: Record | bytes) -> Path:
    path.write_bytes(b"".join(one if isinstance(one, bytes) else encode(one) for one in found))
    return path


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_a_recording_reads_back_as_it_was_written(tmp_path: Path, name: str) -> None:
    """Every line comes back as its record, in order, compressed or not."""
    path = tmp_path / name
    write(path, 2000)
    data = path.read_bytes()
    plain = gzip.decompress(data) if name.endswith("gz") else data
    assert records(path) == [decode_record(line) for line in plain.splitlines()]


def test_reading_on_from_any_mark_gives_the_rest(tmp_path: Path) -> None:
    """A mark taken after any record leads to the records after it, with the same times."""
    path = tmp_path / "run.jsonl"
    write(path, 600)
    with closing(Recording(path)) as recording:
        reader = recording.read()
        read, marks, times = [], [reader.mark()], [reader.at_ms]
        for record in reader:
            read.append(record)
            marks.append(reader.mark())
            times.append(reader.at_ms)
        assert times == sorted(times)
        for index, mark in enumerate(marks):
            later = recording.read(mark)
            assert later.at_ms == times[index]
            found = []
            for count, record in enumerate(later, start=index + 1):
                found.append(record)
                assert later.at_ms == times[count]
            assert found == read[index:]


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_a_torn_tail_is_left_out(tmp_path: Path, name: str) -> None:
    """Cut anywhere after its first lines, a recording gives every whole record before the cut."""
    path = tmp_path / name
    write(path, 400)
    whole, data = records(path), path.read_bytes()
    torn = tmp_path / f"torn-{name}"
    for cut in range(len(data) // 3, len(data), 997):
        torn.write_bytes(data[:cut])
        found = records(torn)
        assert found == whole[: len(found)]
        assert len(found) > 2


def test_types_of_a_later_version_and_rubbish_between_are_skipped(tmp_path: Path) -> None:
    """Unknown types, banners, broken lines and one of 20 MB cost nothing but themselves."""
    run = decode(8)
    first, hello, *rest = opening(run)
    path = recorded(
        tmp_path / "mixed", b"Welcome to gpu-box\n", first, hello, b'{"type":"hologram","run":7}\n',
        b'{"type":"steps","run":1}\n', b"x" * (20 * 2**20) + b"\n", b"\xff\xfe\0\n", *rest,
    )  # fmt: skip
    assert records(path) == [first, hello, *rest]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "the file is empty"),
        (b"rubbish\nmore\n", "no line of it is a record"),
        (b"\x7fELF\0\0\0" + bytes(range(256)) * 9, "binary data"),
        (b'{"type":"recording","sch', "it breaks off within its first record"),
        (b'{"type":"recording","schema":"kvtui.records/2","new":1}\n', "'kvtui.records/2'"),
        (b'{"type":"steps"}\n{"a":1}\n', "no line says which version made it"),
        (b"\x1f\x8b\x08\0", "the file is empty"),
        (b"\x28\xb5\x2f\xfd\0\0more", "zstd is not unpacked here, only gzip"),
        (bz2.compress(b"rubbish"), "bzip2 is not unpacked here, only gzip"),
        (gzip.compress(b"rubbish"), "no line of it is a record"),
        (b"\x1f\x8b rubbish that is no gzip", "the file is empty"),
        (b'{"type":"summary","schema":"kvtui.summary/1"}', "no line says which version made it"),
    ],
)
def test_what_is_no_recording_is_a_sentence(tmp_path: Path, data: bytes, sentence: str) -> None:
    """Foreign, newer, empty and torn files are refused with a sentence that names the file."""
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=rf"^recording .*file: .*{sentence}.*\.$"):
        Recording(path)


def test_a_file_that_is_not_there_or_no_file_is_a_sentence(tmp_path: Path) -> None:
    """A missing path and a folder are named."""
    with pytest.raises(SourceError, match=r"^recording .*nowhere: No such file or directory\.$"):
        Recording(tmp_path / "nowhere")
    with pytest.raises(SourceError, match="is no file"):
        Recording(tmp_path)


def test_both_clocks_become_one_time(tmp_path: Path) -> None:
    """Worker and monitor count from their own hello; a recording's time never goes back."""
    run = decode(10)
    asked, monitor, worker, *rest = opening(run)
    path = recorded(
        tmp_path / "two", asked, monitor, host(0.0), host(5000.0), worker, *rest, host(6000.0),
        ended_record(run, 1, 2500.0),
    )  # fmt: skip
    with closing(Recording(path)) as recording:
        reader = recording.read()
        times = [(type(record), reader.at_ms) for record in reader]
    assert (HostReading, 5000.0) in times
    assert times[-2:] == [(HostReading, 6000.0), (Ended, 7500.0)]


def test_a_run_without_its_question_is_still_a_run(tmp_path: Path) -> None:
    """An older recording shows what was measured; what only the shapes could tell is unknown."""
    run = decode(1200)
    write(tmp_path / "new", 1200)
    lines = (tmp_path / "new").read_bytes().splitlines(keepends=True)
    path = recorded(tmp_path / "old", *lines[2:])
    live = Live()
    for record in records(path):
        live.apply(record)
    assert live.run is not None
    assert (live.run.start, live.run.target) == (run.start, run.target)
    assert (live.steps, live.phase) == (1200, "ended")
    assert live.predicted_kv_bytes is None
    assert live.predicted_step_ms is None
    assert live.limit_bytes_per_s == 20e9
    assert live.layers == 8


def test_late_records_of_an_earlier_run_start_nothing(tmp_path: Path) -> None:
    """A record of run 1 after run 2 was asked is handed on, and run 2 stays the run."""
    path = tmp_path / "late"
    first, second = decode(10), decode(20)
    recorded(path, *opening(first, 1), *opening(second, 2), memory(1))
    assert [type(one) for one in records(path)].count(RunAsked) == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"batch": 0},
        {"target": 4096},
        {"target": 2**50},
        {"dtype": "[bold]"},
        {"groups": [GroupShape(kind="full", layers=-1, kv_heads=1)]},
    ],
)
def test_a_question_that_cannot_be_is_not_handed_on(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    """What would break the prediction is taken for a run whose question is not known."""
    asked, *rest = opening(decode(10))
    assert isinstance(asked, RunAsked)
    bad = msgspec.structs.replace(asked.command, **changed)
    path = recorded(tmp_path / "bad", RunAsked(command=bad, fields={}), *rest)
    found = [one for one in records(path) if isinstance(one, RunAsked)]
    assert [one.command.groups for one in found] == [[]]


def test_steps_that_cannot_be_are_left_out(tmp_path: Path) -> None:
    """Records whose figures would break whoever computes with them are not handed on."""
    good = next(one for one in _steps(tmp_path) if isinstance(one, Steps))
    hello = Hello(schema=RECORDS_SCHEMA, role="worker", version="0", pid=1)
    limit = Limit(run=1, when="before", read_bytes_per_s=0.0, probe_bytes=1, threads=1)
    bad: list[Record] = [
        limit,
        msgspec.structs.replace(good, first_step=0),
        msgspec.structs.replace(good, last_step=2**60),
        msgspec.structs.replace(good, held_kv_bytes=-1),
    ]
    odd = [
        msgspec.structs.replace(good, device_total_ns=0.0),
        msgspec.structs.replace(good, device_ns={10**9: 1}),
        msgspec.structs.replace(good, device_ns={}),
    ]
    path = recorded(tmp_path / "bad", hello, *bad, *odd)
    found = records(path)
    assert [one for one in found if isinstance(one, Steps | Limit)] == odd
    live = Live()
    for one in found:
        live.apply(one)


def _steps(tmp_path: Path) -> list[AnyRecord]:
    write(tmp_path / "steps", 50)
    return records(tmp_path / "steps")


def test_the_run_command_of_a_recording_is_the_one_sent(tmp_path: Path) -> None:
    """The shapes come back unchanged."""
    path = tmp_path / "run"
    run = write(path, 10)
    asked = next(one for one in records(path) if isinstance(one, RunAsked))
    assert asked.command == run_command(1, run)
