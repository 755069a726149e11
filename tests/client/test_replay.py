"""A recording as a source: order, pace, and one ``Gone`` at its end."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kvtui.client.recording import Mark, Recording
from kvtui.client.replay import SPEEDS, Pace, ReplaySource
from kvtui.records import AnyRecord, Gone, HoldCommand, StopCommand
from tests.client.recordings import write


class HandClock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    path = tmp_path / "run.jsonl"
    write(path, 100)
    opened = Recording(path)
    yield opened
    opened.close()


def fast(pace: Pace) -> Pace:
    pace.shift(len(SPEEDS))
    return pace


async def everything(source: ReplaySource) -> list[AnyRecord]:
    return [record async for record in source.records()]


async def test_a_replay_is_the_recording_and_then_one_gone(recording: Recording) -> None:
    """As fast as possible: every record in order, and last a Gone that nobody need fear."""
    found = await everything(ReplaySource(recording, Mark(), fast(Pace())))
    assert found[:-1] == list(recording.read())
    last = found[-1]
    assert isinstance(last, Gone)
    assert last.expected
    assert not any(isinstance(one, Gone) for one in found[:-1])


@pytest.mark.parametrize("from_the_middle", [False, True])
async def test_a_torn_recording_ends_as_a_lost_worker(
    tmp_path: Path, from_the_middle: bool
) -> None:
    """Where the run had not ended, the last record says that the recording breaks off."""
    path = tmp_path / "torn"
    write(path, 100, finish=False)
    recording = Recording(path)
    reader = recording.read()
    marks = [reader.mark() for _ in reader]
    start = marks[len(marks) // 2] if from_the_middle else Mark()
    last = (await everything(ReplaySource(recording, start, fast(Pace()))))[-1]
    recording.close()
    assert isinstance(last, Gone)
    assert (last.expected, last.sentence) == (False, "The recording breaks off here.")


async def _next(records: AsyncIterator[AnyRecord]) -> AnyRecord:
    return await asyncio.wait_for(anext(records), 5)


async def _waits(records: AsyncIterator[AnyRecord]) -> asyncio.Task[AnyRecord]:
    """A read that the pace holds back."""
    task = asyncio.ensure_future(anext(records))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_records_come_when_they_are_due(recording: Recording) -> None:
    """At twice the speed a record of 100 ms comes after 50 ms; paused, not at all."""
    clock = HandClock()
    pace = Pace(clock)
    pace.shift(1)
    source = ReplaySource(recording, Mark(), pace)
    records = source.records()
    at_once = [one for one in recording.read() if not one.at_ms]
    for expected in at_once:
        assert await _next(records) == expected
    first_due = next(one for one in recording.read() if one.at_ms >= 90)
    late = await _waits(records)
    assert await source.send(HoldCommand(paused=True))
    clock.now_s += 60
    for _ in range(20):
        await asyncio.sleep(0)
    assert not late.done()
    assert await source.send(HoldCommand(paused=False))
    clock.now_s += first_due.at_ms / 1e3 / 2
    pace.changed.set()
    assert await asyncio.wait_for(late, 5) == first_due
    await source.stop()
    rest = [one async for one in records]
    assert isinstance(rest[-1], Gone)
    assert len(rest) == 1


async def test_only_holding_can_be_asked_of_a_recording(recording: Recording) -> None:
    """Other commands find nobody."""
    assert not await ReplaySource(recording, Mark(), Pace()).send(StopCommand())


def test_time_goes_by_at_the_speed_chosen() -> None:
    """Changing the speed keeps the moment; the ends of the scale hold."""
    clock = HandClock()
    pace = Pace(clock)
    clock.now_s += 1
    assert pace.now_ms == pytest.approx(1000)
    pace.shift(2)
    clock.now_s += 1
    assert pace.speed == 4
    assert pace.now_ms == pytest.approx(5000)
    pace.pause(paused=True)
    clock.now_s += 100
    assert pace.now_ms == pytest.approx(5000)
    pace.shift(-100)
    assert pace.speed == 0.25
    pace.shift(100)
    assert math.isinf(pace.speed)
    assert SPEEDS[-2] == 64
