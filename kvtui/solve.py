"""Solving the budget backwards: the largest batch and context, and the moves that make it fit.

Every answer is searched on the monotone reservation curve, never divided out of a slope, since
windows saturate and states do not grow. A returned limit fits and one step more does not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from kvtui import roofline
from kvtui.dtypes import FORMATS, ElementFormat
from kvtui.runtimes import ideal
from kvtui.sizing import budget
from kvtui.sizing.kinds import streams
from kvtui.spec import (
    FullAttention,
    LayerGroup,
    Scenario,
    SequenceRun,
    SlidingWindow,
    Workload,
)
from kvtui.units import COUNT_MAX

Unlimited = Literal["unlimited"]
UNLIMITED: Final[Unlimited] = "unlimited"
Limit = int | Unlimited | None

_QUARTER_FORMATS: Final = ("fp8", "int4")
_TP_STEPS: Final = (2, 4, 8, 16)
_PAIRS: Final = 6
_DTYPE_LADDER: Final = ("bf16", "fp8", "q8_0", "int8", "int4", "q4_0")

# Prices: support-desk lesson, section 8 (means, effect, cost) and 5.4 (decision).
_PRICE_T: Final = "history beyond the window is lost or must be summarised (extra prefill)"
_PRICE_HEADS: Final = "another model: fewer KV heads lower expressiveness a little"
_PRICE_FORMAT: Final = "precision loss; the kernel must read the format without expanding it"
_PRICE_WINDOW: Final = "information further back than the window is lost"
_PRICE_BLOCK: Final = "larger block table; smaller reads"
_PRICE_TP: Final = "more devices; latent and replicated heads are not divided"
_PRICE_BATCH: Final = "fewer sequences at a time; the others queue"


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


@dataclass(frozen=True, slots=True)
class Lever:
    """One move and what it does, on one rank."""

    name: str
    change: str
    """What moves, in words: from and to."""
    fields: tuple[tuple[str, str], ...]
    """The typed fields that make the move."""
    saves_bytes: int
    fits: bool | None
    """The budget holds after this move alone; None without a memory figure."""
    step_ms: float | None
    """Floor of a step after the move."""
    price: str


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
        return _fits(scenario, _uniform(count, workload.longest, prefix), available)

    def context_fits(tokens: int) -> bool:
        return _fits(scenario, _uniform(workload.batch, tokens, min(prefix, tokens)), available)

    def alone_fits(tokens: int) -> bool:
        return _fits(scenario, _uniform(1, tokens, 0), available)

    return Limits(
        max_batch=_largest(batch_fits),
        max_context=_largest(context_fits),
        longest_sequence=_largest(alone_fits),
        min_tp=next((one.tp for one in tp_strip(scenario) if one.fits), None),
        largest_dtype=_largest_dtype(scenario, available),
        max_window=_largest_window(scenario, available),
        token_slack=slack,
    )


def tp_strip(scenario: Scenario) -> tuple[Ranks, ...]:
    """Per-rank and summed bytes over 1, 2, 4, 8 and 16 tensor-parallel ranks."""
    found = []
    for tp in (1, *_TP_STEPS):
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
        if one.bits_per_value > kv.bits_per_value or not _packs(scenario, one):
            continue
        moved = replace(scenario, storage=replace(scenario.storage, kv=one, v=None))
        if ideal.reserved_bytes(moved) <= available:
            return name
    return None


def _packs(scenario: Scenario, smaller: ElementFormat) -> bool:
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
    return _largest(
        lambda size: ideal.reserved_bytes(_with_window(scenario, size)) <= available, longest
    )


def levers(scenario: Scenario) -> tuple[Lever, ...]:
    """The smallest single moves that fit, in the order to try them: T, Hkv, dtype, ..., B.

    Where no size of a move fits, its strongest form is given with ``fits`` false; where the
    budget already holds, a usual step of each move shows what it would save.
    """
    available = budget.available_bytes(scenario)
    now = ideal.reserved_bytes(scenario)
    found = []
    for moves in (_contexts, _heads, _formats, _windows, _blocks, _ranks, _batches):
        best: Lever | None = None
        for name, change, fields, moved, price in moves(scenario, available, now):
            left = ideal.reserved_bytes(moved)
            room = budget.available_bytes(moved)
            fits = None if room is None else left <= room
            if left >= now and not (fits and name == "tp"):
                continue
            best = Lever(
                name, change, fields, now - left, fits, roofline.step(moved).floor_ms, price
            )
            if fits is not False:
                break
        if best is not None:
            found.append(best)
    return tuple(found)


def lever_pairs(scenario: Scenario, singles: tuple[Lever, ...]) -> tuple[Lever, ...]:
    """Two moves that fit together, for when none of ``singles`` does; one a pair of kinds."""
    available = budget.available_bytes(scenario)
    now = ideal.reserved_bytes(scenario)
    if available is None or now <= available or any(one.fits for one in singles):
        return ()
    found: dict[tuple[str, str], Lever] = {}
    for moves in (_heads, _formats, _ranks, _batches):
        for name, change, fields, moved, price in moves(scenario, available, now):
            for second in levers(moved):
                kinds = (name, second.name)
                if second.fits and second.name != name and kinds not in found:
                    found[kinds] = Lever(
                        f"{name} + {second.name}",
                        f"{change}, {second.change}",
                        (*fields, *second.fields),
                        now - ideal.reserved_bytes(moved) + second.saves_bytes,
                        True,
                        second.step_ms,
                        f"{price}; {second.price}",
                    )
    pairs = sorted(found.values(), key=lambda one: one.name)
    return tuple(pairs[:_PAIRS])


Move = tuple[str, str, tuple[tuple[str, str], ...], Scenario, str]


def _contexts(scenario: Scenario, available: int | None, now: int) -> Iterator[Move]:
    """Shorter sequences: the longest cut to what fits, else to half."""
    longest = scenario.workload.longest

    def cut(tokens: int) -> Workload:
        runs = tuple(
            SequenceRun(min(run.tokens, tokens), run.count) for run in scenario.workload.runs
        )
        return replace(
            scenario.workload, runs=runs, shared_prefix=min(scenario.workload.shared_prefix, tokens)
        )

    target = longest // 2
    if available is not None and now > available:
        fitting = _largest(lambda tokens: _fits(scenario, cut(tokens), available), longest)
        target = fitting if isinstance(fitting, int) else longest
    if 1 <= target < longest:
        moved = replace(scenario, workload=cut(target))
        field = "context" if scenario.workload.uniform else "lengths"
        text = (
            f"{target}"
            if field == "context"
            else ",".join(f"{run.tokens}*{run.count}" for run in moved.workload.runs)
        )
        yield "T", f"T {longest:,} → {target:,}", ((field, text),), moved, _PRICE_T


def _heads(scenario: Scenario, _available: int | None, _now: int) -> Iterator[Move]:
    """Fewer KV heads, halving: what grouped and multi-query attention save."""
    heads = [group.kv_heads for group in scenario.model.groups if isinstance(group, FullAttention)]
    if not heads or len(set(heads)) != 1:
        return
    fewer = heads[0]
    while fewer > 1 and fewer % 2 == 0:
        fewer //= 2
        kv_heads = fewer

        def with_heads(group: LayerGroup, kv_heads: int = kv_heads) -> LayerGroup:
            return replace(group, kv_heads=kv_heads) if isinstance(group, FullAttention) else group

        yield (
            "Hkv",
            f"Hkv {heads[0]} → {fewer}",
            (("kv_heads", f"{fewer}"),),
            _with_groups(scenario, with_heads),
            _PRICE_HEADS,
        )


def _formats(scenario: Scenario, _available: int | None, _now: int) -> Iterator[Move]:
    """Fewer bytes an element: 8 bits, then 4."""
    kv = scenario.storage.kv
    names = ("bf16", *_QUARTER_FORMATS) if kv.value_bits > 16 else _QUARTER_FORMATS
    for name in names:
        smaller = FORMATS[name]
        if smaller.bits_per_value < kv.bits_per_value and _packs(scenario, smaller):
            storage = replace(scenario.storage, kv=smaller, v=None)
            yield (
                "dtype",
                f"dtype {kv.name} → {name}",
                (("dtype", name),),
                replace(scenario, storage=storage),
                _PRICE_FORMAT,
            )


def _windows(scenario: Scenario, available: int | None, now: int) -> Iterator[Move]:
    """A sliding window over the layers that now keep everything."""
    full = [group for group in scenario.model.groups if type(group) is FullAttention]
    if not full:
        return
    longest = scenario.workload.longest

    window = longest // 2
    if available is not None and now > available:
        fitting = _largest(
            lambda size: ideal.reserved_bytes(_with_window(scenario, size)) <= available, longest
        )
        window = fitting if isinstance(fitting, int) and fitting else 1
    if 1 <= window < longest:
        yield (
            "window",
            f"window none → {window:,}",
            (("attention", "window"), ("window", f"{window}")),
            _with_window(scenario, window),
            _PRICE_WINDOW,
        )


def _blocks(scenario: Scenario, _available: int | None, _now: int) -> Iterator[Move]:
    """Smaller pages waste less at the end of each sequence."""
    block = scenario.storage.block
    if block > 1:
        storage = replace(scenario.storage, block=1)
        moved = replace(scenario, storage=storage)
        yield "block", f"block {block} → 1", (("block", "1"),), moved, _PRICE_BLOCK


def _ranks(scenario: Scenario, _available: int | None, _now: int) -> Iterator[Move]:
    """More tensor-parallel ranks: cache and weights are divided."""
    for tp in _TP_STEPS:
        if tp > scenario.parallel.tp:
            moved = replace(scenario, parallel=replace(scenario.parallel, tp=tp))
            change = f"tp {scenario.parallel.tp} → {tp}"
            yield "tp", change, (("tp", f"{tp}"),), moved, _PRICE_TP


def _batches(scenario: Scenario, available: int | None, now: int) -> Iterator[Move]:
    """Fewer sequences, those dropped last that are shortest."""
    workload = scenario.workload
    if workload.batch < 2:
        return

    def keep(count: int) -> Workload:
        left, runs = count, []
        for run in workload.runs:
            if left:
                runs.append(SequenceRun(run.tokens, min(run.count, left)))
                left -= runs[-1].count
        return replace(workload, runs=tuple(runs))

    target = workload.batch // 2
    if available is not None and now > available:
        fitting = _largest(lambda count: _fits(scenario, keep(count), available), workload.batch)
        target = fitting if isinstance(fitting, int) else workload.batch
    if 1 <= target < workload.batch:
        moved = replace(scenario, workload=keep(target))
        field = (
            ("batch", f"{target}")
            if workload.uniform
            else ("lengths", ",".join(f"{run.tokens}*{run.count}" for run in moved.workload.runs))
        )
        yield "B", f"B {workload.batch:,} → {target:,}", (field,), moved, _PRICE_BATCH


def _with_window(scenario: Scenario, window: int) -> Scenario:
    """``scenario`` with a window over the layers that keep everything."""

    def windowed(group: LayerGroup) -> LayerGroup:
        if type(group) is not FullAttention:
            return group
        return SlidingWindow(
            layers=group.layers,
            kv_heads=group.kv_heads,
            k_width=group.k_width,
            v_width=group.v_width,
            q_heads=group.q_heads,
            window=window,
        )

    return _with_groups(scenario, windowed)


def _with_groups(scenario: Scenario, change: Callable[[LayerGroup], LayerGroup]) -> Scenario:
    groups = tuple(change(group) for group in scenario.model.groups)
    return replace(scenario, model=replace(scenario.model, groups=groups))


def _uniform(count: int, tokens: int, prefix: int) -> Workload:
    return Workload(runs=(SequenceRun(tokens, count),), shared_prefix=prefix)


def _fits(scenario: Scenario, workload: Workload, available: int) -> bool:
    return ideal.reserved_bytes(replace(scenario, workload=workload)) <= available


def _largest(fits: Callable[[int], bool], high: int = COUNT_MAX) -> int | Unlimited:
    """The largest n in [1, high] that fits, 0 when none does; ``high`` itself fits: unlimited.

    ``fits`` must be monotone: once false, false for all larger n.
    """
    if fits(high):
        return UNLIMITED if high == COUNT_MAX else high
    low, bound = 0, 1
    while bound < high and fits(bound):
        low, bound = bound, bound * 2
    bound = min(bound, high)
    while bound - low > 1:
        middle = (low + bound) // 2
        if fits(middle):
            low = middle
        else:
            bound = middle
    return low
