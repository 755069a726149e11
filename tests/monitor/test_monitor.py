"""The monitor over real pipes, and its sentences over a faked library."""

import io
import json
import os
import signal
import subprocess
import sys

import pytest

from kvtui.monitor import Monitor
from kvtui.nvml import NvmlSession, NvmlUnavailableError
from kvtui.records import WatchCommand, encode
from tests.nvml import fake
from tests.nvml.fake import FakeNvml


def start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "kvtui.monitor", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def lines(stream: io.BytesIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_it_says_hello_reads_and_ends_with_its_stdin() -> None:
    """Hello first, then the host; closing stdin ends it at once with status 0."""
    with start() as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert json.loads(child.stdout.readline())["role"] == "monitor"
        kinds = {json.loads(child.stdout.readline())["type"] for _ in range(2)}
        assert "host" in kinds or "gpu" in kinds
        child.stdin.write(encode(WatchCommand(uuid=None, worker_pid=os.getpid())))
        child.stdin.flush()
        while True:
            record = json.loads(child.stdout.readline())
            if record["type"] == "host" and record["worker_resident_bytes"]:
                break
        child.stdin.close()
        assert child.wait(timeout=2) == 0


def test_sigterm_ends_it() -> None:
    """SIGTERM leaves with 143."""
    with start() as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=2) == 143


def test_once_is_one_reading() -> None:
    """--once prints one reading and ends with status 0, with or without NVML."""
    with start("--once") as child:
        out, _ = child.communicate(timeout=20)
        assert child.returncode == 0
        assert [json.loads(line)["type"] for line in out.splitlines()].count("host") == 1


def test_the_interval_has_a_floor() -> None:
    """An interval below a quarter of a second is refused with the reason."""
    with start("--interval", "0.01") as child:
        _, error = child.communicate(timeout=20)
        assert child.returncode == 2
        assert b"NVML calls take time" in error


def test_a_state_is_said_once_and_once_when_it_is_over() -> None:
    """Missing NVML is one notice however often it is read; its return is another."""
    now = [0.0]
    module = FakeNvml()
    broken = [True]

    def open_nvml() -> NvmlSession:
        if broken[0]:
            module.broken["nvmlInit"] = fake.NVMLError_DriverNotLoaded()
        else:
            module.broken.clear()
        return NvmlSession(module)

    out = io.BytesIO()
    monitor = Monitor(out, open_nvml=open_nvml, clock=lambda: now[0])
    for _ in range(3):
        monitor.read()
        now[0] += 1.0
    broken[0] = False
    now[0] += 60.0
    monitor.read()
    notices = [line for line in lines(out) if line["type"] == "notice"]
    assert [notice["severity"] for notice in notices] == ["warning", "info"]
    assert "not loaded" in str(notices[0]["sentence"])
    assert [line["type"] for line in lines(out)].count("gpu") == 1


def test_it_follows_the_device_it_is_told() -> None:
    """A watch command switches to the worker's device; an unknown one is said."""
    out = io.BytesIO()
    monitor = Monitor(out, open_nvml=lambda: NvmlSession(FakeNvml()), clock=lambda: 0.0)
    monitor.take(encode(WatchCommand(uuid="bbbb", worker_pid=None)))
    monitor.read()
    monitor.take(encode(WatchCommand(uuid="GPU-zzzz", worker_pid=None)))
    monitor.read()
    monitor.take(b"nonsense")
    found = lines(out)
    assert [line["uuid"] for line in found if line["type"] == "gpu"] == ["GPU-bbbb"]
    sentences = [str(line["sentence"]) for line in found if line["type"] == "notice"]
    assert "GPU-zzzz" in sentences[0]
    assert sentences[1].startswith("Ignored")


def test_all_devices_are_read_at_once() -> None:
    """One look at every device reads both GPUs and the host."""
    out = io.BytesIO()
    Monitor(out, open_nvml=lambda: NvmlSession(FakeNvml()), clock=lambda: 0.0).read_all()
    assert [line["type"] for line in lines(out)] == ["gpu", "gpu", "host"]


def test_a_failure_to_open_is_an_unavailable_error() -> None:
    """The error that --gpu auto turns into exit 3 is the monitor's sentence."""
    module = FakeNvml()
    module.broken["nvmlInit"] = fake.NVMLError_LibraryNotFound()
    with pytest.raises(NvmlUnavailableError) as caught:
        NvmlSession(module)
    assert caught.value.exit_code == 3
