"""Where this process's bytes are, as the allocator and the system count them."""

import gc
from dataclasses import dataclass

import torch

from kvtui import host


@dataclass(frozen=True, slots=True)
class MemoryReadout:
    """One look: requested <= allocated <= active <= reserved, which exist on CUDA only."""

    requested_bytes: int | None = None
    allocated_bytes: int | None = None
    active_bytes: int | None = None
    reserved_bytes: int | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    device_total_bytes: int | None = None
    device_free_bytes: int | None = None
    resident_bytes: int | None = None


def readout(device: torch.device) -> MemoryReadout:
    """The present figures of ``device`` and of this process."""
    resident = host.resident_bytes()
    if device.type != "cuda":
        return MemoryReadout(resident_bytes=resident)
    stats = torch.cuda.memory_stats(device)
    free, total = torch.cuda.mem_get_info(device)
    return MemoryReadout(
        requested_bytes=stats.get("requested_bytes.all.current"),
        allocated_bytes=stats.get("allocated_bytes.all.current"),
        active_bytes=stats.get("active_bytes.all.current"),
        reserved_bytes=stats.get("reserved_bytes.all.current"),
        peak_allocated_bytes=stats.get("allocated_bytes.all.peak"),
        peak_reserved_bytes=stats.get("reserved_bytes.all.peak"),
        device_total_bytes=total,
        device_free_bytes=free,
        resident_bytes=resident,
    )


def begin_peak_window(device: torch.device) -> None:
    """Peaks count from now on."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def release(device: torch.device) -> None:
    """Drop tensors that only cycles refer to, and give cached segments back to the driver."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def available_bytes(device: torch.device) -> int:
    """What can be allocated now: free device memory and torch's own cache, or the host's."""
    if device.type != "cuda":
        return host.memory().available_bytes
    free, _ = torch.cuda.mem_get_info(device)
    stats = torch.cuda.memory_stats(device)
    cached = stats.get("reserved_bytes.all.current", 0) - stats.get(
        "allocated_bytes.all.current", 0
    )
    return int(free + max(0, cached))


def total_bytes(device: torch.device) -> int:
    """Memory of ``device``."""
    if device.type != "cuda":
        return host.memory().total_bytes
    return int(torch.cuda.mem_get_info(device)[1])
