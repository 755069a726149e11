"""Events are read when the device has passed them, and the queue stays short."""

import pytest
import torch

from kvtui.engine.timing import CpuTimer, CudaTimer

STEP_MS = 2.0


class FakeEvent:
    """An event of a device that finishes a step whenever the test lets it."""

    made = 0
    recorded = 0
    finished = 0
    waited = 0

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        FakeEvent.made += 1
        self.place = 0

    def record(self, stream: object) -> None:
        FakeEvent.recorded += 1
        self.place = FakeEvent.recorded

    def query(self) -> bool:
        return self.place <= FakeEvent.finished

    def synchronize(self) -> None:
        if not self.query():
            FakeEvent.waited += 1
            FakeEvent.finished = self.place

    def elapsed_time(self, other: "FakeEvent") -> float:
        return STEP_MS * (other.place - self.place)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> CudaTimer:
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    FakeEvent.made = FakeEvent.recorded = FakeEvent.finished = FakeEvent.waited = 0
    return CudaTimer(torch.device("cuda", 0))


def one_step(clock: CudaTimer) -> None:
    clock.begin()
    clock.end()


def test_nothing_is_read_before_the_device_is_there(clock: CudaTimer) -> None:
    """A step still running yields nothing and is not waited for."""
    one_step(clock)
    assert list(clock.drained()) == []
    assert FakeEvent.waited == 0
    FakeEvent.finished = FakeEvent.recorded
    assert [device for device, _ in clock.drained()] == [STEP_MS * 1e6]


def test_every_step_is_read_once_and_in_order(clock: CudaTimer) -> None:
    """The final drain gives all that is left, whatever was read before."""
    read = 0
    for step in range(200):
        one_step(clock)
        if step % 3 == 0:
            FakeEvent.finished = FakeEvent.recorded - 2
        read += len(list(clock.drained()))
    read += len(list(clock.drained(wait=True)))
    assert read == 200


def test_the_queue_is_bounded_in_time_and_events_are_reused(clock: CudaTimer) -> None:
    """At 2 ms a step no more than 50 ms are queued, from a fixed ring of events."""
    pending = 0
    for _ in range(500):
        one_step(clock)
        pending += 1 - len(list(clock.drained()))
        assert pending <= 25
    assert FakeEvent.made <= 2 * 27


def test_a_pause_is_no_wall_time(clock: CudaTimer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wall time counts from the end of the step before, or from when the run went on."""
    now = iter([10_000_000_000, 10_002_000_000])
    monkeypatch.setattr("kvtui.engine.timing.perf_counter_ns", lambda: next(now))
    clock.resume()
    one_step(clock)
    assert [wall for _, wall in clock.drained(wait=True)] == [2_000_000]


def test_a_cpu_step_is_known_at_its_end() -> None:
    """Device time is wall time on a CPU, one pair a step."""
    clock = CpuTimer()
    clock.begin()
    clock.end()
    ((device, wall),) = clock.drained()
    assert device == wall > 0
    assert list(clock.drained(wait=True)) == []
