"""The room of a replay: its worker is a recording, which can be held, sped up and wound.

The screen over it is the one over a live run. Winding goes back to the snapshot before the moment
wanted and reads on from there, so it costs the same in a long recording as in a short one.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable
from time import monotonic
from typing import Final

from kvtui.client.recording import Mark, Recording
from kvtui.client.replay import Pace, ReplaySource
from kvtui.client.source import Source
from kvtui.session.live import Live
from kvtui.tui.engine_room import EngineRoom
from kvtui.tui.replay_timeline import Timeline

_LEAST_JUMP_MS: Final = 1000.0


class ReplayRoom(EngineRoom):
    """Owns one recording and the source that reads it."""

    def __init__(
        self, live: Live, recording: Recording, clock: Callable[[], float] = monotonic
    ) -> None:
        """Feed ``live`` from ``recording``."""
        super().__init__(live)
        self._recording = recording
        self.pace = Pace(clock)
        self.timeline = Timeline(recording, clock)
        self._following: asyncio.Task[None] | None = None
        self._winding: asyncio.Task[None] | None = None
        self._target_ms: float | None = None
        """A moment that is wanted and not yet read."""

    # -- where it stands ---------------------------------------------------------------------

    @property
    def at_end(self) -> bool:
        """Every record was handed out."""
        return self._worker is None

    @property
    def position_ms(self) -> float:
        """The moment shown, or wanted."""
        if self._target_ms is not None:
            return min(self._target_ms, self.timeline.reached_ms)
        if self.at_end:
            return self.timeline.reached_ms
        now_ms = self.pace.now_ms
        return min(now_ms, self.timeline.reached_ms) if self.timeline.complete else now_ms

    def words(self) -> tuple[str, ...]:
        """The state of the replay: position and length, speed, and what stands still."""
        length = clock_time(self.timeline.reached_ms)
        if not self.timeline.complete:
            length = f"{length}+ reading {self.timeline.share:.0%}"
        speed = "max" if math.isinf(self.pace.speed) else f"{self.pace.speed:g}x"
        found = [f"REPLAY {clock_time(self.position_ms)} of {length}", speed]
        if self.at_end:
            found.append("END")
        elif self.pace.paused:
            found.append("PAUSED")
        return tuple(found)

    # -- what moves it -----------------------------------------------------------------------

    async def watch(self) -> None:
        """Begin to play, and to read ahead."""
        self._play(Mark())
        task = asyncio.create_task(self.timeline.build())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def hold(self, *, paused: bool) -> None:
        """Stop time, or let it go on."""
        self.pace.pause(paused=paused)

    def wind_by(self, jumps: int) -> None:
        """``jumps`` fiftieths of the recording on, or back; a second at least."""
        jump_ms = max(_LEAST_JUMP_MS, self.timeline.reached_ms / 50)
        self.wind_to(self.position_ms + jumps * jump_ms)

    def wind_to(self, at_ms: float) -> None:
        """Show the moment ``at_ms``; the latest wish counts, once that far is read."""
        timeline = self.timeline
        self._target_ms = max(0.0, min(at_ms, timeline.reached_ms) if timeline.complete else at_ms)
        if timeline.complete or self._target_ms <= timeline.reached_ms:
            self._arrive()
        elif self._winding is None or self._winding.done():
            self._winding = asyncio.create_task(self._wind())
            self._tasks.add(self._winding)
            self._winding.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Stop reading and close the file."""
        await super().stop()
        self._recording.close()

    async def _wind(self) -> None:
        while self._target_ms is not None:
            target_ms = self._target_ms
            await self.timeline.covers(target_ms)
            if self._target_ms == target_ms:
                self._target_ms = min(target_ms, self.timeline.reached_ms)
                self._arrive()

    def _arrive(self) -> None:
        """Restore the snapshot before the target and take in the records up to it."""
        assert self._target_ms is not None
        target_ms, self._target_ms = self._target_ms, None
        stop = self.timeline.before(target_ms)
        live, mark = stop.live.snapshot(), stop.mark
        reader = self._recording.read(mark)
        for record in reader:
            if reader.at_ms > target_ms:
                break
            live.apply(record)
            mark = reader.mark()
        self._live.restore(live)
        self._play(mark)
        self.pace.stand_at(target_ms)

    def _play(self, mark: Mark) -> None:
        """Read on from ``mark``, in place of whatever was being read."""
        if self._following is not None:
            self._following.cancel()
        if self._worker is not None:
            self._worker.kill_now()
        self._worker = ReplaySource(self._recording, mark, self.pace)
        self._following = asyncio.create_task(self._apply_while_current(self._worker))
        self._tasks.add(self._following)
        self._following.add_done_callback(self._tasks.discard)

    async def _apply_while_current(self, source: Source) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            async for record in source.records():
                self._live.apply(record)
            if source is self._worker:
                self._worker = None


def clock_time(milliseconds: float) -> str:
    """``m:ss``, with hours where there are any."""
    seconds = int(milliseconds / 1e3)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
