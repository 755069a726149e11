"""What one CUDA step keeps the device busy with: kernels, and the time inside them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.profiler import ProfilerActivity, profile

_ON_DEVICE: Final = torch.autograd.DeviceType.CUDA  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Launches:
    """Kernels and copies of one step."""

    count: int
    busy_ms: float
    """Time inside them; what is left of the step the device waits."""


def launches(step: Callable[[], object], device: torch.device) -> Launches | None:
    """Profile one ``step``; None on a CPU and where the profiler saw no kernel."""
    if device.type != "cuda":
        return None
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as seen:
        step()
        torch.cuda.synchronize(device)
    return counted(seen.key_averages())


def counted(averages: Any) -> Launches | None:
    """The device's part of the profiler's ``averages``."""
    mine = [event for event in averages if event.device_type == _ON_DEVICE]
    count = sum(int(event.count) for event in mine)
    busy_us = sum(float(event.self_device_time_total) for event in mine)
    return Launches(count, busy_us / 1e3) if count and busy_us else None
