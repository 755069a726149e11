"""The dashboard in a real terminal, with real helper processes: every way in and out."""

import contextlib
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from fcntl import ioctl

import psutil
import pytest

LEAVE_ALTERNATE_SCREEN = b"\x1b[?1049l"
SHOW_CURSOR = b"\x1b[?25h"


class Terminal:
    """kvtui under a pty; ``output`` is all it has drawn."""

    def __init__(self, *arguments: str, columns: int = 120, rows: int = 36) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm-256color"
            os.execv(sys.executable, [sys.executable, "-m", "kvtui", *arguments])
        ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.output = b""
        self.status: int | None = None

    def read(self, timeout: float) -> bool:
        """Take in what is there; False when the terminal is closed."""
        ready, _, _ = select.select([self.fd], [], [], timeout)
        if not ready:
            return True
        try:
            chunk = os.read(self.fd, 65536)
        except OSError:
            return False
        self.output += chunk
        return bool(chunk)

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> None:
        """Read until ``condition`` holds."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.output[-2000:].decode(errors="replace")
            assert self.read(0.1), "the terminal was closed"

    def shows(self, text: str, seconds: float = 30) -> None:
        """Read until ``text`` has been drawn since the last look."""
        self.wait_for(lambda: text.encode() in self.output, seconds)
        self.output = b""

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self.fd, keys.encode())

    def children(self) -> list[psutil.Process]:
        """Helper processes now alive."""
        return psutil.Process(self.pid).children(recursive=True)

    def worker(self) -> psutil.Process:
        """The worker; waits until it is there."""
        found: list[psutil.Process] = []

        def there() -> bool:
            found[:] = [one for one in self.children() if "kvtui.worker" in one.cmdline()]
            return bool(found)

        self.wait_for(there, 20)
        return found[0]

    def ends(self, seconds: float) -> int:
        """Read until the process has ended; its exit status."""
        end = time.monotonic() + seconds
        while self.read(0.05):
            assert time.monotonic() < end, "it did not end in time"
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


def helper(process: psutil.Process) -> bool:
    """The worker or the monitor, and not a kernel that is being compiled beside them."""
    return bool({"kvtui.worker", "kvtui.monitor"} & set(process.cmdline()))


def assert_clean(output: bytes) -> None:
    """The alternate screen was left and the cursor is visible."""
    assert LEAVE_ALTERNATE_SCREEN in output
    assert SHOW_CURSOR in output


def test_quitting_in_the_middle_of_a_run(terminal: Terminal) -> None:
    """r grows a cache with the real worker; q then leaves within a second and no child behind."""
    terminal.shows("payload against budget")
    terminal.press("r")
    terminal.shows("RUNNING", 60)
    children = terminal.children()
    assert len([one for one in children if helper(one)]) == 2
    began = time.monotonic()
    terminal.press("q")
    assert terminal.ends(5) == 0
    assert time.monotonic() - began < 1.5
    assert_clean(terminal.output)
    assert not [child for child in children if child.is_running()]


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
    ids=["TERM", "HUP", "INT"],
)
def test_signals_leave_a_clean_terminal(
    terminal: Terminal, number: signal.Signals, status: int
) -> None:
    """SIGTERM, SIGHUP and SIGINT restore the terminal, stop the helpers and exit with 128 + n."""
    terminal.shows("payload against budget")
    terminal.press("r")
    worker = terminal.worker()
    os.kill(terminal.pid, number)
    assert terminal.ends(5) == status
    assert_clean(terminal.output)
    assert not worker.is_running()


def test_a_killed_worker_leaves_the_screen_standing(terminal: Terminal) -> None:
    """SIGKILL of the worker, decoding or starting, names the cause; r starts another worker."""
    terminal.shows("payload against budget")
    for moment in ("RUNNING", "STARTING"):
        terminal.press("r")
        worker = terminal.worker()
        terminal.shows(moment, 60)
        worker.kill()
        terminal.shows("SIGKILL", 20)
    terminal.press("r")
    assert terminal.worker().is_running()
    terminal.press("q")
    assert terminal.ends(5) == 0
    assert_clean(terminal.output)


def test_a_killed_dashboard_leaves_no_orphan(terminal: Terminal) -> None:
    """SIGKILL of the dashboard itself takes its helpers with it."""
    terminal.shows("payload against budget")
    terminal.press("r")
    terminal.worker()
    children = terminal.children()
    os.kill(terminal.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive
    assert terminal.ends(5) == -signal.SIGKILL


def test_a_lost_terminal_leaves_no_orphan(terminal: Terminal) -> None:
    """When the terminal itself goes away, dashboard and helpers end by themselves."""
    terminal.shows("payload against budget")
    terminal.press("r")
    terminal.worker()
    children = terminal.children()
    os.close(terminal.fd)
    dashboard = psutil.Process(terminal.pid)
    try:
        assert dashboard.wait(timeout=5) == 129
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            dashboard.kill()
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive


def test_control_c_leaves() -> None:
    """ctrl+c quits like q."""
    terminal = Terminal(columns=80, rows=24)
    terminal.shows("payload against budget")
    terminal.press("\x03")
    assert terminal.ends(5) == 0
    assert_clean(terminal.output)
