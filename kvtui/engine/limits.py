"""The measured limit: how fast this device reads memory at all.

The probe sums a flat fp32 buffer many times larger than the last-level cache; the best of several
passes is the limit. It is the denominator of every share, measured with the threads of the run.
"""

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


def probe_bytes(device: torch.device, cache_bytes: int | None) -> int:
    """Bytes to read: at least 512 MiB and 8 times the last-level cache, while memory allows."""
    wanted = max(_LEAST, _CACHE_MULTIPLE * (cache_bytes or 0))
    return min(wanted, memory.available_bytes(device) // _LARGEST_SHARE)


def read_bytes_per_s(
    device: torch.device, size: int, *, passes: int = _PASSES
) -> tuple[float, int]:
    """Best rate of ``passes`` reads, and the bytes of one read: ``size`` or what time allowed."""
    buffer = _touched(device, max(1, size // 4))
    moved = buffer.numel() * buffer.element_size()
    best = max(moved / (_read_ns(buffer) / 1e9) for _ in range(passes))
    del buffer
    memory.release(device)
    return best, moved


def _touched(device: torch.device, numel: int) -> torch.Tensor:
    """A buffer whose pages are all mapped, cut to what could be mapped in the time allowed.

    First touch can cost seconds a GiB on a virtual machine that has not used its memory yet.
    """
    buffer = torch.empty(numel, dtype=torch.float32, device=device)
    begun = perf_counter_ns()
    for first in range(0, numel, _PIECE):
        buffer[first : first + _PIECE] = 1.0
        if device.type == "cpu" and perf_counter_ns() - begun > _TOUCH_NS:
            return buffer[: first + _PIECE]
    return buffer


def _read_ns(buffer: torch.Tensor) -> float:
    if buffer.device.type != "cuda":
        start = perf_counter_ns()
        buffer.sum()
        return perf_counter_ns() - start
    first = torch.cuda.Event(enable_timing=True)
    last = torch.cuda.Event(enable_timing=True)
    first.record()
    buffer.sum()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) * 1e6
