"""The helper processes behind the screen: started when needed, followed, stopped in one place.

Records are applied to ``Live`` as they come; nothing is posted to the screen, which looks at
``revision`` when it draws.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from kvtui.client.local import start_monitor, start_worker
from kvtui.client.logbook import log_record
from kvtui.client.recorder import Recorder
from kvtui.client.source import Source
from kvtui.client.spool import Spool
from kvtui.log import LOG
from kvtui.records import (
    AnyRecord,
    EngineDevice,
    Gone,
    HoldCommand,
    Notice,
    RunAsked,
    RunCommand,
    StopCommand,
    WatchCommand,
    run_command,
)
from kvtui.session.live import Live
from kvtui.spec import DecodeRun

Start = Callable[[], Awaitable[Source]]


class EngineRoom:
    """Owns at most one worker and one monitor."""

    def __init__(
        self,
        live: Live,
        *,
        start_worker: Start = start_worker,
        start_monitor: Start = start_monitor,
    ) -> None:
        """Feed ``live``; sources come from the two starters."""
        self._live = live
        self._start_worker, self._start_monitor = start_worker, start_monitor
        self._worker: Source | None = None
        self._monitor: Source | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._number = 0
        self._spool = Spool()
        self.recorder: Recorder | None = None
        """Where records go as well, while they are recorded."""
        self.say: Callable[[str], None] = LOG.error
        """Told when a recording fails."""

    async def watch(self) -> None:
        """Start the monitor and follow it."""
        try:
            self._monitor = await self._start_monitor()
        except OSError as error:
            sentence = f"The monitor cannot be started: {error}."
            self._take(Notice(topic="monitor", severity="warning", sentence=sentence))
            return
        self._follow(self._monitor)

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
        """Start a run, and the worker if there is none; ``fields`` are the question as typed."""
        self._number += 1
        command: RunCommand = run_command(self._number, wanted)
        self._take(RunAsked(command=command, fields=dict(fields or {})))
        if self._worker is None or not await self._worker.send(command):
            try:
                self._worker = await self._start_worker()
            except OSError as error:
                self._take(
                    Gone(
                        role="worker",
                        sentence=f"The worker cannot be started: {error}.",
                        exit_status=None,
                        expected=False,
                    )
                )
                return
            self._follow(self._worker)
            await self._worker.send(command)

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

    def kill_now(self) -> None:
        """End everything at once, from wherever."""
        for one in (self._worker, self._monitor):
            if one is not None:
                one.kill_now()

    def _take(self, record: AnyRecord) -> None:
        """Everything that is known goes through here."""
        self._live.apply(record)
        log_record(record)
        self._spool.add(record)
        if self.recorder is not None and self.recorder.failure is None:
            self.recorder.write(record)
            self._look_at(self.recorder)

    def _look_at(self, recorder: Recorder) -> None:
        if recorder.failure is not None:
            self.say(recorder.failure)

    def _follow(self, source: Source) -> None:
        task = asyncio.create_task(self._apply_all(source))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _apply_all(self, source: Source) -> None:
        async for record in source.records():
            self._take(record)
            if isinstance(record, EngineDevice) and self._monitor is not None:
                watch = WatchCommand(uuid=record.uuid, worker_pid=self._live.worker_pid)
                await self._monitor.send(watch)
            if isinstance(record, Gone) and source is self._worker:
                self._worker = None
