"""``kvtui monitor``: the monitor's readings, once or until interrupted, as JSON lines."""

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from typing import Final

from kvtui.client.local import start_monitor
from kvtui.client.source import Source
from kvtui.client.ssh import RemoteHost, start_remote
from kvtui.errors import ExitCode, InputError
from kvtui.headless import output
from kvtui.records import Gone, encode

_ENDING: Final = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
}


def monitor(
    *, once: bool = False, interval: str | None = None, host: RemoteHost | None = None
) -> ExitCode:
    """Print what the monitor here, or on ``host``, reads; the last word goes to stderr.

    Raises:
        InputError: ``interval`` is none.
    """
    arguments = ["--once"] if once else []
    if interval is not None:
        try:
            seconds = float(interval)
        except ValueError:
            seconds = float("nan")
        if not 0.25 <= seconds <= 3600:
            raise InputError("interval", interval, "0.25 to 3600 seconds (NVML calls take time)")
        arguments += ["--interval", f"{seconds}"]
    return asyncio.run(_print(arguments, host))


async def _print(arguments: Sequence[str], host: RemoteHost | None) -> ExitCode:
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
        gone = await _print_all(source)
    finally:
        await source.stop()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)
    if ended:
        return ended[0]
    if gone.exit_status == 0:
        return ExitCode.DONE
    output.note(gone.sentence)
    return ExitCode.UNAVAILABLE


async def _print_all(source: Source) -> Gone:
    gone = Gone(role="monitor", sentence="", exit_status=None, expected=False)
    async for record in source.records():
        if isinstance(record, Gone):
            gone = record
        else:
            output.data(encode(record).decode().rstrip("\n"))
    return gone
