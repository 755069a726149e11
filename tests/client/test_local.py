"""Helper processes followed from outside: banners, deaths, floods, and stopping."""

import asyncio
import os
import select
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kvtui.client import local
from kvtui.client.local import LocalHelper, start_helper, start_worker
from kvtui.records import AnyRecord, Gone, Hello, HoldCommand, Notice, StopCommand, WatchCommand

HELLO = (
    '{"type":"hello","at_ms":0,"schema":"kvtui.records/1","role":"worker","version":"0","pid":1}'
)


async def child(code: str) -> LocalHelper:
    return await start_helper("worker", (sys.executable, "-c", code))


async def everything(source: LocalHelper) -> list[AnyRecord]:
    return [record async for record in source.records()]


@pytest.fixture(autouse=True)
async def no_task_is_left() -> AsyncIterator[None]:
    """Whatever happened to a child, nothing of it stays in the event loop."""
    before = asyncio.all_tasks()
    yield
    assert asyncio.all_tasks() - before == {asyncio.current_task()}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def ends(pid: int) -> bool:
    """It is gone within two seconds, collected by its new parent or not."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 2)[0])
    finally:
        os.close(process)


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


async def killed(source: LocalHelper, number: int) -> Gone:
    """What ``source`` leaves when ``number`` is sent to it after its hello."""
    last: AnyRecord | None = None
    async for last in source.records():
        if isinstance(last, Hello):
            os.kill(source.pid, number)
    assert isinstance(last, Gone)
    return last


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGKILL, "killed by SIGKILL; often the kernel's out-of-memory killer"),
        (signal.SIGSEGV, "SIGSEGV; a crash in native code"),
        (signal.SIGTERM, "SIGTERM"),
        (40, "signal 40"),
    ],
)
async def test_a_signal_is_named(number: int, words: str) -> None:
    """A child that is killed leaves a Gone with the signal and what it often means."""
    gone = await killed(await child(f"print({HELLO!r}, flush=True); input()"), number)
    assert (gone.exit_status, gone.expected) == (-number, False)
    assert words in gone.sentence


async def test_a_missing_module_is_named_with_its_cure() -> None:
    """A child that cannot import what it needs says which module, and what to install."""
    (gone,) = await everything(await child("import torch_that_is_not_there.cuda"))
    assert isinstance(gone, Gone)
    assert gone.sentence == (
        "The worker cannot run (status 1): its Python has no module torch_that_is_not_there; "
        "install torch_that_is_not_there there."
    )


async def test_its_own_error_notice_is_the_cause() -> None:
    """What the worker says about itself explains its end; an ignored command before does not."""
    said = '{"type":"notice","topic":"%s","severity":"error","sentence":"%s"}'
    source = await child(
        f"print({HELLO!r}); print({said % ('worker', 'No engine: torch is broken.')!r}, flush=True)"
        "\nraise SystemExit(3)"
    )
    gone = (await everything(source))[-1]
    assert isinstance(gone, Gone)
    assert gone.sentence == "The worker ended with status 3: No engine: torch is broken."
    source = await child(
        f"print({HELLO!r}); print({said % ('command', 'Ignored: nonsense')!r}, flush=True)"
        "\nraise SystemExit('RuntimeError: the real cause')"
    )
    gone = (await everything(source))[-1]
    assert isinstance(gone, Gone)
    assert gone.sentence == "The worker ended with status 1: RuntimeError: the real cause."


async def test_a_grandchild_that_holds_the_pipes_holds_up_nobody() -> None:
    """The end of the child is known at once, and what it started ends with it."""
    source = await child(
        f"""import os, time
if (pid := os.fork()) == 0:
    time.sleep(60)
print({HELLO!r})
print('{{"type":"notice","topic":"t","severity":"info","sentence":"%d"}}' % pid, flush=True)
time.sleep(60)"""
    )
    stream = source.records()
    assert isinstance(await anext(stream), Hello)
    notice = await anext(stream)
    assert isinstance(notice, Notice)
    os.kill(source.pid, signal.SIGKILL)
    gone = await asyncio.wait_for(anext(stream), 2)
    assert isinstance(gone, Gone)
    assert ends(int(notice.sentence))


async def test_a_child_that_closes_its_output_is_ended() -> None:
    """A child that cannot be heard any more is stopped, and that is not called expected."""
    source = await child(
        f"import os, time\nprint({HELLO!r}, flush=True)\nos.close(1)\ntime.sleep(60)"
    )
    records = await asyncio.wait_for(everything(source), 4)
    gone = records[-1]
    assert isinstance(gone, Gone)
    assert "closed its output" in gone.sentence
    assert not gone.expected
    assert not alive(source.pid)


async def test_a_reader_that_pauses_loses_nothing() -> None:
    """Records pile up in the pipe, not in memory; all of them come when they are asked for."""
    line = '{"type":"notice","topic":"t","severity":"info","sentence":"' + "x" * 100_000 + '"}'
    source = await child(f"print({HELLO!r})\nfor _ in range(300): print({line!r}, flush=True)")
    stream = source.records()
    assert isinstance(await anext(stream), Hello)
    for _ in range(100):
        await asyncio.sleep(0)
    counted = [type(record) async for record in stream]
    assert (counted.count(Notice), counted[-1]) == (300, Gone)


async def test_what_a_stopped_child_says_last_arrives() -> None:
    """Records written after the end of stdin are read before the Gone."""
    last = '{"type":"notice","topic":"t","severity":"info","sentence":"goodbye"}'
    source = await child(
        f"import sys\nprint({HELLO!r}, flush=True)\nsys.stdin.read()\nprint({last!r}, flush=True)"
    )
    stream = source.records()
    await anext(stream)
    await source.stop()
    assert [type(record) async for record in stream] == [Notice, Gone]


async def test_a_stop_after_the_death_does_not_hide_its_cause() -> None:
    """A child that died by itself is not called stopped because it was stopped later."""
    source = await child(f"print({HELLO!r}, flush=True)\nraise SystemExit(9)")
    stream = source.records()
    await anext(stream)
    assert await source._child.exited_within(5)
    await source.stop()
    gone = await anext(stream)
    assert isinstance(gone, Gone)
    assert (gone.exit_status, gone.expected) == (9, False)


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
    """A command to a child that is gone, or closed its stdin, returns False and raises nothing."""
    source = await child("pass")
    await everything(source)
    assert await source.send(StopCommand()) is False
    source = await child(
        f"import os, time\nos.close(0)\nprint({HELLO!r}, flush=True)\ntime.sleep(9)"
    )
    stream = source.records()
    await anext(stream)
    assert [await source.send(StopCommand()) for _ in range(2)][-1] is False
    await source.stop()


async def test_sending_to_a_child_that_never_reads_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its pipe is full a command is refused in bounded time; stopping works all the same."""
    monkeypatch.setattr(local, "_SEND_S", 0.05)
    source = await child(f"import time\nprint({HELLO!r}, flush=True)\ntime.sleep(60)")
    await anext(source.records())
    filler = WatchCommand(uuid="x" * 100_000, worker_pid=None)
    assert False in [await source.send(filler) for _ in range(4)]
    assert await source.send(HoldCommand(paused=True)) is False
    await source.stop()
    assert not alive(source.pid)


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


async def test_killing_needs_no_loop() -> None:
    """kill_now ends the child from a crash path; stopping afterwards only collects it."""
    source = await child(f"print({HELLO!r}, flush=True); input()")
    stream = source.records()
    await anext(stream)
    source.kill_now()
    await source.stop()
    assert not alive(source.pid)
    gone = await anext(stream)
    assert isinstance(gone, Gone)
    assert (gone.exit_status, gone.expected) == (-signal.SIGKILL, True)


async def test_stopping_before_anything_is_read_leaves_nothing() -> None:
    """A child nobody listened to is stopped like any other, from two places at once too."""
    source = await child(f"print({HELLO!r}, flush=True); input()")
    await asyncio.gather(source.stop(), source.stop())
    assert not alive(source.pid)
    assert [type(record) for record in await everything(source)][-1] is Gone


async def test_the_real_worker_ends_with_its_stdin() -> None:
    """The worker says hello before torch is there and leaves no process when it is stopped."""
    source = await start_helper("worker")
    stream = source.records()
    hello = await asyncio.wait_for(anext(stream), 20)
    assert isinstance(hello, Hello)
    assert hello.pid == source.pid
    await source.stop()
    assert not alive(source.pid)


async def test_files_where_kvtui_is_called_are_not_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A torch.py or msgspec.py in the present folder reaches no helper."""
    for name in ("torch", "msgspec", "select"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.chdir(tmp_path)
    source = await start_helper("monitor")
    assert isinstance(await anext(source.records()), Hello)
    await source.stop()


async def test_a_helper_that_cannot_be_started_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """No interpreter: a source whose only record is the Gone with the reason."""
    monkeypatch.setattr(sys, "executable", "no-such-python")
    source = await start_worker()
    (gone,) = [record async for record in source.records()]
    assert isinstance(gone, Gone)
    assert gone.sentence == (
        "The worker cannot be started: no-such-python: No such file or directory."
    )
    assert await source.send(StopCommand()) is False
    await source.stop()
    source.kill_now()
