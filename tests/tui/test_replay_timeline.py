"""Snapshots along a recording."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtui.client.recording import Recording
from kvtui.session.live import Live
from kvtui.tui.replay_timeline import Timeline
from tests.client.recordings import write


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    write(tmp_path / "run", 6000, period_ms=10.0)
    opened = Recording(tmp_path / "run")
    yield opened
    opened.close()


async def test_what_is_kept_does_not_grow_with_the_recording(recording: Recording) -> None:
    """Thousands of records leave at most a hundred snapshots, the last near the end."""
    assert sum(1 for _ in recording.read()) > 3000
    timeline = Timeline(recording)
    await timeline.build()
    assert timeline.complete
    assert timeline.share == 1.0
    assert 80 <= len(timeline._stops) <= 100
    assert timeline.end.steps == 6000


async def test_every_moment_has_a_stop_before_it(recording: Recording) -> None:
    """The stop of a moment is never after it, and reading on from it meets that moment."""
    timeline = Timeline(recording)
    await timeline.build()
    for tenth in range(11):
        at_ms = timeline.reached_ms * tenth / 10
        stop = timeline.before(at_ms)
        assert stop.at_ms <= at_ms
        assert at_ms - stop.at_ms <= timeline.reached_ms / 40
    assert timeline.before(-1.0).live.run is None


async def test_a_length_is_found_as_exactly_as_it_was_recorded(recording: Recording) -> None:
    """The state at a length is the first one that has reached it; beyond the end, the end."""
    timeline = Timeline(recording)
    await timeline.build()
    for tokens in (4097, 5000, 7777, 10_095):
        live = Live()
        for record in recording.read():
            if live.tokens >= tokens:
                break
            live.apply(record)
        found = timeline.at_length(tokens)
        assert (found.tokens, found.steps) == (live.tokens, live.steps)
    assert timeline.at_length(10**9) is timeline.end


async def test_others_get_their_turn_while_it_is_read(recording: Recording) -> None:
    """Reading is done in slices; whoever waits for a moment wakes once it is reached."""

    class Slow:
        """Every look at it is a slice's worth of time."""

        now_s = 0.0

        def __call__(self) -> float:
            self.now_s += 1.0
            return self.now_s

    timeline = Timeline(recording, Slow())
    building = asyncio.create_task(timeline.build())
    await timeline.covers(1000.0)
    assert 1000.0 <= timeline.reached_ms < 2000.0
    assert not building.done()
    await timeline.covers(float("inf"))
    assert timeline.end.steps == 6000
    await building
