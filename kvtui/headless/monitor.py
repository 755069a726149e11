"""``kvtui monitor``: the monitor's readings, once or until interrupted, as JSON lines."""

import subprocess
import sys

from kvtui.errors import ExitCode, InputError


def monitor(*, once: bool = False, interval: str | None = None) -> ExitCode:
    """Run the monitor in place of this command; its stdout is this one's."""
    arguments = [sys.executable, "-m", "kvtui.monitor"]
    if once:
        arguments.append("--once")
    if interval is not None:
        try:
            seconds = float(interval)
        except ValueError:
            seconds = float("nan")
        if not 0.25 <= seconds <= 3600:
            raise InputError("interval", interval, "0.25 to 3600 seconds (NVML calls take time)")
        arguments += ["--interval", interval]
    # The monitor ends with its stdin; a pipe that stays open lets it run until it is interrupted.
    with subprocess.Popen(arguments, stdin=subprocess.PIPE) as child:
        try:
            return ExitCode.DONE if child.wait() == 0 else ExitCode.UNAVAILABLE
        except KeyboardInterrupt:
            child.terminate()
            child.wait()
            return ExitCode.INTERRUPTED
