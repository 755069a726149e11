"""Snapshots along a recording, so that any moment of it is near one.

The file is read once, in slices between which the screen gets its turn; what is kept is a fixed
number of views and of places to read on from, however long the recording.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from kvtui.client.recording import Mark, Recording
from kvtui.records import RunAsked
from kvtui.session.live import Live

_STOPS: Final = 96
_SLICE_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Stop:
    """What was known at one moment, and where the records after it begin."""

    at_ms: float
    mark: Mark
    live: Live


class Timeline:
    """Grows until the whole recording is covered."""

    def __init__(self, recording: Recording, clock: Callable[[], float] = monotonic) -> None:
        """Nothing but the beginning is known yet."""
        self._recording, self._clock = recording, clock
        self._stops = [Stop(0.0, Mark(), Live())]
        self.end = Live()
        """What is known at ``reached_ms``."""
        self.reached_ms = 0.0
        self.share = 0.0
        """Of the file that was read."""
        self.asked: dict[int, RunAsked] = {}
        """The question of each run."""
        self.complete = False
        self.progressed = asyncio.Event()
        """Set when more is covered."""

    async def build(self) -> None:
        """Read the recording to its end."""
        reader = self._recording.read()
        distance = max(1, self._recording.size_bytes // _STOPS)
        next_stop = distance
        slice_ends_s = self._clock() + _SLICE_S
        for record in reader:
            if isinstance(record, RunAsked):
                self.asked[record.command.run] = record
            self.end.apply(record)
            self.reached_ms = reader.at_ms
            if reader.offset >= next_stop:
                mark = reader.mark()
                self._stops.append(Stop(reader.at_ms, mark, self.end.snapshot()))
                next_stop = reader.offset + distance
            if self._clock() >= slice_ends_s:
                self.share = reader.offset / self._recording.size_bytes
                self.progressed.set()
                await asyncio.sleep(0)
                slice_ends_s = self._clock() + _SLICE_S
        self.share, self.complete = 1.0, True
        self.progressed.set()

    async def covers(self, at_ms: float) -> None:
        """Wait until ``at_ms`` was reached, or the end."""
        while not self.complete and self.reached_ms < at_ms:
            self.progressed.clear()
            await self.progressed.wait()

    def at_length(self, tokens: int) -> Live:
        """What was known of the last run at ``tokens`` a sequence, or at its end."""
        if self.end.tokens <= tokens:
            return self.end
        number = self.end.number
        stop = next(
            (
                one
                for one in reversed(self._stops)
                if one.live.number == number and one.live.tokens <= tokens
            ),
            self._stops[0],
        )
        live = stop.live.snapshot()
        for record in self._recording.read(stop.mark):
            if live.number == number and live.tokens >= tokens:
                break
            live.apply(record)
        return live

    def before(self, at_ms: float) -> Stop:
        """The last stop not after ``at_ms``."""
        return self._stops[max(0, bisect_right(self._stops, at_ms, key=lambda one: one.at_ms) - 1)]
