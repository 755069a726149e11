"""``make watching-cost``: what the dashboard adds to a step, in interleaved pairs.

Not a test: it takes minutes. One engine thread, steps of 10 ms and more, at least 15 pairs of a
headless run and one under the dashboard in a pty, in alternating order; the median ratio of the
median step times with its bootstrap interval. The promise is 3 %.
"""

import json
import os
import pty
import random
import statistics
import struct
import subprocess
import sys
import termios
from fcntl import ioctl

from kvtui.headless.live import live_outcome
from kvtui.session.runs import RunOptions, decode_run
from kvtui.sources.request import Request, scenario
from kvtui.tui.app import KvtuiApp

REQUEST = Request(
    layers="10", q_heads="8", kv_heads="2", head_dim="128", dtype="fp32", batch="1",
    context="4300", memory="20GiB", weights="0", bandwidth="15e9",
)  # fmt: skip
OPTIONS = RunOptions(device="cpu", start=4000, threads=1, probe_bytes=0)


class _Watched(KvtuiApp):
    """Runs at once and leaves when the run has ended."""

    async def on_ready(self) -> None:
        await self.action_run()
        self.set_interval(0.1, self._leave_when_done)

    def _leave_when_done(self) -> None:
        if self.live.phase == "ended":
            self.exit(return_code=0)


def measure(mode: str) -> float:
    """Median step of one run, ms."""
    if mode == "headless":
        step_ms = live_outcome(decode_run(scenario(REQUEST), OPTIONS)).live.step_ms
    else:
        app = _Watched(REQUEST, OPTIONS)
        app.run()
        step_ms = app.live.step_ms
    assert step_ms is not None
    return step_ms


def _in_child(mode: str, result: str) -> float:
    command = [sys.executable, "-m", "tests.tui.watching_cost", mode, result]
    if mode == "headless":
        subprocess.run(command, check=True, capture_output=True)
    else:
        pid, fd = pty.fork()
        if pid == 0:
            os.environ["TERM"] = "xterm-256color"
            os.execv(sys.executable, command)
        ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
        try:
            while os.read(fd, 65536):
                pass
        except OSError:
            pass
        os.waitpid(pid, 0)
    with open(result, encoding="utf-8") as file:
        return float(json.load(file))


def main(pairs: int) -> None:
    """Measure and print every pair, then the median ratio and its 95 % interval."""
    ratios = []
    result = f"{os.environ.get('TMPDIR', '.')}/watching-cost.json"
    for index in range(pairs):
        modes = ["headless", "screen"] if index % 2 else ["screen", "headless"]
        found = {mode: _in_child(mode, result) for mode in modes}
        ratios.append(found["screen"] / found["headless"])
        print(f"{index + 1}: {found} ratio {ratios[-1]:.4f}", flush=True)
    os.unlink(result)
    spread = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2000))
    median = statistics.median(ratios)
    print(f"median ratio {median:.4f}, 95 % interval {spread[50]:.4f} to {spread[1950]:.4f}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        step = measure(sys.argv[1])
        with open(sys.argv[2], "w", encoding="utf-8") as output:
            json.dump(step, output)
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
