"""Time of each step without disturbing it.

On CUDA a ring of event pairs is read only when ``query()`` says the device got there, some steps
later; nothing synchronises inside the loop. On a CPU the operators are synchronous and device
time is wall time.
"""

from collections import deque
from collections.abc import Iterator
from time import perf_counter_ns
from typing import Final

import torch

_AHEAD_NS: Final = 50_000_000
"""Work queued ahead of the device: enough to hide the host, little enough to stop at once."""
_LEAST_AHEAD: Final = 2
_MOST_AHEAD: Final = 64


class CpuTimer:
    """Wall clock, in ns; a step is known when it ends."""

    def __init__(self) -> None:
        """Nothing measured yet."""
        self._start = 0
        self._done: list[tuple[int, int]] = []

    def begin(self) -> None:
        """A step begins."""
        self._start = perf_counter_ns()

    def end(self) -> None:
        """The step has ended."""
        spent = perf_counter_ns() - self._start
        self._done.append((spent, spent))

    def resume(self) -> None:
        """Nothing runs between steps."""

    def drained(self, *, wait: bool = False) -> Iterator[tuple[int, int]]:
        """(device ns, wall ns) of steps that became known, in order; ``wait`` is never needed."""
        del wait
        done, self._done = self._done, []
        yield from done


class CudaTimer:
    """CUDA events around each step, in ns; read when the device has passed them."""

    def __init__(self, device: torch.device) -> None:
        """Let the device fall a bounded time behind before waiting for the oldest step."""
        self._device, self._ahead = device, _LEAST_AHEAD
        self._free: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self._pending: deque[tuple[torch.cuda.Event, torch.cuda.Event, int]] = deque()
        self._open: tuple[torch.cuda.Event, torch.cuda.Event] | None = None
        self._start = self._last = perf_counter_ns()

    def begin(self) -> None:
        """A step's work is about to be queued."""
        pair = self._free.pop() if self._free else self._events()
        self._open = pair
        pair[0].record(torch.cuda.current_stream(self._device))

    def end(self) -> None:
        """The step's work has been queued; wall time runs from the end of the step before."""
        assert self._open is not None
        start, stop = self._open
        stop.record(torch.cuda.current_stream(self._device))
        now = perf_counter_ns()
        self._pending.append((start, stop, now - self._last))
        self._last = now

    def resume(self) -> None:
        """Count wall time from now on (after a pause)."""
        self._last = perf_counter_ns()

    def drained(self, *, wait: bool = False) -> Iterator[tuple[int, int]]:
        """(device ns, wall ns) of steps that the device has finished, in order."""
        while self._pending:
            start, stop, wall = self._pending[0]
            if wait or len(self._pending) > self._ahead:
                stop.synchronize()
            elif not stop.query():
                return
            self._pending.popleft()
            self._free.append((start, stop))
            spent = int(start.elapsed_time(stop) * 1e6)
            self._ahead = max(_LEAST_AHEAD, min(_MOST_AHEAD, _AHEAD_NS // max(1, spent)))
            yield spent, wall

    def _events(self) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


Timer = CpuTimer | CudaTimer


def timer(device: torch.device) -> Timer:
    """The timer of ``device``."""
    return CudaTimer(device) if device.type == "cuda" else CpuTimer()
