"""Levers: the moves that make a cache fit, in the order to try them, with what each costs.

T, KV heads, format, window, eviction, block, ranks, batch: the order of the support-desk lesson,
which moves the history first. Where no single move fits, pairs that do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from kvtui import roofline
from kvtui.dtypes import FORMATS
from kvtui.runtimes import ideal
from kvtui.sizing import budget
from kvtui.solve import TP_STEPS, fits, largest, packs, with_groups, with_window
from kvtui.spec import FullAttention, LayerGroup, Scenario, SequenceRun, Workload

_QUARTER_FORMATS: Final = ("fp8", "int4")
_PAIRS: Final = 6

_SINKS: Final = 4
"""First tokens that StreamingLLM keeps (arXiv:2309.17453)."""

# Prices: support-desk lesson, section 8 (means, effect, cost) and 5.4 (decision).
_PRICE_T: Final = "history beyond the window is lost or must be summarised (extra prefill)"
_PRICE_HEADS: Final = "another model: fewer KV heads lower expressiveness a little"
_PRICE_FORMAT: Final = "precision loss; the kernel must read the format without expanding it"
_PRICE_WINDOW: Final = "information further back than the window is lost"
_PRICE_EVICTION: Final = (
    "eviction: what lies between the first tokens and the window is lost; positions and kernels "
    "get more complex"
)
_PRICE_BLOCK: Final = "larger block table; smaller reads"
_PRICE_TP: Final = "more devices; latent and replicated heads are not divided"
_PRICE_BATCH: Final = "fewer sequences at a time; the others queue"


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


def levers(scenario: Scenario) -> tuple[Lever, ...]:
    """The smallest single moves that fit, in the order to try them: T, Hkv, dtype, ..., B.

    Where no size of a move fits, its strongest form is given with ``fits`` false; where the
    budget already holds, a usual step of each move shows what it would save.
    """
    available = budget.available_bytes(scenario)
    now = ideal.reserved_bytes(scenario)
    found = []
    for moves in (_contexts, _heads, _formats, _windows, _evictions, _blocks, _ranks, _batches):
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
        fitting = largest(lambda tokens: fits(scenario, cut(tokens), available), longest)
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
            with_groups(scenario, with_heads),
            _PRICE_HEADS,
        )


def _formats(scenario: Scenario, _available: int | None, _now: int) -> Iterator[Move]:
    """Fewer bytes an element: 8 bits, then 4."""
    kv = scenario.storage.kv
    names = ("bf16", *_QUARTER_FORMATS) if kv.value_bits > 16 else _QUARTER_FORMATS
    for name in names:
        smaller = FORMATS[name]
        if smaller.bits_per_value < kv.bits_per_value and packs(scenario, smaller):
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
    window = _window(scenario, available, now, with_window)
    if window is not None:
        yield (
            "window",
            f"window none → {window:,}",
            (("attention", "window"), ("window", f"{window}")),
            with_window(scenario, window),
            _PRICE_WINDOW,
        )


def _evictions(scenario: Scenario, available: int | None, now: int) -> Iterator[Move]:
    """The first tokens and a window stay, the rest is evicted as it leaves the window."""
    window = _window(scenario, available, now, _with_sinks)
    if window is not None:
        yield (
            "evict",
            f"evict none → all but {_SINKS} + {window:,}",
            (("attention", "sinks"), ("sinks", f"{_SINKS}"), ("window", f"{window}")),
            _with_sinks(scenario, window),
            _PRICE_EVICTION,
        )


def _with_sinks(scenario: Scenario, window: int) -> Scenario:
    return with_window(scenario, window, _SINKS)


def _window(
    scenario: Scenario,
    available: int | None,
    now: int,
    moved: Callable[[Scenario, int], Scenario],
) -> int | None:
    """The largest window over full layers that fits, else half; None where none can be moved."""
    if not any(type(group) is FullAttention for group in scenario.model.groups):
        return None
    longest = scenario.workload.longest
    window = longest // 2
    if available is not None and now > available:
        fitting = largest(
            lambda size: ideal.reserved_bytes(moved(scenario, size)) <= available, longest
        )
        window = fitting if isinstance(fitting, int) and fitting else 1
    return window if 1 <= window < longest else None


def _blocks(scenario: Scenario, _available: int | None, _now: int) -> Iterator[Move]:
    """Smaller pages waste less at the end of each sequence."""
    block = scenario.storage.block
    if block > 1:
        storage = replace(scenario.storage, block=1)
        moved = replace(scenario, storage=storage)
        yield "block", f"block {block} → 1", (("block", "1"),), moved, _PRICE_BLOCK


def _ranks(scenario: Scenario, _available: int | None, _now: int) -> Iterator[Move]:
    """More tensor-parallel ranks: cache and weights are divided."""
    for tp in TP_STEPS:
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
        fitting = largest(lambda count: fits(scenario, keep(count), available), workload.batch)
        target = fitting if isinstance(fitting, int) else workload.batch
    if 1 <= target < workload.batch:
        moved = replace(scenario, workload=keep(target))
        field = (
            ("batch", f"{target}")
            if workload.uniform
            else ("lengths", ",".join(f"{run.tokens}*{run.count}" for run in moved.workload.runs))
        )
        yield "B", f"B {workload.batch:,} → {target:,}", (field,), moved, _PRICE_BATCH
