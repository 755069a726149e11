"""``make screen-cost``: what the screen process costs, and how fast a key is answered.

Not a test: it takes two minutes. The dashboard at 120x36 in a pty, first idle and then over a live
run, 30 s each; beside it a Textual app with one line of text, and btop where it is installed, in
the same minutes. Then 100 keys that halve and double T: from the key to the new figure on the
terminal. The promises are 2 % idle, 15 % live, and 50 ms for 95 of 100 keys.
"""

import contextlib
import os
import pty
import select
import shutil
import statistics
import struct
import sys
import termios
from collections.abc import Sequence
from fcntl import ioctl
from time import monotonic

import psutil
from textual.app import App, ComposeResult
from textual.widgets import Static

SECONDS = 30.0
KEYS = 100
LIVE = ["--device", "cpu", "--layers", "8", "--batch", "1", "--context", "400000", "--start", "256",
        "--q-heads", "8", "--kv-heads", "2", "--head-dim", "64", "--dtype", "fp32"]  # fmt: skip
T_FIELD = b"\x1b[B\x1b[B\x1b[C\x1b[C"
"""Down to the row of L, B and T, then across to T."""


class _Bare(App[None]):
    """What any Textual app costs."""

    def compose(self) -> ComposeResult:
        yield Static("one line")


class Terminal:
    """A program in a pty of 120x36."""

    def __init__(self, command: Sequence[str]) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm-256color"
            os.execvp(command[0], list(command))
        ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
        self.process = psutil.Process(self.pid)
        self.written = 0

    def type(self, keys: bytes) -> None:
        os.write(self.descriptor, keys)

    def read_for(self, seconds: float, wanted: bytes | None = None) -> bytes:
        """What was written until ``wanted`` was, or for ``seconds``."""
        end, found = monotonic() + seconds, b""
        while (left := end - monotonic()) > 0:
            if not select.select([self.descriptor], [], [], left)[0]:
                break
            found += os.read(self.descriptor, 65536)
            if wanted is not None and wanted in found:
                break
        self.written += len(found)
        return found

    def share(self, seconds: float) -> tuple[float, float]:
        """Share of a core it took over ``seconds``, and bytes a second it wrote."""
        before, written = self.process.cpu_times(), self.written
        self.read_for(seconds)
        after = self.process.cpu_times()
        used = after.user + after.system - before.user - before.system
        return used / seconds, (self.written - written) / seconds

    def close(self, key: bytes) -> None:
        self.type(key)
        with contextlib.suppress(OSError):  # the pty is gone with the program
            self.read_for(5.0)
        os.close(self.descriptor)
        os.waitpid(self.pid, 0)


def shown(name: str, measured: tuple[float, float]) -> None:
    print(f"{name:<28}{measured[0]:>8.1%} of a core {measured[1]:>8,.0f} B/s", flush=True)


def idle(name: str, command: Sequence[str], leave: bytes) -> None:
    terminal = Terminal(command)
    terminal.read_for(5.0)
    shown(name, terminal.share(SECONDS))
    terminal.close(leave)


def live() -> None:
    terminal = Terminal([sys.executable, "-m", "kvtui", *LIVE])
    terminal.read_for(3.0)
    terminal.type(b"r")
    if b" ms p50" not in terminal.read_for(90.0, b" ms p50"):
        sys.exit("the run never showed a step")
    terminal.read_for(5.0)
    shown("kvtui, a run on screen", terminal.share(SECONDS))
    terminal.close(b"q")


def keys() -> None:
    """T back and forth between 16,384 and 8,192; the payload is 128 MiB and 64.0 MiB."""
    terminal = Terminal([sys.executable, "-m", "kvtui"])
    terminal.read_for(4.0)
    terminal.type(T_FIELD)
    terminal.read_for(1.0)
    spent = []
    for index in range(KEYS):
        key, figure = (b"[", b"67,108,864") if index % 2 == 0 else (b"]", b"134,217,728")
        begun = monotonic()
        terminal.type(key)
        if figure not in terminal.read_for(2.0, figure):
            sys.exit(f"key {index}: {figure.decode()} never came")
        spent.append((monotonic() - begun) * 1e3)
        terminal.read_for(0.1)
    terminal.close(b"q")
    percentiles = statistics.quantiles(spent, n=100)
    print(f"key to figure: p50 {percentiles[49]:.1f} ms, p95 {percentiles[94]:.1f} ms, n {KEYS}")


if __name__ == "__main__":
    if sys.argv[1:] == ["bare"]:
        _Bare().run()
    else:
        print(f"load average {os.getloadavg()[0]:.2f} at the start")
        idle("kvtui, idle", [sys.executable, "-m", "kvtui"], b"q")
        idle("Textual, one line", [sys.executable, "-m", "tests.tui.screen_cost", "bare"], b"\x11")
        if shutil.which("btop"):
            idle("btop", ["btop"], b"q")
        live()
        keys()
        print(f"load average {os.getloadavg()[0]:.2f} at the end")
