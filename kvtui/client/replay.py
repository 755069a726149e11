"""A recording as a source: its records at the pace at which they came, or at another.

Who reads it cannot tell it from a helper process: records, then exactly one ``Gone``. It only
reads; where to start and how fast is said from outside.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Final

from kvtui.client.recording import Mark, Reader, Recording
from kvtui.records import AnyRecord, Command, Gone, HoldCommand

SPEEDS: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, math.inf)
"""Seconds of the recording in a second; the last is as fast as it can be read."""
_AHEAD_S: Final = 0.02
"""A record due within this time is handed out now: fewer wake-ups, nothing visible."""
_SLICE_S: Final = 0.008
"""Work without a break; between two slices others get their turn."""


class Pace:
    """How fast recorded time goes by, and where it stands; changed while somebody reads."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """Real speed, going."""
        self.clock = clock
        self.changed = asyncio.Event()
        self._speed, self._paused = 1.0, False
        self._anchor_s, self._anchor_ms = clock(), 0.0

    @property
    def speed(self) -> float:
        """One of ``SPEEDS``."""
        return self._speed

    @property
    def paused(self) -> bool:
        """Time stands still."""
        return self._paused

    @property
    def now_ms(self) -> float:
        """The moment of the recording that is due now."""
        if self._paused or math.isinf(self._speed):
            return self._anchor_ms
        return self._anchor_ms + (self.clock() - self._anchor_s) * 1e3 * self._speed

    def stand_at(self, at_ms: float) -> None:
        """Go on from ``at_ms``."""
        self._anchor_s, self._anchor_ms = self.clock(), at_ms

    def pause(self, *, paused: bool) -> None:
        """Stop time, or let it go on."""
        self.stand_at(self.now_ms)
        self._paused = paused
        self.changed.set()

    def shift(self, by: int) -> None:
        """``by`` speeds faster, or slower; at the ends nothing changes."""
        self.stand_at(self.now_ms)
        index = SPEEDS.index(self._speed) + by
        self._speed = SPEEDS[min(len(SPEEDS) - 1, max(0, index))]
        self.changed.set()


class ReplaySource:
    """Reads ``recording`` from a mark on; a ``Source``."""

    def __init__(self, recording: Recording, start: Mark, pace: Pace) -> None:
        """Time is ``pace``'s, which stands at ``start`` from now on."""
        self._recording, self._start, self._pace = recording, start, pace
        self._stopped = False
        pace.stand_at(start.at_ms)

    async def records(self) -> AsyncIterator[AnyRecord]:
        """Every record when it is due, then the ``Gone`` that says the recording has ended."""
        reader = self._recording.read(self._start)
        slice_ends_s = self._pace.clock() + _SLICE_S
        for record in reader:
            if await self._due(reader):
                slice_ends_s = self._pace.clock() + _SLICE_S
            elif self._pace.clock() >= slice_ends_s:
                await asyncio.sleep(0)
                slice_ends_s = self._pace.clock() + _SLICE_S
            if self._stopped:
                break
            yield record
        torn = reader.running and not self._stopped
        sentence = f"The recording {'breaks off' if torn else 'ends'} here."
        yield Gone(role="worker", sentence=sentence, exit_status=None, expected=not torn)

    async def send(self, command: Command) -> bool:
        """Holding stops time; nothing else can be asked of a recording."""
        if isinstance(command, HoldCommand):
            self._pace.pause(paused=command.paused)
            return True
        return False

    async def stop(self) -> None:
        """Hand out nothing more."""
        self.kill_now()

    def kill_now(self) -> None:
        """Hand out nothing more."""
        self._stopped = True
        self._pace.changed.set()

    async def _due(self, reader: Reader) -> bool:
        """Wait until the record read last is due; whether there was anything to wait for."""
        waited = False
        pace = self._pace
        while not self._stopped:
            if math.isinf(pace.speed) and not pace.paused:
                pace.stand_at(reader.at_ms)
                break
            ahead_s = (reader.at_ms - pace.now_ms) / 1e3 / pace.speed
            if not pace.paused and ahead_s <= _AHEAD_S:
                break
            pace.changed.clear()
            timeout_s = None if pace.paused else ahead_s
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(pace.changed.wait(), timeout_s)
            waited = True
        return waited
