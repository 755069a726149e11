"""Each experiment as figures beside the lessons' own: what ``lab`` prints, and nothing measured."""

from collections.abc import Iterable, Mapping
from typing import Final

from kvtui.lab import flops
from kvtui.lab.capacity import Measured
from kvtui.lab.crossing import Crossing
from kvtui.lab.desk import Desk, Move
from kvtui.lab.figures import (
    BY_HAND,
    DESK,
    RTX_3080,
    RTX_3080_IDLE,
    RTX_3080_SMALL,
    Figure,
    Reported,
    Section,
    Unit,
    mebibytes,
    milliseconds,
)
from kvtui.lab.reference import ON_CUDA, ROUNDS, WARM_UPS, Outcome, Shape
from kvtui.units import GIB, MIB, format_ms

_REFERENCE: Final = {
    "prefill": milliseconds(0.370, RTX_3080),
    "recompute, all steps": milliseconds(8.080, RTX_3080),
    "cached, all steps": milliseconds(3.435, RTX_3080),
    "recompute / cached": Reported("2.26 (its own times give 2.35)", 2.26, RTX_3080),
    "final KV by formula": mebibytes(0.562, RTX_3080),
    "peak, cached path, allocated": mebibytes(13.750, RTX_3080),
    "peak, cached path, reserved": mebibytes(22.000, RTX_3080),
    "peak, decode alone, allocated": mebibytes(2.414, RTX_3080),
    "peak, decode alone, reserved": Reported("0 MiB", 0, RTX_3080),
}
"""What the tutorial reports of its run, by the figure it stands beside."""
_CAPACITY: Final = {
    "GQA": Reported("2 GiB", 2 * GIB, RTX_3080_IDLE),
    "MHA": Reported("8 GiB", 8 * GIB, RTX_3080_IDLE),
}
_WIDTH: Final = 4096
_LENGTH: Final = 4096
"""d and T of the lesson's counterfactual (section 3.1)."""


def small(found: Outcome) -> Section:
    """The example that can be checked by hand."""
    return Section(
        title=f"SMALL EXAMPLE: {_shape(found.shape)}",
        notes=[f"cache {list(found.cache_shape)}; reported [1, 2, 13, 4]"],
        figures=[
            Figure(
                name="largest difference",
                here=found.max_abs_difference,
                unit="difference",
                reported=Reported("1.788e-07", 1.788e-07, RTX_3080_SMALL),
            )
        ],
    )


def reference(found: Outcome) -> Section:
    """Times, peaks and FLOPs of both paths."""
    peaks = (
        ("recompute", found.peak_recompute),
        ("cached path", found.peak_cached),
        ("decode alone", found.peak_decode),
    )
    figures: list[tuple[str, float | None, Unit]] = [
        ("largest difference", found.max_abs_difference, "difference"),
        ("prefill", found.prefill_ms, "ms"),
        ("recompute, all steps", found.recompute_ms, "ms"),
        ("cached, all steps", found.cached_ms, "ms"),
        ("recompute / cached", found.recompute_ms / found.cached_ms, "times"),
        ("attention, recompute", found.recompute_flops, "flop"),
        ("attention, cached", found.cached_flops, "flop"),
        ("projections, recompute", found.recompute_projection_flops, "flop"),
        ("projections, cached", found.cached_projection_flops, "flop"),
        ("final KV by formula", found.theoretical_bytes, "bytes"),
        ("final KV held", found.held_bytes, "bytes"),
    ]
    for name, peak in peaks:
        figures.append((f"peak, {name}, allocated", peak.allocated_bytes, "bytes"))
        figures.append((f"peak, {name}, reserved", peak.reserved_bytes, "bytes"))
    figures.append(("after the run, allocated", found.allocated_bytes, "bytes"))
    figures.append(("after the run, reserved", found.reserved_bytes, "bytes"))
    return Section(
        title=f"REFERENCE EXPERIMENT: {_shape(found.shape)}",
        notes=[
            f"medians of {ROUNDS} rounds after {WARM_UPS} warm-ups, the device synchronised",
            "recomputation is dense attention over repeated heads, the cache grows by torch.cat:",
            "a trend for this shape, no production speed-up",
        ],
        figures=_beside(figures, _REFERENCE if found.shape == ON_CUDA else {}),
    )


def counterfactual() -> Section:
    """The lesson's projections without a cache, for d = 4096 and T = 4096."""
    anew = flops.kv_projections(_WIDTH, _LENGTH, once=False)
    once = flops.kv_projections(_WIDTH, _LENGTH, once=True)
    return Section(
        title=f"WITHOUT A CACHE: K and V projected again, one layer, d={_WIDTH:,} T={_LENGTH:,}",
        notes=[],
        figures=_beside(
            [
                ("again at every step", anew, "flop"),
                ("once", once, "flop"),
                ("again / once", anew / once, "times"),
            ],
            {
                "again at every step": Reported("about 560 TFLOP", 560e12, BY_HAND),
                "once": Reported("about 275 GFLOP", 275e9, BY_HAND),
                "again / once": Reported("T / 2 = 2048", 2048, BY_HAND),
            },
        ),
    )


def crossing(found: Crossing) -> Section:
    """From which length on the cached path is faster, and the sweep it was read from."""
    sweep = [
        f"prompt {one.tokens:>5,}: recompute {format_ms(one.recompute_ms):>8}, fused "
        f"{format_ms(one.fused_ms):>8}, prefill {format_ms(one.prefill_ms):>8}, cached "
        f"{format_ms(one.cached_ms):>8}"
        for one in found.lengths
    ]
    return Section(
        title=f"FROM WHICH LENGTH THE CACHE PAYS: {found.steps} steps after prompts of",
        notes=[
            *sweep,
            f"prefill and cached steps overtake recomputation {found.path.told}",
            f"the same with the prefill's fused attention: {found.fused.told}",
            f"cached steps alone overtake recomputation {found.steps_alone.told}",
        ],
        figures=_beside(
            [
                ("cached path, from", found.path.tokens, "tokens"),
                ("against fused recomputation, from", found.fused.tokens, "tokens"),
                ("without its prefill, from", found.steps_alone.tokens, "tokens"),
            ],
            {},
        ),
    )


def capacity(found: Iterable[Measured]) -> Section:
    """The formula against one tensor, written through."""
    notes, figures = [], []
    for one in found:
        case = one.case
        if one.tokens != case.tokens:
            notes.append(f"{case.name} scaled to T={one.tokens:,} from {case.tokens:,}")
        if one.skipped:
            notes.append(f"{case.name}: {one.skipped}")
        told = _CAPACITY.get(case.name) if one.tokens == case.tokens else None
        rows: list[tuple[str, float | None]] = [
            ("by formula", one.formula_bytes),
            ("tensor", one.tensor_bytes or None),
            # The tutorial asserts that its allocator grew by exactly this.
            ("memory grew by", one.increase_bytes),
        ]
        figures += [
            Figure(name=f"{case.name} {name}", here=here, unit="bytes", reported=told)
            for name, here in rows
        ]
    return Section(
        title="CAPACITY EXPERIMENT: the formula against one tensor [L, 2, B, Hkv, T, D], fp16",
        notes=notes,
        figures=figures,
    )


def support_desk(found: Desk) -> Section:
    """From 24 sessions that do not fit to the decision."""
    asked, fewer, shorter, summarised = found.moves
    figures = [
        *_moved(
            asked,
            {
                "KV": Reported("70 GiB", 70 * GIB, DESK),
                "KV and weights": Reported("85 GiB", 85 * GIB, DESK),
                "to spare": Reported("over by 11 GiB", -11 * GIB, DESK),
                "step": milliseconds(30, DESK, digits=0),
                "its attention": milliseconds(0.075, DESK),
                "all sessions": Reported("about 800 tokens/s", 800, DESK),
                "each session": Reported("33 tokens/s", 33, DESK),
            },
        ),
        *_moved(fewer, {}),
        *_moved(
            shorter,
            {
                "KV": Reported("35 GiB", 35 * GIB, DESK),
                "KV and weights": Reported("50 GiB", 50 * GIB, DESK),
            },
        ),
        *_moved(
            summarised,
            {
                "KV and weights": Reported("54 GiB", 54 * GIB, DESK),
                "to spare": Reported("about 20 GiB", 20 * GIB, DESK),
                "step": milliseconds(19, DESK, digits=0),
                "each session": Reported("52 tokens/s", 52, DESK),
            },
        ),
    ]
    price = found.summaries
    one_summary = (summarised.kv_bytes - shorter.kv_bytes) / summarised.batch
    figures += _beside(
        [
            ("summary, KV a session", one_summary, "bytes"),
            ("summaries, KV", summarised.kv_bytes - shorter.kv_bytes, "bytes"),
            ("summary, prefill", price.prefill_tokens, "tokens"),
            ("summary, prefill / turns", price.ratio, "times"),
            ("summary, prefill FLOPs", price.prefill_flops, "flop"),
            ("summary, prefill time", price.prefill_ms, "ms"),
            ("summary, its own steps", price.summary_ms, "ms"),
        ],
        {
            "summary, KV a session": Reported("about 150 MiB", 150 * MIB, DESK),
            "summaries, KV": Reported("3.5 GiB", 3.5 * GIB, DESK),
            "summary, prefill": Reported("3000 tokens", 3000, DESK),
            "summary, prefill / turns": Reported("1.5 times", 1.5, DESK),
        },
    )
    return Section(
        title=f"SUPPORT DESK: {asked.batch} sessions of {asked.context:,} tokens on 74 GiB",
        notes=[
            "floors from bytes and FLOPs, here as there",
            f"decision: {found.decision}",
            f"price: {found.price}",
        ],
        figures=figures,
    )


def _moved(move: Move, reported: Mapping[str, Reported]) -> list[Figure]:
    rows: list[tuple[str, float | None, Unit]] = [
        ("KV", move.kv_bytes, "bytes"),
        ("KV and weights", move.with_weights_bytes, "bytes"),
        ("to spare", move.spare_bytes, "bytes"),
        ("step", move.step_ms, "ms"),
        ("its attention", move.attention_ms, "ms"),
        ("all sessions", move.tokens_per_s, "tokens_per_s"),
        ("each session", move.tokens_per_s_per_session, "tokens_per_s"),
    ]
    return [
        Figure(name=f"{move.name}: {name}", here=here, unit=unit, reported=reported.get(name))
        for name, here, unit in rows
    ]


def _beside(
    rows: Iterable[tuple[str, float | None, Unit]], reported: Mapping[str, Reported]
) -> list[Figure]:
    return [
        Figure(name=name, here=here, unit=unit, reported=reported.get(name))
        for name, here, unit in rows
    ]


def _shape(shape: Shape) -> str:
    return (
        f"B={shape.batch} prompt={shape.prompt} steps={shape.steps} H={shape.hidden} "
        f"Hq={shape.q_heads} Hkv={shape.kv_heads} D={shape.head_dim} fp32"
    )
