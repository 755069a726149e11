"""The measured limit: how fast this device reads and copies memory at all.

The read probe sums a flat fp32 buffer many times larger than the last-level cache; the best of
several passes is the limit. It is the denominator of every share, measured with the threads of the
run. The copy probe moves one half of the same buffer onto the other and counts both directions.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

import torch

from kvtui.engine import memory

_LEAST: Final = 512 * 2**20
_CACHE_MULTIPLE: Final = 8
_LARGEST_SHARE: Final = 4
"""The buffer takes at most a quarter of what is available."""
_PASSES: Final = 5
_PIECE: Final = 2**24
"""Elements touched between two looks at the clock: 64 MiB."""
_TOUCH_NS: Final = 2_000_000_000
_QUEUED: Final = 8
"""CUDA passes between two events: 512 MiB take 0.1 ms, beside which one launch would count."""


def probe_bytes(device: torch.device, cache_bytes: int | None) -> int:
    """Bytes to read: at least 512 MiB and 8 times the last-level cache, while memory allows."""
    wanted = max(_LEAST, _CACHE_MULTIPLE * (cache_bytes or 0))
    return min(wanted, memory.available_bytes(device) // _LARGEST_SHARE)


def read_bytes_per_s(
    device: torch.device, size: int, *, passes: int = _PASSES
) -> tuple[float, int]:
    """Best rate of ``passes`` reads, and the bytes of one read: ``size`` or what time allowed."""
    probe = Probe(device, size)
    best = probe.read_bytes_per_s(passes)
    moved = probe.read_bytes
    del probe
    memory.release(device)
    return best, moved


class Probe:
    """A buffer that is mapped once and then read and copied as often as asked."""

    def __init__(self, device: torch.device, size: int, *, touch_s: float | None = None) -> None:
        """Allocate ``size`` bytes and touch them, fewer where that takes longer than ``touch_s``.

        Two seconds when None.
        """
        patience_ns = _TOUCH_NS if touch_s is None else int(touch_s * 1e9)
        self._buffer = _touched(device, max(2, size // 4), patience_ns)
        self._half = self._buffer.numel() // 2

    @property
    def read_bytes(self) -> int:
        """Bytes that one read pass moves."""
        return self._buffer.numel() * self._buffer.element_size()

    @property
    def copy_bytes(self) -> int:
        """Bytes that one copy pass moves: those read and those written."""
        return 2 * self._half * self._buffer.element_size()

    def read(self) -> None:
        """One read pass; on CUDA it is queued."""
        self._buffer.sum()

    def copy(self) -> None:
        """One copy pass; on CUDA it is queued."""
        self._buffer[self._half : 2 * self._half].copy_(self._buffer[: self._half])

    def read_ns(self) -> float:
        """Time of one read pass, ns."""
        return _pass_ns(self.read, self._buffer.device)

    def copy_ns(self) -> float:
        """Time of one copy pass, ns."""
        return _pass_ns(self.copy, self._buffer.device)

    def read_bytes_per_s(self, passes: int = _PASSES) -> float:
        """Best rate of ``passes`` reads."""
        return max(self.read_bytes / (self.read_ns() / 1e9) for _ in range(passes))

    def copy_bytes_per_s(self, passes: int = _PASSES) -> float:
        """Best rate of ``passes`` copies, both directions counted."""
        return max(self.copy_bytes / (self.copy_ns() / 1e9) for _ in range(passes))


def _touched(device: torch.device, numel: int, patience_ns: int) -> torch.Tensor:
    """A buffer whose pages are all mapped, cut to what could be mapped in the time allowed.

    First touch can cost seconds a GiB on a virtual machine that has not used its memory yet.
    """
    buffer = torch.empty(numel, dtype=torch.float32, device=device)
    begun = perf_counter_ns()
    for first in range(0, numel, _PIECE):
        buffer[first : first + _PIECE] = 1.0
        if device.type == "cpu" and perf_counter_ns() - begun > patience_ns:
            return buffer[: first + _PIECE]
    return buffer


def _pass_ns(work: Callable[[], object], device: torch.device) -> float:
    if device.type != "cuda":
        start = perf_counter_ns()
        work()
        return perf_counter_ns() - start
    first = torch.cuda.Event(enable_timing=True)
    last = torch.cuda.Event(enable_timing=True)
    stream = torch.cuda.current_stream(device)
    first.record(stream)
    for _ in range(_QUEUED):
        work()
    last.record(stream)
    last.synchronize()
    return float(first.elapsed_time(last)) * 1e6 / _QUEUED
