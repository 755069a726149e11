"""The worker as its parent sees it: records over real pipes, and an end that comes at once."""

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest

from kvtui.decode_run import DecodeRun
from kvtui.records import (
    Command,
    HoldCommand,
    StopCommand,
    WatchCommand,
    decode_record,
    encode,
    run_command,
)
from kvtui.spec import FullAttention

PATIENCE_S = 60.0
RecordLine = dict[str, Any]


def decode_run(**changed: object) -> DecodeRun:
    group = FullAttention(layers=2, q_heads=4, kv_heads=2, k_width=16, v_width=16)
    fields: dict[str, object] = {
        "groups": (group,),
        "batch": 2,
        "start": 16,
        "target": 80,
        "device": "cpu",
        "threads": 1,
        "probe_bytes": 2**20,
    }
    return DecodeRun(**fields | changed)  # type: ignore[arg-type]


ENDLESS = decode_run(target=2**16)


class Worker:
    """A worker process and the lines it wrote."""

    def __init__(self, *before: str) -> None:
        code = ["-c", "; ".join((*before, "from kvtui.worker.__main__ import main; main()"))]
        self.process = subprocess.Popen(
            [sys.executable, *(code if before else ["-m", "kvtui.worker"])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if before else subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        self._out = self.process.stdout.fileno()
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._out, selectors.EVENT_READ)
        self._pending = b""
        self._lines: list[bytes] = []

    def send(self, *commands: Command | bytes) -> None:
        assert self.process.stdin is not None
        for command in commands:
            self.process.stdin.write(command if isinstance(command, bytes) else encode(command))
        self.process.stdin.flush()

    def line(self) -> RecordLine | None:
        """The next record; None at the end of the stream. Fails instead of waiting forever."""
        while not self._lines:
            if not self._ready.select(PATIENCE_S):
                pytest.fail("the worker says nothing")
            chunk = os.read(self._out, 65536)
            if not chunk:
                assert not self._pending
                return None
            *self._lines, self._pending = (self._pending + chunk).split(b"\n")
        line = self._lines.pop(0)
        assert decode_record(line) is not None
        found: RecordLine = json.loads(line)
        return found

    def until(self, wanted: Callable[[RecordLine], bool]) -> list[RecordLine]:
        """Records up to and including the first ``wanted``."""
        found = []
        while (record := self.line()) is not None:
            found.append(record)
            if wanted(record):
                return found
        pytest.fail(f"the worker ended after {[one['type'] for one in found]}")

    def until_type(self, name: str) -> list[RecordLine]:
        return self.until(lambda record: record["type"] == name)

    def ended(self) -> list[RecordLine]:
        return self.until_type("ended")

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def start() -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def begin(*before: str) -> Worker:
        started.append(Worker(*before))
        return started[-1]

    yield begin
    for worker in started:
        if worker.process.poll() is None:
            worker.process.kill()
        worker.process.wait()
        for pipe in (worker.process.stdin, worker.process.stdout, worker.process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def worker(start: Callable[..., Worker]) -> Worker:
    return start()


def steps_of(records: list[RecordLine]) -> list[RecordLine]:
    return [record for record in records if record["type"] == "steps"]


def counted(records: list[RecordLine], name: str = "device_ns") -> int:
    return sum(sum(record[name].values()) for record in steps_of(records))


def assert_contiguous(records: list[RecordLine]) -> None:
    """Every step is in exactly one aggregate, in order."""
    due = 1
    for record in steps_of(records):
        assert record["first_step"] == due
        due = record["last_step"] + 1


def test_a_run_is_told_in_order(worker: Worker) -> None:
    """Hello, torch, device, limit, plan, start, prompt, kernel, steps, memory, end; once each."""
    worker.send(run_command(1, decode_run()))
    records = worker.ended()
    kinds = [record["type"] for record in records]
    order = ["hello", "stage", "device", "limit", "plan", "started", "prefilled", "evidence"]
    places = [kinds.index(kind) for kind in [*order, "steps"]]
    assert places == sorted(places)
    assert kinds[-1] == "ended"
    assert "memory" in kinds[places[-1] :]
    stages = [record["name"] for record in records if record["type"] == "stage"]
    assert stages[:6] == ["torch", "device", "probe", "allocate", "prefill", "warmup"]
    times = [record["at_ms"] for record in records]
    assert times == sorted(times)
    assert 0 <= times[0] < 50
    end = records[-1]
    assert (end["reason"], end["steps"], end["tokens"]) == ("target", 64, 80)
    assert end["held_kv_bytes"] == 2 * 2 * 2 * 80 * 2 * 16 * 4
    assert counted(records) == counted(records, "wall_ns") == counted(records, "kv_rate") == 64
    assert_contiguous(records)
    assert steps_of(records)[-1]["held_kv_bytes"] == end["held_kv_bytes"]
    (evidence,) = (record for record in records if record["type"] == "evidence")
    assert evidence["kernel"] == "aten::_scaled_dot_product_flash_attention_for_cpu"
    limits = [record["when"] for record in records if record["type"] == "limit"]
    assert limits == ["before", "after"]
    assert worker.close() == 0


def test_runs_follow_each_other_in_one_process(worker: Worker) -> None:
    """A second run finds the worker ready, and does not measure what is known."""
    for number in (1, 2, 3):
        worker.send(run_command(number, decode_run(batch=number)))
        records = worker.ended()
        assert records[-1]["run"] == number
        assert records[-1]["reason"] == "target"
        assert counted(records) == 64
        stages = [record["name"] for record in records if record["type"] == "stage"]
        decoding = stages.index("decode")
        assert ("probe" in stages[:decoding]) == (number == 1)
    begun = monotonic()
    assert worker.close() == 0
    # An idle worker leaves at once when its stdin ends.
    assert monotonic() - begun < 0.3


def test_what_cannot_run_is_refused_and_the_worker_stays(worker: Worker) -> None:
    """A bad field, a cache beyond memory and a broken command are sentences; then it runs."""
    odd = FullAttention(layers=1, q_heads=12, kv_heads=5, k_width=16, v_width=16)
    worker.send(run_command(1, decode_run(groups=(odd,))))
    refused = worker.ended()[-1]
    assert refused["reason"] == "refused"
    assert "q heads is 12" in refused["sentence"]

    large = FullAttention(layers=80, q_heads=64, kv_heads=64, k_width=128, v_width=128)
    worker.send(run_command(2, decode_run(groups=(large,), batch=64, target=2**20)))
    records = worker.ended()
    assert "plan" in [record["type"] for record in records]
    assert records[-1]["reason"] == "refused"
    assert "short" in records[-1]["sentence"]
    assert records[-1]["need_bytes"] > records[-1]["available_bytes"]

    worker.send(b"what?\n", b'{"command":"run","run":"x"}\n', b'{"command":"fly"}\n')
    worker.send(WatchCommand(uuid=None, worker_pid=None))
    for _ in range(4):
        assert worker.until_type("notice")[-1]["sentence"].startswith("Ignored: ")

    worker.send(run_command(3, decode_run()))
    assert worker.ended()[-1]["reason"] == "target"


def test_a_run_is_held_resumed_and_stopped(worker: Worker) -> None:
    """A hold takes no steps until it is over; a stop ends the run with all that was measured."""
    worker.send(run_command(1, ENDLESS))
    records = worker.until_type("steps")
    worker.send(HoldCommand(paused=True))
    records += worker.until_type("held")
    assert records[-1]["paused"] is True
    reached = steps_of(records)[-1]["last_step"]
    still = worker.until_type("memory")
    assert steps_of(still) == []
    worker.send(HoldCommand(paused=False))
    records += still + worker.until(lambda record: record["type"] == "steps")
    held = [record["paused"] for record in records if record["type"] == "held"]
    assert held == [True, False]
    assert steps_of(records)[-1]["first_step"] == reached + 1
    worker.send(HoldCommand(paused=True))
    records += worker.until_type("held")
    worker.send(StopCommand())
    records += worker.ended()
    end = records[-1]
    assert end["reason"] == "stopped"
    assert end["steps"] == steps_of(records)[-1]["last_step"] == counted(records)
    assert_contiguous(records)
    assert end["tokens"] == 16 + end["steps"]


@pytest.mark.parametrize("stage", ["torch", "decode"])
def test_stdin_that_ends_ends_a_busy_worker(worker: Worker, stage: str) -> None:
    """Loading torch or in the middle of a run, it leaves nearly as fast."""
    worker.send(run_command(1, ENDLESS))
    worker.until(lambda record: record.get("name") == stage)
    begun = monotonic()
    assert worker.close() == 0
    # 0.3 s, and what a loaded machine takes while an extension module is being mapped.
    assert monotonic() - begun < (0.3 if stage == "decode" else 1.5)


LONG = (
    "import torch",
    "attention = torch.nn.functional.scaled_dot_product_attention",
    "busy = torch.ones(1500, 1500, dtype=torch.float64)",
    "products = [busy] * 400",
    "import kvtui.engine.decoder as d",
    "d.Decoder.step = lambda self, x, position: torch.linalg.multi_dot(products)",
)


@pytest.mark.parametrize("ending", ["eof", "term"])
def test_a_long_kernel_does_not_keep_the_worker(start: Callable[..., Worker], ending: str) -> None:
    """Inside one operator that takes many seconds, it still leaves when asked."""
    worker = start(*LONG)
    worker.send(run_command(1, decode_run()))
    worker.until(lambda record: record.get("name") == "warmup")
    begun = monotonic()
    if ending == "eof":
        assert worker.close() == 0
    else:
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(PATIENCE_S) == 143
    assert monotonic() - begun < 0.4


def test_only_sigterm_ends_it(worker: Worker) -> None:
    """Ctrl-C reaches the whole terminal group and is the parent's to judge; SIGTERM is 143."""
    worker.send(run_command(1, ENDLESS))
    worker.until_type("steps")
    worker.process.send_signal(signal.SIGINT)
    for _ in range(3):
        worker.until_type("steps")
    begun = monotonic()
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(PATIENCE_S) == 143
    assert monotonic() - begun < 0.3


def test_what_nobody_reads_is_merged_not_lost(start: Callable[..., Worker]) -> None:
    """With a full pipe the loop goes on; later every step is there, in fewer records."""
    small = (
        "import fcntl",
        "fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 4096)",
        "import kvtui.worker.publisher as p",
        "p._PERIOD_S = 0.002",
        "import os, kvtui.engine.run as r",
        "old = r.Run.release",
        "r.Run.release = lambda self: (old(self), os.write(2, b'released'))",
    )
    worker = start(*small)
    worker.send(run_command(1, decode_run(target=2016)))
    assert worker.process.stderr is not None
    # The run says on stderr that it is over; until then nobody reads its records.
    told = b""
    while b"released" not in told:
        chunk = os.read(worker.process.stderr.fileno(), 4096)
        assert chunk
        told += chunk
    records = worker.ended()
    assert records[-1]["steps"] == 2000
    assert counted(records) == counted(records, "wall_ns") == 2000
    assert_contiguous(records)
    assert len(steps_of(records)) < 50


def test_what_libraries_print_stays_out_of_the_records(start: Callable[..., Worker]) -> None:
    """Text on fd 1, from Python or from C, lands on stderr."""
    worker = start(
        "import kvtui.engine.run as r, os, ctypes",
        "old = r.Run.allocate",
        "noise = lambda: (print('{noise', flush=True), os.write(1, b'more\\n'),"
        " ctypes.CDLL(None).puts(b'C'), ctypes.CDLL(None).fflush(None))",
        "r.Run.allocate = lambda self: (noise(), old(self))[1]",
    )
    worker.send(run_command(1, decode_run()))
    assert worker.ended()[-1]["reason"] == "target"


def test_a_failing_run_keeps_its_steps(start: Callable[..., Worker]) -> None:
    """An error in step 21 is a sentence; the twenty steps before it and the worker stay."""
    worker = start(
        "import torch, kvtui.engine.decoder as d",
        "old = d.Decoder.step",
        "fail = lambda: (_ for _ in ()).throw(ValueError('a plain bug'))",
        "d.Decoder.step = lambda self, x, p: fail() if p == 36 else old(self, x, p)",
    )
    worker.send(run_command(1, decode_run()))
    records = worker.ended()
    end = records[-1]
    assert end["reason"] == "lost"
    assert end["sentence"] == "The run failed: ValueError: a plain bug"
    assert (end["steps"], end["tokens"], counted(records)) == (20, 36, 20)
    assert end["held_kv_bytes"] == 2 * 2 * 2 * 36 * 2 * 16 * 4
    worker.send(run_command(2, decode_run(target=30)))
    assert worker.ended()[-1]["reason"] == "target"


def test_a_missing_torch_is_a_sentence(start: Callable[..., Worker]) -> None:
    """Without torch the worker says what is missing and leaves."""
    worker = start("import sys", "sys.modules['torch'] = None")
    notice = worker.until_type("notice")[-1]
    assert notice["severity"] == "error"
    assert "torch" in notice["sentence"]
    assert worker.process.wait(PATIENCE_S) == 3


def test_the_worker_dies_with_its_parent(tmp_path: os.PathLike[str]) -> None:
    """A parent that is killed takes the worker with it, although stdin stays open."""
    script = (
        "import subprocess, sys, os, signal\n"
        "child = subprocess.Popen([sys.executable, '-m', 'kvtui.worker'], stdin=0, stdout=-1)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    read_end, write_end = os.pipe()
    try:
        parent = subprocess.run(
            [sys.executable, "-c", script],
            stdin=read_end,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=PATIENCE_S,
        )
        child = int(parent.stdout)
        deadline = monotonic() + 5
        while alive(child) and monotonic() < deadline:
            os.sched_yield()
        assert not alive(child)
    finally:
        os.close(read_end)
        os.close(write_end)


def alive(pid: int) -> bool:
    """The process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
