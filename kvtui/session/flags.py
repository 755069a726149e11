"""The flags of a live run, and the word for what bounds its step.

The rules and their thresholds are those of ``flag_rules``; here they get the run's figures.
"""

from typing import Final, Literal

from kvtui.decode_run import GATHERING_BACKEND, KERNEL_BACKEND
from kvtui.dtypes import FORMATS
from kvtui.session import flag_rules
from kvtui.session.flag_rules import Flag
from kvtui.session.live import Live
from kvtui.spec import FullAttention
from kvtui.units import format_share

Regime = Literal["bandwidth-bound", "cache-resident", "launch-bound", "kernel-bound", "unknown"]

_BANDWIDTH_SHARE: Final = 0.6
"""From here a step is called bandwidth-bound."""
_COPYING: Final = {
    "concat": "torch.cat copies the whole cache every step, beside reading it.",
    "offload": "The cold part is copied from the host before attention reads it.",
    "paged": "Blocks are gathered into contiguous rows before attention reads them.",
}
"""Layouts whose step moves more than the algorithm needs."""
_LEAST_READ_BITS: Final = 16
"""torch attends over 16 and 32 bits and nothing narrower."""
_LAUNCH_MS_PER_LAYER: Final = 0.15
"""A CPU layer's operators cost 50-70 µs before they touch data; below this they dominate."""


def flags(live: Live) -> tuple[Flag, ...]:
    """All flags of the current run; empty before its first steps."""
    if not live.steps or live.run is None:
        return ()
    gpu = live.gpu
    found = [
        _resident(live),
        _host_bound(live),
        _expanded(live),
        flag_rules.throttled(live.throttled),
        _contended(live),
        flag_rules.partial(mig=gpu.mig if gpu else None),
        _underfilled(live),
        flag_rules.unified(shared=gpu.unified if gpu else None),
    ]
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
    found = flag_rules.resident(live.touched_bytes, cache)
    return found or flag_rules.beyond_limit(live.share_of_limit)


def _host_bound(live: Live) -> Flag | None:
    return flag_rules.host_bound(live.wall_step_ms, live.step_ms)


def _expanded(live: Live) -> Flag | None:
    started = live.started
    if started is None:
        return None
    converts = None
    if started.dtype in FORMATS and FORMATS[started.dtype].value_bits < _LEAST_READ_BITS:
        converts = f"{started.dtype} entries are converted to fp32 before attention reads them."
    copies = _COPYING.get(started.cache)
    if started.cache == "paged" and not started.backend.startswith(GATHERING_BACKEND):
        copies = None
    if started.backend.startswith(KERNEL_BACKEND) and started.cache != "concat":
        copies = converts = None  # it follows the table and converts what it has read
    return flag_rules.expanded(copies or converts)


def _contended(live: Live) -> Flag | None:
    before, after = live.limit_before, live.limit_after
    moved = None
    if before is not None and after is not None and before is not after:
        moved = flag_rules.drifted(before.read_bytes_per_s, after.read_bytes_per_s)
    return (
        moved
        or flag_rules.spread(live.spreads.percentile(50))
        or flag_rules.other_processes(_other_processes(live))
    )


def _other_processes(live: Live) -> int:
    if live.gpu is None or live.gpu.processes is None:
        return 0
    return sum(1 for process in live.gpu.processes if process.pid != live.worker_pid)


def _underfilled(live: Live) -> Flag | None:
    if live.device is None or live.device.kind != "cuda" or live.run is None:
        return None
    heads = [group.kv_heads for group in live.run.groups if isinstance(group, FullAttention)]
    if not heads:
        return None
    return flag_rules.underfilled(live.run.batch * min(heads), live.device.multiprocessors)
