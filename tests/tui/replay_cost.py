"""``make replay-cost``: what a recording of a million steps costs to open, to wind and to play.

Not a test: it takes minutes. The recording is what the worker really writes at 5 ms a step, twenty
steps a record. The promises: open in under two seconds, a jump within a tenth of one, and memory
that stays flat however long it plays.
"""

import asyncio
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import perf_counter

import psutil
from textual.pilot import Pilot

from kvtui.client.recording import Recording
from kvtui.tui.replay import ReplayApp
from tests.client.recordings import write

_JUMPS = 100


def resident_mib() -> float:
    """Resident set of this process."""
    return float(psutil.Process().memory_info().rss) / 2**20


async def until(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    """Let the screen go on until ``condition`` holds."""
    while not condition():
        await pilot.pause(0.02)


async def measure(path: Path, plays: int) -> None:
    """Open, wind and play the recording at ``path`` as fast as it can be read."""
    began = perf_counter()
    with closing(Recording(path)) as recording:
        app = ReplayApp(recording)
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.live.run is not None)
            print(f"first frame with its run   {perf_counter() - began:6.2f} s")
            await until(pilot, lambda: app.replay.timeline.complete)
            length_ms = app.replay.timeline.reached_ms
            print(f"open from end to end       {perf_counter() - began:6.2f} s", flush=True)
            await pilot.press("space")
            chance, spent_ms = random.Random(7), []
            for _ in range(_JUMPS):
                at_ms = chance.random() * length_ms
                jumped = perf_counter()
                app.replay.wind_to(at_ms)
                app.dashboard.live_panel.renew_plots = True
                app.dashboard.draw()
                spent_ms.append((perf_counter() - jumped) * 1e3)
            spent_ms.sort()
            print(
                f"jump and draw              {statistics.median(spent_ms):6.1f} ms median, "
                f"{spent_ms[int(_JUMPS * 0.95)]:.1f} ms p95"
            )
            await pilot.press(*[">"] * 9)
            print(f"resident before playing    {resident_mib():6.0f} MiB", flush=True)
            for play in range(plays):
                began = perf_counter()
                await pilot.press("r")
                await until(pilot, lambda: app.replay.at_end)
                print(
                    f"resident after play {play + 1:<6} {resident_mib():6.0f} MiB, "
                    f"{length_ms / 1e3 / (perf_counter() - began):,.0f} times real speed",
                    flush=True,
                )


def main(steps: int, plays: int) -> None:
    """Write the recording, then measure."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million.jsonl"
        write(path, steps)
        print(f"{steps:,} steps, {path.stat().st_size / 2**20:.1f} MiB", flush=True)
        asyncio.run(measure(path, plays))


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000,
        int(sys.argv[2]) if len(sys.argv) > 2 else 5,
    )
