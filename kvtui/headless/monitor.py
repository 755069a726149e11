"""``kvtui monitor``: the monitor's readings, once or until interrupted, as JSON lines or CSV.

Each line says when it was printed, in UTC: readings themselves only count from the monitor's start.
"""

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from kvtui.client.local import start_monitor
from kvtui.client.source import Source
from kvtui.client.ssh import RemoteHost, start_remote
from kvtui.errors import ExitCode, InputError
from kvtui.headless import output
from kvtui.headless.table import csv_table
from kvtui.records import Gone, GpuReading, HostReading, Record
from kvtui.units import count

_ENDING: Final = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
}


def monitor(
    *,
    once: bool = False,
    interval: str | None = None,
    host: RemoteHost | None = None,
    samples: str | None = None,
    as_csv: bool = False,
) -> ExitCode:
    """Print what the monitor here, or on ``host``, reads; the last word goes to stderr.

    ``samples`` rounds of readings, or until interrupted; as a table of numbers with ``as_csv``.

    Raises:
        InputError: ``interval`` or ``samples`` is none.
    """
    most = None if samples is None else count("samples", samples)
    arguments = ["--once"] if once else []
    if interval is not None:
        try:
            seconds = float(interval)
        except ValueError:
            seconds = float("nan")
        if not 0.25 <= seconds <= 3600:
            raise InputError("interval", interval, "0.25 to 3600 seconds (NVML calls take time)")
        arguments += ["--interval", f"{seconds}"]
    printer = Table() if as_csv else Lines()
    return asyncio.run(_print(arguments, host, printer, most))


async def _print(
    arguments: Sequence[str], host: RemoteHost | None, printer: "Table | Lines", most: int | None
) -> ExitCode:
    if host is None:
        source = await start_monitor(arguments)
    else:
        source = await start_remote("monitor", host, arguments)
    ended: list[ExitCode] = []
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    def end(code: ExitCode) -> None:
        ended.append(code)
        tasks.add(asyncio.create_task(source.stop()))

    for number, code in _ENDING.items():
        loop.add_signal_handler(number, end, code)
    try:
        gone = await _print_all(source, printer, most)
    finally:
        await source.stop()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)
    if ended:
        return ended[0]
    if gone.exit_status == 0 or gone.expected:
        return ExitCode.DONE
    output.note(gone.sentence)
    return ExitCode.UNAVAILABLE


async def _print_all(source: Source, printer: "Table | Lines", most: int | None) -> Gone:
    """Every record, until the monitor is gone or ``most`` rounds are printed.

    A round ends with the host's reading.
    """
    rounds = 0
    async for record in source.records():
        if isinstance(record, Gone):
            return record
        printer.put(record, datetime.now(UTC))
        if isinstance(record, HostReading):
            rounds += 1
            if rounds == most:
                return Gone(role="monitor", sentence="", exit_status=None, expected=True)
    return Gone(role="monitor", sentence="", exit_status=None, expected=False)


class Lines:
    """JSON lines as the monitor writes them, with the time."""

    def put(self, record: Record, now: datetime) -> None:
        """One line."""
        fields = msgspec.to_builtins(record)
        output.data(msgspec.json.encode({**fields, "time": _iso(now)}).decode())


class Table:
    """One row a GPU and round; the host's where there is no GPU."""

    COLUMNS: Final = (
        "time", "index", "uuid", "name", "total_bytes", "used_bytes", "reserved_bytes",
        "busy_percent", "power_w", "power_limit_w", "temperature_c", "sm_clock_mhz",
        "memory_clock_mhz", "ecc_uncorrected",
    )  # fmt: skip

    def __init__(self) -> None:
        """The header comes with the first row."""
        self._rows = 0
        self._gpus = False

    def put(self, record: Record, now: datetime) -> None:
        """A reading as a row; everything else is no figure."""
        if isinstance(record, GpuReading):
            self._gpus = True
            fields = msgspec.structs.asdict(record)
        elif isinstance(record, HostReading) and not self._gpus:
            fields = {
                "name": "host",
                "total_bytes": record.total_bytes,
                "used_bytes": record.total_bytes - record.available_bytes,
                "busy_percent": record.cpu_percent,
            }
        else:
            return
        row = [_iso(now), *(fields.get(name) for name in self.COLUMNS[1:])]
        shown = csv_table(self.COLUMNS, [row]).splitlines()
        output.data("\n".join(shown if not self._rows else shown[1:]))
        self._rows += 1


def _iso(now: datetime) -> str:
    return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
