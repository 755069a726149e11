"""From the question on screen to a live run of the same shapes."""

from dataclasses import dataclass
from typing import Final

from kvtui.errors import InputError
from kvtui.spec import (
    CacheName,
    DecodeRun,
    FullAttention,
    LatentAttention,
    NoCache,
    Scenario,
    SinksWindow,
    SlidingWindow,
    Work,
)

DEMONSTRATION: Final = "demo"
"""Workload preset that runs on a CPU when no shape was chosen."""
DEMONSTRATION_SECONDS: Final = 30.0
_START_DIVISOR: Final = 4
"""A run that grows should show most of its length growing: it starts at a quarter of T."""
_RUNNABLE: Final = (FullAttention, SlidingWindow, SinksWindow, LatentAttention, NoCache)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run, beside what."""

    device: str = "auto"
    start: int | None = None
    cache: CacheName = "contiguous"
    work: Work = "layer"
    threads: int | None = None
    margin_bytes: int | None = None
    time_limit_s: float | None = None
    probe_bytes: int | None = None


def decode_run(scenario: Scenario, options: RunOptions) -> DecodeRun:
    """The run that grows ``scenario``'s cache to its context.

    Raises ``InputError`` for what the engine cannot run although sizing answers it.
    """
    workload = scenario.workload
    if not workload.uniform:
        raise InputError("lengths", "ragged", "one length for all sequences in a live run")
    if workload.shared_prefix:
        raise InputError("shared prefix", workload.shared_prefix, "0 in a live run")
    if scenario.parallel.tp != 1:
        raise InputError("tp", scenario.parallel.tp, "1 in a live run on one device")
    if not scenario.storage.kv.arithmetic:
        allowed = "fp32, bf16, fp16 or int8 in a live run (sizing answers every format)"
        raise InputError("dtype", scenario.storage.kv.name, allowed)
    for group in scenario.model.groups:
        if type(group) not in _RUNNABLE:
            allowed = "full, window, sinks or mla in a live run"
            raise InputError("layer kind", group.kind, allowed)
        if isinstance(group, FullAttention | LatentAttention) and group.q_heads is None:
            raise InputError("q heads", None, "given (--q-heads) for a live run")
    target = workload.longest
    start = options.start if options.start is not None else max(1, target // _START_DIVISOR)
    if not 1 <= start < target:
        allowed = f"1 to {target - 1}, below the context" if target > 1 else "below the context"
        raise InputError("start", start, allowed)
    return DecodeRun(
        groups=scenario.model.groups,
        batch=workload.batch,
        start=start,
        target=target,
        dtype=scenario.storage.kv.name,
        hidden_size=scenario.model.hidden_size,
        cache=options.cache,
        block=scenario.storage.block if scenario.storage.block > 1 else DecodeRun.block,
        work=options.work,
        device=options.device,
        threads=options.threads,
        margin_bytes=options.margin_bytes,
        time_limit_s=options.time_limit_s,
        probe_bytes=options.probe_bytes,
    )
