"""Solving the budget backwards: the largest batch, context and window, the fewest ranks.

Every answer is searched on the monotone reservation curve, never divided out of a slope, since
windows saturate and states do not grow. A returned limit fits and one step more does not.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from kvtui.dtypes import FORMATS, ElementFormat
from kvtui.runtimes import ideal
from kvtui.sizing import budget
from kvtui.sizing.kinds import streams
from kvtui.spec import (
    FullAttention,
    LayerGroup,
    Scenario,
    SequenceRun,
    SinksWindow,
    SlidingWindow,
    Workload,
)
from kvtui.units import COUNT_MAX

Unlimited = Literal["unlimited"]
UNLIMITED: Final[Unlimited] = "unlimited"
Limit = int | Unlimited | None

TP_STEPS: Final = (2, 4, 8, 16)
_DTYPE_LADDER: Final = ("bf16", "fp8", "q8_0", "int8", "int4", "q4_0")


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest workload under this budget; None without a memory figure."""

    max_batch: Limit
    """Sequences as long as the longest one."""
    max_context: Limit
    """Tokens per sequence at this batch, not capped at the trained maximum."""
    longest_sequence: Limit
    """Tokens of one sequence alone."""
    min_tp: int | None
    """Fewest tensor-parallel ranks that fit, of 1 to 16."""
    largest_dtype: str | None
    """Widest of the usual formats that fits."""
    max_window: Limit
    """Largest window that fits where full layers get one."""
    token_slack: int | None
    """Tokens the longest sequence may grow before its next block."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The cache over some number of tensor-parallel ranks."""

    tp: int
    rank_bytes: int
    total_bytes: int
    fits: bool | None


def limits(scenario: Scenario) -> Limits:
    """Largest batch at the longest length, and largest context at this batch."""
    available = budget.available_bytes(scenario)
    block = scenario.storage.block
    slack = -scenario.workload.longest % block
    if available is None:
        return Limits(None, None, None, None, None, None, slack)
    workload = scenario.workload
    prefix = workload.shared_prefix

    def batch_fits(count: int) -> bool:
        return fits(scenario, _uniform(count, workload.longest, prefix), available)

    def context_fits(tokens: int) -> bool:
        return fits(scenario, _uniform(workload.batch, tokens, min(prefix, tokens)), available)

    def alone_fits(tokens: int) -> bool:
        return fits(scenario, _uniform(1, tokens, 0), available)

    return Limits(
        max_batch=largest(batch_fits),
        max_context=largest(context_fits),
        longest_sequence=largest(alone_fits),
        min_tp=next((one.tp for one in tp_strip(scenario) if one.fits), None),
        largest_dtype=_largest_dtype(scenario, available),
        max_window=_largest_window(scenario, available),
        token_slack=slack,
    )


def tp_strip(scenario: Scenario) -> tuple[Ranks, ...]:
    """Per-rank and summed bytes over 1, 2, 4, 8 and 16 tensor-parallel ranks."""
    found = []
    for tp in (1, *TP_STEPS):
        if tp % scenario.parallel.dp_attention:
            continue
        moved = replace(scenario, parallel=replace(scenario.parallel, tp=tp))
        held, room = ideal.reserved_bytes(moved), budget.available_bytes(moved)
        found.append(Ranks(tp, held, held * tp, None if room is None else held <= room))
    return tuple(found)


def _largest_dtype(scenario: Scenario, available: int) -> str | None:
    """The widest usual format, at most the present one, in which the cache fits."""
    kv = scenario.storage.kv
    for name in (kv.name, *_DTYPE_LADDER):
        one = FORMATS[name]
        if one.bits_per_value > kv.bits_per_value or not packs(scenario, one):
            continue
        moved = replace(scenario, storage=replace(scenario.storage, kv=one, v=None))
        if ideal.reserved_bytes(moved) <= available:
            return name
    return None


def packs(scenario: Scenario, smaller: ElementFormat) -> bool:
    """Every row of the model has a width that ``smaller`` can pack."""
    return all(
        row.width % smaller.row_multiple == 0
        for group in scenario.model.groups
        for stream in streams(group)
        for row in stream.rows
    )


def _largest_window(scenario: Scenario, available: int) -> Limit:
    """The largest window with which full layers fit; unlimited where they fit as they are."""
    if ideal.reserved_bytes(scenario) <= available:
        return UNLIMITED
    if not any(type(group) is FullAttention for group in scenario.model.groups):
        return None
    longest = scenario.workload.longest
    return largest(
        lambda size: ideal.reserved_bytes(with_window(scenario, size)) <= available, longest
    )


def windowed(group: FullAttention, window: int, sinks: int | None = None) -> SlidingWindow:
    """``group`` with a window in place of all it kept, and ``sinks`` first tokens if given."""
    heads = {
        "layers": group.layers,
        "kv_heads": group.kv_heads,
        "k_width": group.k_width,
        "v_width": group.v_width,
    }
    if sinks is None:
        return SlidingWindow(**heads, q_heads=group.q_heads, window=window)
    return SinksWindow(**heads, q_heads=group.q_heads, window=window, sinks=sinks)


def with_window(scenario: Scenario, window: int, sinks: int | None = None) -> Scenario:
    """``scenario`` with a window over the layers that keep everything."""

    def turned(group: LayerGroup) -> LayerGroup:
        return windowed(group, window, sinks) if type(group) is FullAttention else group

    return with_groups(scenario, turned)


def with_groups(scenario: Scenario, change: Callable[[LayerGroup], LayerGroup]) -> Scenario:
    """``scenario`` with ``change`` applied to each layer group."""
    groups = tuple(change(group) for group in scenario.model.groups)
    return replace(scenario, model=replace(scenario.model, groups=groups))


def _uniform(count: int, tokens: int, prefix: int) -> Workload:
    return Workload(runs=(SequenceRun(tokens, count),), shared_prefix=prefix)


def fits(scenario: Scenario, workload: Workload, available: int) -> bool:
    """Whether ``workload`` in place of the scenario's own fits ``available`` bytes."""
    return ideal.reserved_bytes(replace(scenario, workload=workload)) <= available


def largest(holds: Callable[[int], bool], high: int = COUNT_MAX) -> int | Unlimited:
    """The largest n in [1, high] that fits, 0 when none does; ``high`` itself fits: unlimited.

    ``holds`` must be monotone: once false, false for all larger n.
    """
    if holds(high):
        return UNLIMITED if high == COUNT_MAX else high
    low, bound = 0, 1
    while bound < high and holds(bound):
        low, bound = bound, bound * 2
    bound = min(bound, high)
    while bound - low > 1:
        middle = (low + bound) // 2
        if holds(middle):
            low = middle
        else:
            bound = middle
    return low
