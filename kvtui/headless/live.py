"""``kvtui run``: the live loop without a screen.

Records go through the same session as the dashboard's; progress goes to stderr, the report or the
records to stdout. Interrupting stops the run at a step boundary and still prints what it measured.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from kvtui.client.device_lock import DeviceLock, device_name
from kvtui.client.local import LOCAL, Helpers
from kvtui.client.logbook import log_record
from kvtui.client.recorder import Recorder
from kvtui.client.source import Source
from kvtui.decode_run import DecodeRun
from kvtui.errors import ExitCode
from kvtui.headless import output
from kvtui.headless.run_report import ladder_report, run_report
from kvtui.log import LOG
from kvtui.records import (
    AnyRecord,
    EngineDevice,
    Notice,
    RunAsked,
    RunCommand,
    Stage,
    Steps,
    StopCommand,
    Summary,
    WatchCommand,
    encode,
    run_command,
)
from kvtui.session.flags import flags
from kvtui.session.ladder import ladder
from kvtui.session.live import Live
from kvtui.session.runs import DEMONSTRATION, DEMONSTRATION_SECONDS, RunOptions, decode_run
from kvtui.session.summary import summary
from kvtui.sources.request import DetectDevice, Request, scenario
from kvtui.units import format_bytes, format_ms, format_rate

_NUMBER = 1
_EXIT = {
    "target": ExitCode.DONE,
    "stopped": ExitCode.DONE,
    "refused": ExitCode.RUN_FAILED,
    "oom": ExitCode.RUN_FAILED,
    "nan": ExitCode.RUN_FAILED,
    "lost": ExitCode.RUN_FAILED,
}


@dataclass(slots=True)
class Outcome:
    """What a headless run leaves."""

    live: Live
    summary: Summary
    exit_code: ExitCode


def run_live(
    request: Request,
    options: RunOptions,
    *,
    as_json: bool = False,
    record: str | None = None,
    detect: DetectDevice | None = None,
    helpers: Helpers = LOCAL,
) -> ExitCode:
    """Run what ``request`` describes, or the demonstration, and report it."""
    request, options = demonstrated(request, options)
    run = decode_run(scenario(request, detect=detect), options)
    outcome = live_outcome(
        run, fields=request.given(), record=record, as_json=as_json, helpers=helpers
    )
    if not as_json:
        output.data(run_report(outcome.live, outcome.summary, flags(outcome.live)))
        if (link := outcome.live.link) is not None:
            output.data(f"host          {link.host}, {format_ms(link.round_trip_ms)} to and fro")
        output.data("\nwhere the bytes went")
        output.data(ladder_report(ladder(outcome.live)))
    elif outcome.exit_code is not ExitCode.DONE:
        output.note(outcome.summary.sentence)
    return outcome.exit_code


def live_outcome(
    run: DecodeRun,
    *,
    fields: dict[str, str] | None = None,
    record: str | None = None,
    as_json: bool = False,
    helpers: Helpers = LOCAL,
) -> Outcome:
    """Run; print nothing but progress, and each record ``as_json``.

    ``fields`` are the question as typed, for whoever replays what goes to ``record``.
    """
    recording = None if record is None else _Recording(Recorder(Path(record)))

    def publish(seen: AnyRecord) -> None:
        if recording is not None:
            recording.write(seen)
        if as_json:
            output.data(encode(seen).decode().rstrip("\n"))

    with recording or contextlib.nullcontext():
        return asyncio.run(_Job(run, publish, fields or {}, helpers).run())


def demonstrated(request: Request, options: RunOptions) -> tuple[Request, RunOptions]:
    """The demonstration where no shape was chosen: it ends by the clock if nothing else does."""
    if request.model or request.workload or request.layers or request.context or request.lengths:
        return request, options
    return (
        replace(request, workload=DEMONSTRATION),
        replace(options, time_limit_s=options.time_limit_s or DEMONSTRATION_SECONDS),
    )


@dataclass(slots=True)
class _Recording:
    """A recording whose failure is said as soon as it happens, and once."""

    recorder: Recorder
    said: bool = False

    def write(self, seen: AnyRecord) -> None:
        """Append one record."""
        self.recorder.write(seen)
        self._say()

    def __enter__(self) -> Self:
        """Say what already failed."""
        self._say()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file; closing may fail as well."""
        self.recorder.close()
        self._say()

    def _say(self) -> None:
        if self.recorder.failure is not None and not self.said:
            self.said = True
            output.progress("")
            LOG.error("%s", self.recorder.failure)
            output.note(f"{self.recorder.failure} The run goes on.")


@dataclass(slots=True)
class _Job:
    """One run from start to summary."""

    wanted: DecodeRun
    publish: Callable[[AnyRecord], None]
    fields: dict[str, str]
    """The question as typed, for whoever replays it."""
    helpers: Helpers
    live: Live = field(default_factory=Live)
    interrupted: ExitCode | None = None
    worker: Source | None = None
    monitor: Source | None = None
    lock: DeviceLock = field(default_factory=DeviceLock)

    async def run(self) -> Outcome:
        """Start both helpers, run, stop them."""
        loop = asyncio.get_running_loop()
        for signum, code in (
            (signal.SIGINT, ExitCode.INTERRUPTED),
            (signal.SIGTERM, ExitCode.TERMINATED),
        ):
            loop.add_signal_handler(signum, self._interrupt, code)
        device = device_name(self.wanted.device, self.helpers.place)
        if (holder := self.lock.take(device)) is not None:
            output.note(f"{device} is in use by {holder}; the figures of both will suffer.")
        command: RunCommand = run_command(_NUMBER, self.wanted)
        self._take(RunAsked(command=command, fields=self.fields))
        self.monitor = await self.helpers.monitor()
        watching = asyncio.create_task(self._watch(self.monitor))
        self.worker = await self.helpers.worker()
        await self.worker.send(command)
        try:
            async for seen in self.worker.records():
                self._take(seen)
                if self.live.phase == "ended":
                    break
        finally:
            await self.worker.stop()
            await self.monitor.stop()
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
            self.lock.release()
            output.progress("")
        found = summary(self.live)
        self.publish(found)
        code = self.interrupted or _EXIT[found.ended]
        if found.ended in ("lost", "refused") and self.live.device is None:
            code = ExitCode.UNAVAILABLE
        return Outcome(self.live, found, code)

    async def _watch(self, monitor: Source) -> None:
        async for seen in monitor.records():
            self._take(seen)

    def _take(self, seen: AnyRecord) -> None:
        self.live.apply(seen)
        log_record(seen)
        self.publish(seen)
        self._progress(seen)
        if isinstance(seen, EngineDevice) and self.monitor is not None:
            watch = WatchCommand(uuid=seen.uuid, worker_pid=self.live.worker_pid)
            asyncio.get_running_loop().create_task(self.monitor.send(watch))

    def _progress(self, seen: AnyRecord) -> None:
        match seen:
            case Stage():
                output.progress(seen.detail)
            case Steps():
                output.progress(
                    f"T {seen.tokens:,} of {self.wanted.target:,}  "
                    f"cache {format_bytes(seen.held_kv_bytes)}  step "
                    f"{format_ms(self.live.recent.step_ms if self.live.recent else None)}  "
                    f"{format_rate(self.live.achieved_bytes_per_s)}{self._link()}"
                )
            case Notice(severity="error"):
                output.note(seen.sentence)

    def _link(self) -> str:
        """How far away the worker is, where it is not here."""
        link = self.live.link
        return "" if link is None else f"  {link.host} {format_ms(link.round_trip_ms)} away"

    def _interrupt(self, code: ExitCode) -> None:
        self.interrupted = code
        if self.worker is not None:
            asyncio.get_running_loop().create_task(self.worker.send(StopCommand()))
