"""The rules of the flags that stand beside a measured figure, on plain numbers.

One rule a function, with its threshold and its sentence: the live view and the bench ask the same
ones. A flagged figure is never called the device's bandwidth. None means no flag, also where a
figure that the rule needs is unknown.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from kvtui.units import format_bytes, format_rate, format_share

_CACHE_MULTIPLE: Final = 5
"""A step must touch this many times the last-level cache to be read from memory."""
_HOST_GAP: Final = 0.15
_LEAST_KERNEL_US: Final = 10.0
"""Mean time of a kernel below which launching them one by one is what takes the time."""
_DRIFT: Final = 0.10
_SPREAD: Final = 1.15
_BUSY_SHARE: Final = 0.5
"""Runnable processes of others, as a share of the cores."""
_RIDGE_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Flag:
    """A reason not to read a figure as the device's bandwidth."""

    name: str
    sentence: str


def resident(touched_bytes: int | None, cache_bytes: int | None) -> Flag | None:
    """A step touches too little to leave the last-level cache."""
    if cache_bytes is None or touched_bytes is None:
        return None
    if touched_bytes >= _CACHE_MULTIPLE * cache_bytes:
        return None
    return Flag(
        "L2-RESIDENT",
        f"A step touches {format_bytes(touched_bytes)}, less than {_CACHE_MULTIPLE} times the "
        f"{format_bytes(cache_bytes)} cache: part of it never leaves the chip.",
    )


def beyond_limit(share: float | None) -> Flag | None:
    """More than memory gives, ``share`` of the read limit; flagged and never clipped."""
    if share is None or share <= 1.0:
        return None
    return Flag("L2-RESIDENT", f"{format_share(share)} of the read limit: served by a cache.")


def host_bound(wall_ms: float | None, device_ms: float | None) -> Flag | None:
    """The device waits for the host in each step."""
    if wall_ms is None or device_ms is None or not wall_ms:
        return None
    gap = (wall_ms - device_ms) / wall_ms
    if gap <= _HOST_GAP:
        return None
    return Flag("HOST-BOUND", f"The device idles {format_share(gap)} of each step.")


def launch_bound(busy_ms: float | None, launches: int | None) -> Flag | None:
    """Kernels of a step, launched by the host one by one, are too short to hide the launches."""
    if busy_ms is None or not launches:
        return None
    mean_us = busy_ms * 1e3 / launches
    if mean_us >= _LEAST_KERNEL_US:
        return None
    return Flag("HOST-BOUND", f"{launches} kernels a step take {mean_us:.1f} µs each.")


def compute_bound(
    intensity: float | None, flop_per_s: float | None, bytes_per_s: float | None
) -> Flag | None:
    """FLOPs per byte near or past the ridge, the device's FLOP/s over its bandwidth."""
    if intensity is None or flop_per_s is None or not bytes_per_s:
        return None
    ridge = flop_per_s / bytes_per_s
    if intensity <= _RIDGE_SHARE * ridge:
        return None
    return Flag(
        "COMPUTE-BOUND",
        f"{intensity:.0f} FLOPs a byte, where {ridge:.0f} keep memory and arithmetic both busy.",
    )


def throttled(reasons: Collection[str]) -> Flag | None:
    """The device slowed down, for the driver's ``reasons``."""
    if not reasons:
        return None
    return Flag("THROTTLED", "The device slowed down: " + ", ".join(sorted(reasons)) + ".")


def slow_memory(clock_mhz: int | None, max_mhz: int | None) -> str | None:
    """A reason for ``throttled`` where the memory clock is below its maximum."""
    if clock_mhz is None or max_mhz is None or clock_mhz >= max_mhz:
        return None
    return f"memory at {clock_mhz} of {max_mhz} MHz"


def drifted(before: float | None, after: float | None) -> Flag | None:
    """The read limit, bytes/s, is not what it was before the figure was taken."""
    if not before or not after:
        return None
    low, high = sorted((before, after))
    if (high - low) / high <= _DRIFT:
        return None
    return Flag("CONTENDED", f"The read limit moved by {format_share((high - low) / high)}.")


def spread(p90_over_p50: float | None) -> Flag | None:
    """Steps differ more than they do on a quiet machine."""
    if p90_over_p50 is None or p90_over_p50 <= _SPREAD:
        return None
    return Flag("CONTENDED", f"p90 of a step is {p90_over_p50:.2f} times its median.")


def other_processes(count: int) -> Flag | None:
    """``count`` other processes hold memory on the device."""
    if not count:
        return None
    return Flag("CONTENDED", f"{count} other processes hold memory on this device.")


def busy(load: float | None, cores: int) -> Flag | None:
    """``load`` runnable processes of others compete for ``cores``."""
    if load is None or load <= _BUSY_SHARE * cores:
        return None
    return Flag("CONTENDED", f"The load was {load:.1f} on {cores} cores before the first figure.")


def waited(wall_ms: float, cpu_ms: float) -> Flag | None:
    """The one thread of a step was without a core for part of it."""
    if wall_ms <= _SPREAD * cpu_ms:
        return None
    share = (wall_ms - cpu_ms) / wall_ms
    return Flag("CONTENDED", f"The step waited for a core {format_share(share)} of its time.")


def padded(read_tokens: int, needed_tokens: int) -> Flag | None:
    """The step reads ``read_tokens`` of capacity and needs ``needed_tokens`` of them."""
    if read_tokens <= needed_tokens:
        return None
    return Flag("PADDED", f"{read_tokens:,} tokens are read where {needed_tokens:,} are held.")


def expanded(sentence: str | None) -> Flag | None:
    """The step copies or repeats K and V; the ``sentence`` says how, None where it does not."""
    return None if not sentence else Flag("EXPANDED", sentence)


def partial(*, mig: bool | None) -> Flag | None:
    """A slice of a GPU."""
    return (
        Flag("PARTIAL-GPU", "A MIG slice: the parent's peak figures do not apply.") if mig else None
    )


def underfilled(pieces: int, processors: int | None) -> Flag | None:
    """``pieces`` = B·Hkv independent pieces of work, for more ``processors`` than that."""
    if processors is None or pieces >= processors:
        return None
    return Flag(
        "UNDERFILLED",
        f"B·Hkv = {pieces} pieces of work for {processors} multiprocessors, before any split.",
    )


def unified(*, shared: bool | None) -> Flag | None:
    """The device has no memory of its own."""
    return Flag("UNIFIED", "The device shares the machine's memory.") if shared else None


def shallow(probe_bytes: int, cache_bytes: int | None) -> str | None:
    """A sentence where the read probe was too small to leave the last-level cache."""
    if resident(probe_bytes, cache_bytes) is None:
        return None
    return (
        f"The probe read {format_bytes(probe_bytes)}, less than {_CACHE_MULTIPLE} times the "
        f"{format_bytes(cache_bytes)} cache: the limit is partly that of the cache."
    )


def implausible(measured: float | None, peak: float | None) -> str | None:
    """A sentence where the limit, bytes/s, and the tabled peak cannot both be of this device."""
    if not measured or not peak or 0.5 <= measured / peak <= 1.02:
        return None
    return (
        f"The measured limit of {format_rate(measured)} does not go with the tabled peak of "
        f"{format_rate(peak)}; the tabled one may be another board's."
    )
