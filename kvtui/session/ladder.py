"""Where the bytes went: payload up to the whole device, every gap with a name.

Payload, tensors, allocated, reserved, process, device used and device total are different
numbers and keep their names. Unknown rungs stay unknown; nothing is interpolated.
"""

from dataclasses import dataclass

from kvtui.session.live import Live


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder; the gap is what it holds beyond the last known rung below."""

    name: str
    bytes: int | None
    gap: str
    """Name of what is new here."""
    sentence: str
    gap_bytes: int | None = None


def ladder(live: Live) -> tuple[Rung, ...]:
    """The ladder of the device the worker uses; of the host before any run."""
    on_cuda = live.device is not None and live.device.kind == "cuda"
    rungs = _cuda(live) if on_cuda else _host(live)
    found, below = [], None
    for rung in rungs:
        gap = None
        if rung.bytes is not None:
            gap = rung.bytes - below if below is not None else rung.bytes
            below = rung.bytes
        found.append(Rung(rung.name, rung.bytes, rung.gap, rung.sentence, gap))
    return tuple(found)


def _cuda(live: Live) -> list[Rung]:
    memory, gpu = live.memory, live.gpu
    held = live.held_kv_bytes if memory else None
    total = gpu.total_bytes if gpu else None
    used = gpu.used_bytes if gpu else None
    if total is None and memory is not None:
        total = memory.device_total_bytes
        if memory.device_total_bytes is not None and memory.device_free_bytes is not None:
            used = memory.device_total_bytes - memory.device_free_bytes
    return [
        Rung("payload", held, "filled entries", "K/V of the tokens cached so far."),
        Rung(
            "cache tensors",
            memory.cache_tensor_bytes if memory else None,
            "room to grow",
            "Preallocated entries that no token fills yet.",
        ),
        Rung(
            "allocated",
            memory.allocated_bytes if memory else None,
            "weights, scratch, rounding",
            "Live tensors beside the cache, and the allocator's rounding of each.",
        ),
        Rung(
            "reserved",
            memory.reserved_bytes if memory else None,
            "allocator cache",
            "Segments torch keeps from the driver for reuse; free inside torch, used outside.",
        ),
        Rung(
            "this process",
            _process_bytes(live),
            "CUDA context",
            "Context, modules and library buffers that no allocator counts.",
        ),
        Rung("device used", used, "other processes", "Held by others on this device."),
        Rung("device total", total, "free", "Not held by anyone."),
    ]


def _host(live: Live) -> list[Rung]:
    memory, host = live.memory, live.host
    resident = memory.resident_bytes if memory else None
    if host is not None and host.worker_resident_bytes is not None and live.running:
        resident = host.worker_resident_bytes
    used = host.total_bytes - host.available_bytes if host else None
    return [
        Rung(
            "payload",
            live.held_kv_bytes if memory else None,
            "filled entries",
            "K/V of the tokens cached so far.",
        ),
        Rung(
            "cache tensors",
            memory.cache_tensor_bytes if memory else None,
            "room to grow",
            "Preallocated entries that no token fills yet.",
        ),
        Rung(
            "all tensors",
            memory.tensors_bytes if memory else None,
            "weights, scratch",
            "Weights and work buffers of the engine.",
        ),
        Rung(
            "worker resident",
            resident,
            "torch, Python, untouched",
            "Libraries and interpreter; below the tensors where pages were never written.",
        ),
        Rung("system used", used, "other processes", "Everything else that runs on this machine."),
        Rung(
            "system total",
            host.total_bytes if host else None,
            "available",
            "Can be taken without swapping.",
        ),
    ]


def _process_bytes(live: Live) -> int | None:
    """The worker's memory as the driver counts it; None where host pids hide it."""
    if live.gpu is None or live.gpu.processes is None:
        return None
    for process in live.gpu.processes:
        if process.pid == live.worker_pid:
            return process.used_bytes
    return None
