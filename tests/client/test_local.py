"""Helper processes followed from outside: banners, deaths, floods, and stopping."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from kvtui.client.local import LocalHelper, start_helper, start_worker
from kvtui.client.recorder import Recorder
from kvtui.errors import SourceError
from kvtui.records import AnyRecord, Gone, Hello, Notice, StopCommand, decode_record

HELLO = (
    '{"type":"hello","at_ms":0,"schema":"kvtui.records/1","role":"worker","version":"0","pid":1}'
)


async def child(code: str) -> LocalHelper:
    return await start_helper("worker", (sys.executable, "-c", code))


async def everything(source: LocalHelper) -> list[AnyRecord]:
    return [record async for record in source.records()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_what_comes_before_the_hello_is_skipped() -> None:
    """Banners, other JSON and unknown record types are no records; the hello is the first."""
    source = await child(
        f"""print("Welcome to gpu-box"); print('{{"a": 1}}'); print('{{"type":"hologram"}}')
print('{{"type":"stage","name":"early","detail":""}}'); print({HELLO!r})
print('{{"type":"hologram"}}'); print("not json")
print('{{"type":"notice","topic":"t","severity":"info","sentence":"s"}}')"""
    )
    records = await everything(source)
    assert [type(record) for record in records] == [Hello, Notice, Gone]


async def test_another_schema_is_refused_with_a_sentence() -> None:
    """A helper of another version is stopped and named."""
    source = await child(f"print({HELLO.replace('records/1', 'records/9')!r}, flush=True); input()")
    (gone,) = await everything(source)
    assert isinstance(gone, Gone)
    assert "kvtui.records/9" in gone.sentence
    assert not alive(source.pid)


async def test_sigkill_is_named() -> None:
    """A child that is killed leaves a Gone that names the signal and what it often means."""
    source = await child(f"print({HELLO!r}, flush=True); input()")
    records = []
    async for record in source.records():
        records.append(record)
        if isinstance(record, Hello):
            os.kill(source.pid, signal.SIGKILL)
    gone = records[-1]
    assert isinstance(gone, Gone)
    assert (gone.exit_status, gone.expected) == (-signal.SIGKILL, False)
    assert "SIGKILL" in gone.sentence
    assert "out-of-memory" in gone.sentence


async def test_the_last_line_of_stderr_is_the_cause() -> None:
    """A child that cannot import what it needs says so through its Gone."""
    (gone,) = await everything(await child("import torch_that_is_not_there"))
    assert isinstance(gone, Gone)
    assert "status 1" in gone.sentence
    assert "torch_that_is_not_there" in gone.sentence


async def test_a_flood_on_stderr_blocks_nobody() -> None:
    """Megabytes on stderr are drained, and records come through behind them."""
    source = await child(
        f"import sys\nsys.stderr.write('x' * 79 + '\\n' * 1); "
        f"[sys.stderr.write('y' * 99 + '\\n') for _ in range(100_000)]\nprint({HELLO!r})"
    )
    records = await everything(source)
    assert isinstance(records[0], Hello)


async def test_a_line_of_a_megabyte_is_one_record() -> None:
    """Long records are read whole."""
    source = await child(
        f"""print({HELLO!r})
print('{{"type":"notice","topic":"t","severity":"info","sentence":"' + 'x' * 1_000_000 + '"}}')"""
    )
    records = await everything(source)
    assert isinstance(records[1], Notice)
    assert len(records[1].sentence) == 1_000_000


async def test_sending_to_the_dead_is_false() -> None:
    """A command to a child that is gone returns False and raises nothing."""
    source = await child("pass")
    await everything(source)
    assert await source.send(StopCommand()) is False


async def test_a_deaf_child_is_gone_within_a_second() -> None:
    """A child that ignores the end of its stdin and SIGTERM is killed, and its Gone is expected."""
    source = await child(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"print({HELLO!r}, flush=True)\nwhile True: time.sleep(1)"
    )
    stream = source.records()
    assert isinstance(await anext(stream), Hello)
    began = time.monotonic()
    await source.stop()
    assert time.monotonic() - began < 1.0
    assert not alive(source.pid)
    gone = await anext(stream)
    assert isinstance(gone, Gone)
    assert gone.expected


async def test_a_polite_child_ends_with_its_stdin() -> None:
    """A child that ends with its stdin needs no signal, and stopping twice is harmless."""
    source = await child(f"print({HELLO!r}, flush=True)\nimport sys\nsys.stdin.read()")
    stream = source.records()
    await anext(stream)
    await source.stop()
    await source.stop()
    gone = await anext(stream)
    assert isinstance(gone, Gone)
    assert gone.exit_status == 0
    source.kill_now()


async def test_the_real_worker_ends_with_its_stdin() -> None:
    """The worker says hello before torch is there and leaves no process when it is stopped."""
    source = await start_worker()
    stream = source.records()
    hello = await asyncio.wait_for(anext(stream), 20)
    assert isinstance(hello, Hello)
    assert hello.pid == source.pid
    await source.stop()
    assert not alive(source.pid)


def test_a_recording_is_readable_whenever_it_breaks_off(tmp_path: Path) -> None:
    """Each record is on disk as soon as it is written; an unwritable path is a sentence."""
    path = tmp_path / "run.jsonl"
    notice = Notice(topic="t", severity="info", sentence="s")
    with Recorder(path) as recorder:
        recorder.write(notice)
        assert [decode_record(line) for line in path.read_bytes().splitlines()] == [notice]
    with pytest.raises(SourceError, match="no-folder"):
        Recorder(tmp_path / "no-folder" / "run.jsonl")
