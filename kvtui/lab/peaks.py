"""The most memory a piece of work takes above what was there before.

On CUDA the caching allocator keeps the peak itself. A CPU has no caching allocator and keeps none;
there torch's profiler lists every allocation and release, and their running sum has its peak.
Releases of what was there before are not among them: it counts as staying, as on the tutorial's
own path, whose prompt cache outlives the steps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from kvtui.engine import memory


@dataclass(frozen=True, slots=True)
class Peak:
    """Above the start, bytes."""

    allocated_bytes: int
    """Of live tensors."""
    reserved_bytes: int | None
    """Of segments asked of CUDA; None on a CPU, whose allocator keeps nothing back."""


def peak(work: Callable[[], object], device: torch.device) -> Peak:
    """The peaks of one run of ``work``."""
    if device.type != "cuda":
        return Peak(_profiled(work), None)
    memory.release(device)
    base = memory.readout(device)
    memory.begin_peak_window(device)
    work()
    torch.cuda.synchronize(device)
    most = memory.readout(device)
    return Peak(
        (most.peak_allocated_bytes or 0) - (base.allocated_bytes or 0),
        (most.peak_reserved_bytes or 0) - (base.reserved_bytes or 0),
    )


def _profiled(work: Callable[[], object]) -> int:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as seen:
        work()
    recorded: Any = seen.profiler
    changes = [one for one in recorded.kineto_results.events() if one.name() == "[memory]"]
    live = most = 0
    for change in sorted(changes, key=lambda one: one.start_ns()):
        live += change.nbytes()
        most = max(most, live)
    return int(most)
