"""The monitor over real pipes, and its sentences over a faked library."""

import io
import json
import os
import signal
import subprocess
import sys

import pytest

from kvtui.monitor import Monitor, Schedule
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


def everything(stream: io.BytesIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def lines(out: io.BytesIO) -> list[dict[str, object]]:
    """All but the looks at devices that are not followed."""
    return [line for line in everything(out) if line.get("followed", True)]


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
        kinds = [json.loads(line)["type"] for line in out.splitlines()]
        assert (kinds[0], kinds[-1], kinds.count("host")) == ("hello", "host", 1)
        assert set(kinds[1:-1]) in ({"gpu"}, {"notice"})


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


def test_a_gpu_that_falls_off_the_bus_is_said_once() -> None:
    """The row stays, with nulls; one notice names it, however often it is read."""
    module = FakeNvml()
    module.broken["nvmlDeviceGetName@0"] = fake.NVMLError_GpuIsLost()
    session = NvmlSession(module)
    out = io.BytesIO()
    monitor = Monitor(out, open_nvml=lambda: session, clock=lambda: 0.0)
    for _ in range(3):
        monitor.read()
    found = lines(out)
    assert [line["uuid"] for line in found if line["type"] == "gpu"] == ["GPU-aaaa"] * 3
    (notice,) = [line for line in found if line["type"] == "notice"]
    assert str(notice["sentence"]).startswith("GPU 0 fell off the bus")


def test_a_driver_that_goes_away_ends_nothing() -> None:
    """NVML that stops working is a notice; the host reads on; later it is looked for again."""
    now = [0.0]
    module = FakeNvml()
    out = io.BytesIO()
    monitor = Monitor(out, open_nvml=lambda: NvmlSession(module), clock=lambda: now[0])
    monitor.read()
    module.broken["nvmlDeviceGetName"] = fake.NVMLError_Uninitialized()
    module.broken["nvmlInit"] = fake.NVMLError_DriverNotLoaded()
    monitor.read()
    module.broken.clear()
    for now[0] in (10.0, 60.0):
        monitor.read()
    found = lines(out)
    assert [line["type"] for line in found] == [
        "gpu", "host", "notice", "host", "host", "gpu", "notice", "host",
    ]  # fmt: skip
    assert "not loaded" in str(found[2]["sentence"])
    assert found[6]["sentence"] == "NVML reads again."


def test_the_cpu_has_no_share_before_there_is_an_interval() -> None:
    """The first reading's CPU share is null, not a meaningless 0."""
    out = io.BytesIO()
    monitor = Monitor(out, open_nvml=lambda: NvmlSession(FakeNvml()), clock=lambda: 0.0)
    monitor.read()
    monitor.read()
    first, second = [line["cpu_percent"] for line in lines(out) if line["type"] == "host"]
    assert first is None
    assert second is not None


def test_late_readings_are_skipped_and_the_grid_is_kept() -> None:
    """A reading that took 2.4 intervals costs the two it covered; the next is on the grid."""
    schedule = Schedule(1.0, 100.0)
    assert schedule.wait_s(100.0) == 0.0
    schedule.advance(100.05)
    assert schedule.wait_s(100.05) == pytest.approx(0.95)
    schedule.advance(103.4)
    assert schedule.wait_s(103.4) == pytest.approx(0.6)
    schedule.hurry(103.5)
    assert schedule.wait_s(103.5) == 0.0
    schedule.advance(103.5)
    assert schedule.wait_s(103.5) == pytest.approx(1.0)


def test_a_reader_that_goes_away_ends_it() -> None:
    """A monitor whose records nobody takes ends by itself, although its stdin stays open."""
    with start("--interval", "0.25") as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.wait(timeout=5) == 0


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


def test_other_devices_are_looked_at_now_and_then() -> None:
    """Every fifth reading brings the other GPUs too, marked as not followed."""
    out = io.BytesIO()
    monitor = Monitor(out, open_nvml=lambda: NvmlSession(FakeNvml("GPU-aaaa", "GPU-bbbb")))
    monitor.take(encode(WatchCommand(uuid="GPU-bbbb", worker_pid=None)))
    for _ in range(6):
        monitor.read()
    others = [line["uuid"] for line in everything(out) if not line.get("followed", True)]
    assert others == ["GPU-aaaa", "GPU-aaaa"]
    assert [line["uuid"] for line in lines(out) if line["type"] == "gpu"] == ["GPU-bbbb"] * 6
