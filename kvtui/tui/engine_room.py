"""The helper processes behind the screen: started when needed, followed, stopped in one place.

Records are applied to ``Live`` as they come; nothing is posted to the screen, which looks at
``revision`` when it draws.
"""

import asyncio
from collections.abc import Callable, Mapping

from kvtui.client.device_lock import DeviceBusyError, DeviceLock, device_name
from kvtui.client.local import LOCAL, Helpers
from kvtui.client.logbook import log_record
from kvtui.client.recorder import Recorder
from kvtui.client.source import Source
from kvtui.client.spool import Spool
from kvtui.decode_run import DecodeRun
from kvtui.log import LOG
from kvtui.records import (
    AnyRecord,
    EngineDevice,
    Gone,
    HoldCommand,
    RunAsked,
    RunCommand,
    StopCommand,
    WatchCommand,
    run_command,
)
from kvtui.session.live import Live
from kvtui.units import format_ms


class EngineRoom:
    """Owns at most one worker and one monitor."""

    def __init__(self, live: Live, helpers: Helpers = LOCAL) -> None:
        """Feed ``live`` from ``helpers``."""
        self._live = live
        self._helpers = helpers
        self._worker: Source | None = None
        self._monitor: Source | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._worker_task: asyncio.Task[None] | None = None
        self._number = 0
        self._lock = DeviceLock()
        self._monitor_lost = False
        self._told = ""
        """Who holds the device, once that was said."""
        self._spool = Spool()
        self.recorder: Recorder | None = None
        """Where records go as well, while they are recorded."""
        self.say: Callable[[str], None] = LOG.error
        """Told when a recording fails."""

    async def watch(self) -> None:
        """Start the monitor and follow it."""
        self._monitor_lost = False
        self._monitor = await self._helpers.monitor()
        self._follow(self._monitor)

    def link_words(self) -> tuple[str, ...]:
        """The other machine and how long the way there and back takes; none for this one."""
        place, link = self._helpers.place, self._live.link
        if not place:
            return ()
        if self._monitor_lost:
            return (f"{place} NO LINK" if link is None else f"{place} LINK LOST",)
        return (place if link is None else f"{place} {format_ms(link.round_trip_ms)}",)

    def record(self, recorder: Recorder) -> None:
        """From now on write to ``recorder`` too, the present run from its beginning."""
        self.recorder = recorder
        recorder.copy(self._spool.data())
        self._look_at(recorder)
        if not self._spool.whole:
            self.say("This run is longer than what is kept of it: its middle is not recorded.")

    def end_recording(self) -> None:
        """Close the file."""
        recorder, self.recorder = self.recorder, None
        if recorder is not None:
            failed = recorder.failure
            recorder.close()
            if recorder.failure is not None and failed is None:
                self.say(recorder.failure)

    async def run(self, wanted: DecodeRun, fields: Mapping[str, str] | None = None) -> None:
        """Start a run, and the worker if none takes it; ``fields`` are the question as typed.

        Raises:
            DeviceBusyError: another kvtui runs on the device; asking again runs all the same.
        """
        self._claim(device_name(wanted.device, self._helpers.place))
        self._number += 1
        command: RunCommand = run_command(self._number, wanted)
        self._take(RunAsked(command=command, fields=dict(fields or {})))
        if self._worker is not None and await self._worker.send(command):
            return
        await self._drop_worker()
        if self._monitor_lost:
            await self.watch()
        worker = self._worker = await self._helpers.worker()
        self._worker_task = self._follow(worker)
        await worker.send(command)

    async def end(self) -> None:
        """Stop the run at its next step."""
        if self._worker is not None:
            await self._worker.send(StopCommand())

    async def hold(self, *, paused: bool) -> None:
        """Pause the run, or let it go on."""
        if self._worker is not None:
            await self._worker.send(HoldCommand(paused=paused))

    async def stop(self) -> None:
        """End everything; returns when no child is left."""
        self.end_recording()
        found = [one for one in (self._worker, self._monitor) if one is not None]
        self._worker = self._monitor = None
        await asyncio.gather(*(one.stop() for one in found))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._lock.release()

    def kill_now(self) -> None:
        """End everything at once, from wherever."""
        for one in (self._worker, self._monitor):
            if one is not None:
                one.kill_now()

    def _take(self, record: AnyRecord) -> None:
        """Everything that is known goes through here."""
        self._live.apply(record)
        if not self._live.running:
            self._lock.release()
        log_record(record)
        self._spool.add(record)
        if self.recorder is not None and self.recorder.failure is None:
            self.recorder.write(record)
            self._look_at(self.recorder)

    def _look_at(self, recorder: Recorder) -> None:
        if recorder.failure is not None:
            self.say(recorder.failure)

    def _claim(self, device: str) -> None:
        """Hold ``device`` for a run; whom it is taken from is said once, before."""
        holder = self._lock.take(device)
        told, self._told = self._told, holder or ""
        if holder is not None and holder != told:
            raise DeviceBusyError(f"{device} is in use by {holder}; r again runs anyway.")

    async def _drop_worker(self) -> None:
        """End a worker that takes no commands; what it still says is of no run any more."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        if self._worker_task is not None:
            self._worker_task.cancel()
        await worker.stop()

    def _follow(self, source: Source) -> asyncio.Task[None]:
        task = asyncio.create_task(self._apply_all(source))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _apply_all(self, source: Source) -> None:
        async for record in source.records():
            self._take(record)
            if isinstance(record, EngineDevice) and self._monitor is not None:
                watch = WatchCommand(uuid=record.uuid, worker_pid=self._live.worker_pid)
                await self._monitor.send(watch)
            if isinstance(record, Gone) and source is self._worker:
                self._worker = None
            elif isinstance(record, Gone) and source is self._monitor:
                self._monitor, self._monitor_lost = None, True
