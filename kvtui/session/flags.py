"""Flags that stand beside a measured figure, and the word for what bounds it.

Thresholds are those of the measuring rules: a flagged figure is never called the device's
bandwidth. Each flag says why in one sentence.
"""

from dataclasses import dataclass
from typing import Final, Literal

from kvtui.session.live import Live
from kvtui.spec import FullAttention
from kvtui.units import format_bytes, format_share

Regime = Literal["bandwidth-bound", "cache-resident", "launch-bound", "kernel-bound", "unknown"]

_CACHE_MULTIPLE: Final = 5
"""A step must touch this many times the last-level cache to be read from memory."""
_HOST_GAP: Final = 0.15
_DRIFT: Final = 0.10
_SPREAD: Final = 1.15
_BANDWIDTH_SHARE: Final = 0.6
"""From here a step is called bandwidth-bound; folded SDPA on a CPU reaches a quarter."""
_COPYING: Final = {
    "concat": "torch.cat copies the whole cache every step, beside reading it.",
    "int8": "int8 entries are converted to fp32 before attention reads them.",
    "paged": "Blocks are gathered into contiguous rows before attention reads them.",
}
"""Layouts whose step moves more than the algorithm needs."""
_LAUNCH_MS_PER_LAYER: Final = 0.15
"""A CPU layer's operators cost 50-70 µs before they touch data; below this they dominate."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A reason not to read a figure as the device's bandwidth."""

    name: str
    sentence: str


def flags(live: Live) -> tuple[Flag, ...]:
    """All flags of the current run; empty before its first steps."""
    if not live.steps or live.run is None:
        return ()
    found = [_resident(live), _host_bound(live), _expanded(live), _throttled(live)]
    found += [_contended(live), _partial(live), _underfilled(live), _unified(live)]
    return tuple(flag for flag in found if flag is not None)


def regime(live: Live) -> tuple[Regime, str]:
    """The word for what bounds the step, and the sentence behind it."""
    if not live.steps or live.run is None:
        return "unknown", "No steps measured yet."
    resident = _resident(live)
    if resident is not None:
        return "cache-resident", resident.sentence
    share = live.moved_share_of_limit
    if share is None:
        return "unknown", "The read limit of this device was not measured."
    if share >= _BANDWIDTH_SHARE:
        return "bandwidth-bound", f"Cache and weights move at {format_share(share)} of the limit."
    step_ms, layers = live.step_ms or 0.0, live.layers
    on_cpu = live.device is not None and live.device.kind == "cpu"
    if _host_bound(live) or (on_cpu and step_ms / max(layers, 1) < _LAUNCH_MS_PER_LAYER):
        return "launch-bound", (
            f"Starting {layers} layers of operators takes longer than moving their bytes; "
            f"{format_share(share)} of the limit."
        )
    return "kernel-bound", (
        f"The attention kernel reaches {format_share(share)} of the limit; memory could go faster."
    )


def _resident(live: Live) -> Flag | None:
    cache = live.device.cache_bytes if live.device else None
    touched = live.touched_bytes
    if cache is not None and touched is not None and touched < _CACHE_MULTIPLE * cache:
        return Flag(
            "L2-RESIDENT",
            f"A step touches {format_bytes(touched)}, less than {_CACHE_MULTIPLE} times the "
            f"{format_bytes(cache)} cache: part of it never leaves the chip.",
        )
    share = live.share_of_limit
    if share is not None and share > 1.0:
        return Flag("L2-RESIDENT", f"{format_share(share)} of the read limit: served by a cache.")
    return None


def _host_bound(live: Live) -> Flag | None:
    wall, device = live.wall_step_ms, live.step_ms
    if wall is None or device is None or not wall:
        return None
    gap = (wall - device) / wall
    if gap <= _HOST_GAP:
        return None
    return Flag("HOST-BOUND", f"The device idles {format_share(gap)} of each step.")


def _expanded(live: Live) -> Flag | None:
    started = live.started
    if started is None:
        return None
    copying = _COPYING.get(started.cache) or _COPYING.get(started.dtype)
    return None if copying is None else Flag("EXPANDED", copying)


def _throttled(live: Live) -> Flag | None:
    if not live.throttled:
        return None
    return Flag("THROTTLED", "The device slowed down: " + ", ".join(sorted(live.throttled)) + ".")


def _contended(live: Live) -> Flag | None:
    before, after = live.limit_before, live.limit_after
    if before is not None and after is not None and before is not after:
        low, high = sorted((before.read_bytes_per_s, after.read_bytes_per_s))
        if high and (high - low) / high > _DRIFT:
            return Flag(
                "CONTENDED", f"The read limit moved by {format_share((high - low) / high)}."
            )
    spread = live.spreads.percentile(50)
    if spread is not None and spread > _SPREAD:
        return Flag("CONTENDED", f"p90 of a step is {spread:.2f} times its median.")
    others = _other_processes(live)
    if others:
        return Flag("CONTENDED", f"{others} other processes hold memory on this device.")
    return None


def _other_processes(live: Live) -> int:
    if live.gpu is None or live.gpu.processes is None:
        return 0
    return sum(1 for process in live.gpu.processes if process.pid != live.worker_pid)


def _partial(live: Live) -> Flag | None:
    if live.gpu is None or not live.gpu.mig:
        return None
    return Flag("PARTIAL-GPU", "A MIG slice: the parent's peak figures do not apply.")


def _underfilled(live: Live) -> Flag | None:
    if live.device is None or live.device.kind != "cuda" or live.run is None:
        return None
    processors = live.device.multiprocessors
    heads = [group.kv_heads for group in live.run.groups if isinstance(group, FullAttention)]
    if processors is None or not heads:
        return None
    parallel = live.run.batch * min(heads)
    if parallel >= processors:
        return None
    return Flag(
        "UNDERFILLED",
        f"B·Hkv = {parallel} pieces of work for {processors} multiprocessors, before any split.",
    )


def _unified(live: Live) -> Flag | None:
    if live.gpu is None or not live.gpu.unified:
        return None
    return Flag("UNIFIED", "The device shares the machine's memory.")
