"""From the question on screen to a live run of the same shapes."""

from dataclasses import dataclass
from typing import Final

from kvtui.decode_run import DEFAULT_HOT, Backend, CacheName, DecodeRun, Work
from kvtui.errors import InputError
from kvtui.spec import (
    FullAttention,
    LatentAttention,
    NoCache,
    Scenario,
    SinksWindow,
    SlidingWindow,
    Workload,
)

DEMONSTRATION: Final = "demo"
"""Workload preset that runs on a CPU when no shape was chosen."""
DEMONSTRATION_SECONDS: Final = 30.0
_MOST_RAGGED: Final = 1024
_START_DIVISOR: Final = 4
"""A run that grows should show most of its length growing: it starts at a quarter of T."""
_RUNNABLE: Final = (FullAttention, SlidingWindow, SinksWindow, LatentAttention, NoCache)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run, beside what."""

    device: str = "auto"
    start: int | None = None
    cache: CacheName = "contiguous"
    hot: int = DEFAULT_HOT
    backend: Backend = "auto"
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
    if scenario.parallel.tp != 1:
        raise InputError("tp", scenario.parallel.tp, "1 in a live run on one device")
    if not scenario.storage.kv.arithmetic:
        allowed = "fp32, bf16, fp16, int8, int4 or fp8 in a live run (sizing answers every format)"
        raise InputError("dtype", scenario.storage.kv.name, allowed)
    for group in scenario.model.groups:
        if type(group) not in _RUNNABLE:
            allowed = "full, window, sinks or mla in a live run"
            raise InputError("layer kind", group.kind, allowed)
        if isinstance(group, FullAttention | LatentAttention) and group.q_heads is None:
            raise InputError("q heads", None, "given (--q-heads) for a live run")
    target = workload.longest
    lengths: tuple[int, ...] = ()
    if not workload.uniform:
        if workload.batch > _MOST_RAGGED:
            allowed = f"1 to {_MOST_RAGGED:,} of different lengths in a live run"
            raise InputError("batch", workload.batch, allowed)
        lengths = tuple(length for run in workload.runs for length in [run.tokens] * run.count)
    start = options.start if options.start is not None else _start(workload)
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
        lengths=lengths,
        shared_prefix=workload.shared_prefix,
        hot=options.hot,
        backend=options.backend,
        block=scenario.storage.block if scenario.storage.block > 1 else DecodeRun.block,
        work=options.work,
        device=options.device,
        threads=options.threads,
        margin_bytes=options.margin_bytes,
        time_limit_s=options.time_limit_s,
        probe_bytes=options.probe_bytes,
    )


def _start(workload: Workload) -> int:
    """A quarter of T; more where the shortest sequence or the shared prefix asks for it."""
    shortest = min(run.tokens for run in workload.runs)
    steps = shortest - max(1, shortest // _START_DIVISOR, workload.shared_prefix + 1)
    return workload.longest - max(1, steps)
