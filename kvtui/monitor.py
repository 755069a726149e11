"""``python -m kvtui.monitor``: NVML and host readings as records, in a process of their own.

Never imports torch, numpy or the screen. Readings come at 1 Hz on an absolute schedule; a late
one is skipped, not caught up. Ends when its stdin does. Without NVML it says why, once, and goes
on with the host.
"""

import argparse
import os
import select
import signal
import sys
from collections.abc import Callable
from time import monotonic
from typing import BinaryIO, Final

import msgspec

from kvtui import __version__, host
from kvtui.helper_process import die_with_parent, take_over_stdout
from kvtui.nvml import GpuNotFoundError, NvmlSession, NvmlUnavailableError
from kvtui.records import (
    RECORDS_SCHEMA,
    GpuReading,
    Hello,
    HostReading,
    Notice,
    PingCommand,
    Pong,
    Record,
    RecordError,
    WatchCommand,
    decode_command,
    encode,
)

FLOOR_S: Final = 0.25
"""NVML calls take time and its utilisation changes no faster than 1/6 s to 1 s."""
_RETRY_S: Final = 30.0
"""How often a missing NVML is looked for again."""

_OTHERS_EVERY: Final = 5
"""Readings of the followed device to one of all others."""

OpenNvml = Callable[[], NvmlSession]


class Monitor:
    """Reads and writes; knows no clock but the one it is given."""

    def __init__(
        self,
        records: BinaryIO,
        *,
        open_nvml: OpenNvml = NvmlSession,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Write to ``records``; nothing is opened yet."""
        self._records, self._open, self._clock = records, open_nvml, clock
        self._zero = clock()
        self._nvml: NvmlSession | None = None
        self._retry_at = 0.0
        self._said: str | None = None
        self._uuid: str | None = None
        self._worker_pid: int | None = None
        self._turn = 0
        self._cpu_since = False
        """There was a look at the CPU before: the next one has an interval."""

    def put(self, record: Record) -> None:
        """Write one record."""
        stamped = msgspec.structs.replace(record, at_ms=round((self._clock() - self._zero) * 1e3))
        self._records.write(encode(stamped))

    def hello(self) -> None:
        """The first record."""
        self.put(Hello(schema=RECORDS_SCHEMA, role="monitor", version=__version__, pid=os.getpid()))

    def take(self, line: bytes) -> bool:
        """Carry one command out; True when a reading is due because something else is followed."""
        try:
            command = decode_command(line)
        except RecordError as error:
            self.put(Notice(topic="command", severity="error", sentence=f"Ignored: {error}"))
            return False
        if isinstance(command, PingCommand):
            self.put(Pong(ping=command.ping))
        elif isinstance(command, WatchCommand):
            self._uuid, self._worker_pid = command.uuid, command.worker_pid
            return True
        return False

    def read(self) -> None:
        """One reading of the followed device (the first by default) and of the host.

        Every fifth time of the other devices as well: who else is busy changes slowly.
        """
        others = self._turn % _OTHERS_EVERY == 0
        self._turn += 1

        def ask(nvml: NvmlSession) -> list[GpuReading]:
            followed = nvml.read(self._uuid)
            rest = nvml.read_all() if others else []
            apart = [one for one in rest if one.uuid != followed.uuid]
            return [followed, *(msgspec.structs.replace(one, followed=False) for one in apart)]

        self._gpus(ask)
        self.put(self._host())

    def read_all(self) -> None:
        """One reading of every device, and of the host."""
        self._gpus(NvmlSession.read_all)
        self.put(self._host())

    def _gpus(self, ask: Callable[[NvmlSession], list[GpuReading]]) -> None:
        """Put what ``ask`` reads; what keeps it away is said, and other readings go on."""
        try:
            nvml = self._session()
            if nvml is None:
                return
            readings = ask(nvml)
        except NvmlUnavailableError as error:
            self._nvml = None
            self._retry_at = self._clock() + _RETRY_S
            self._say(str(error))
            return
        except GpuNotFoundError as error:
            self._say(str(error))
            return
        for reading in readings:
            self.put(reading)
        lost = [_shown(one) for one in readings if nvml.is_lost(one.uuid)]
        if lost:
            self._say(f"{', '.join(lost)} fell off the bus: no figures until the driver is reset.")
        elif not readings:
            self._say("NVML lists no GPU: the driver is loaded, but sees none here.")
        else:
            self._say(None)

    def _session(self) -> NvmlSession | None:
        if self._nvml is None and self._clock() >= self._retry_at:
            self._nvml = self._open()
        return self._nvml

    def _host(self) -> HostReading:
        """Memory and load of the machine, and the watched worker's resident set."""
        memory, busy = host.memory(), host.cpu_percent()
        followed, self._cpu_since = self._cpu_since, True
        return HostReading(
            total_bytes=memory.total_bytes,
            available_bytes=memory.available_bytes,
            cpu_percent=busy if followed else None,
            load_average=host.load_average(),
            worker_resident_bytes=(
                None if self._worker_pid is None else host.resident_bytes(self._worker_pid)
            ),
        )

    def _say(self, sentence: str | None) -> None:
        """A state's sentence, once; and once more when it is over."""
        if sentence == self._said:
            return
        if sentence is not None:
            self.put(Notice(topic="nvml", severity="warning", sentence=sentence))
        elif self._said is not None:
            self.put(Notice(topic="nvml", severity="info", sentence="NVML reads again."))
        self._said = sentence


def _shown(reading: GpuReading) -> str:
    return reading.uuid if reading.index < 0 else f"GPU {reading.index}"


class Schedule:
    """Points in time ``interval_s`` apart; what was missed is skipped, not caught up."""

    def __init__(self, interval_s: float, now: float) -> None:
        """The first is at once."""
        self._interval_s, self._due = interval_s, now

    def wait_s(self, now: float) -> float:
        """Seconds to the next point, 0 when it is due."""
        return max(0.0, self._due - now)

    def hurry(self, now: float) -> None:
        """The next point is now, and the others count from it."""
        self._due = min(self._due, now)

    def advance(self, now: float) -> None:
        """The point that was due is done, at ``now``."""
        missed = max(0.0, now - self._due) // self._interval_s
        self._due += self._interval_s * (missed + 1)


def serve(monitor: Monitor, interval_s: float, commands: int) -> None:
    """Read on schedule and take commands from the descriptor ``commands`` until it ends."""
    schedule, pending = Schedule(interval_s, monotonic()), b""
    while True:
        if schedule.wait_s(monotonic()) == 0.0:
            monitor.read()
            schedule.advance(monotonic())
        ready, _, _ = select.select([commands], [], [], schedule.wait_s(monotonic()))
        if not ready:
            continue
        chunk = os.read(commands, 65536)
        if not chunk:
            return
        *lines, pending = (pending + chunk).split(b"\n")
        for line in filter(bytes.strip, lines):
            if monitor.take(line):
                schedule.hurry(monotonic())


def main() -> None:
    """Parse, take over stdout, serve."""
    parser = argparse.ArgumentParser(prog="kvtui.monitor", description=__doc__)
    parser.add_argument("--once", action="store_true", help="one reading of every device")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between readings")
    options = parser.parse_args()
    if not FLOOR_S <= options.interval <= 3600:
        parser.error(f"--interval must be {FLOOR_S} to 3600 seconds: NVML calls take time")
    records = take_over_stdout()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    monitor = Monitor(records)
    try:
        monitor.hello()
        if options.once:
            monitor.read_all()
            return
        die_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
        serve(monitor, options.interval, sys.stdin.fileno())
    except BrokenPipeError:
        return


if __name__ == "__main__":
    main()
