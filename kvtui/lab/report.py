"""The lab's figures beside those the lessons report, and on which hardware those were had."""

from typing import Final

import msgspec

from kvtui.lab.capacity import Measured
from kvtui.lab.reference import Outcome
from kvtui.session.answer import compose
from kvtui.sources.request import Request, scenario
from kvtui.units import format_bytes, format_exact, format_flops, format_ms, format_per_s

LAB_SCHEMA: Final = "kvtui.lab/1"
REPORTED_ON: Final = "RTX 3080 20 GiB, torch 2.13.0+cu130, prompt 256, 32 steps"
REPORTED: Final = {
    "max_abs_difference": 1.788e-07,
    "prefill_ms": 0.370,
    "recompute_ms": 8.080,
    "cached_ms": 3.435,
}
"""What the tutorial reports of its own run; another machine gives other figures."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the lab did, as ``lab --json`` prints it."""

    schema: str = LAB_SCHEMA
    device: str
    torch_version: str
    small: Outcome
    reference: Outcome
    reported: dict[str, float]
    reported_on: str
    capacity: list[Measured]


def text(report: Report) -> str:
    """The report for a reader."""
    sections = [
        [f"device {report.device}, torch {report.torch_version}"],
        _reference(report),
        _capacity(report),
        _desk(),
    ]
    return "\n\n".join("\n".join(section) for section in sections)


def _reference(report: Report) -> list[str]:
    small, found = report.small, report.reference
    shape = found.shape
    ratio = found.recompute_ms / found.cached_ms
    told = report.reported["recompute_ms"] / report.reported["cached_ms"]
    rows = [
        "REFERENCE EXPERIMENT: full recomputation against incremental decoding",
        (
            f"small example   cache {list(small.cache_shape)}, largest difference "
            f"{small.max_abs_difference:.3e} (reported {report.reported['max_abs_difference']:.3e})"
        ),
        (
            f"shape           B={shape.batch} prompt={shape.prompt} steps={shape.steps} "
            f"H={shape.hidden} Hq={shape.q_heads} Hkv={shape.kv_heads} D={shape.head_dim} fp32, "
            f"largest difference {found.max_abs_difference:.3e}"
        ),
        (
            f"prefill         {format_ms(found.prefill_ms)} "
            f"(reported {report.reported['prefill_ms']:.3f} ms on {report.reported_on})"
        ),
        (
            f"recompute       {format_ms(found.recompute_ms)} for all steps "
            f"(reported {report.reported['recompute_ms']:.3f} ms)"
        ),
        (
            f"cached          {format_ms(found.cached_ms)} for all steps "
            f"(reported {report.reported['cached_ms']:.3f} ms)"
        ),
        (
            f"ratio           {ratio:.2f} here, {told:.2f} reported; no production speed-up: "
            "torch.cat, repeated heads and dense scores are the tutorial's own"
        ),
        (
            f"attention FLOPs {format_flops(found.recompute_flops)} recomputed, "
            f"{format_flops(found.cached_flops)} with the cache"
        ),
        (
            f"final KV        {format_exact(found.theoretical_bytes)} by formula, "
            f"{format_exact(found.held_bytes)} held"
        ),
    ]
    for name, peak in (("recompute", found.peak_recompute), ("cached", found.peak_cached)):
        if peak is not None:
            rows.append(
                f"peak, {name:<10}{format_bytes(peak[0])} allocated, "
                f"{format_bytes(peak[1])} reserved above the start"
            )
    return rows


def _capacity(report: Report) -> list[str]:
    rows = ["CAPACITY EXPERIMENT: the formula against one tensor [L, 2, B, Hkv, T, D], fp16"]
    for one in report.capacity:
        case = one.case
        scaled = "" if one.tokens == case.tokens else f", scaled from T={case.tokens:,}"
        rows.append(
            f"{case.name:<16}T={one.tokens:,}{scaled}: formula {format_exact(one.formula_bytes)}, "
            + (
                one.skipped
                or f"tensor {format_exact(one.tensor_bytes)}, memory grew by "
                f"{format_exact(one.increase_bytes)}"
            )
        )
    return rows


def _desk() -> list[str]:
    """The support desk from sizing to decision: T before B, summaries and their price counted."""
    rows = ["SUPPORT DESK: 24 sessions of 6,000 tokens on 74 GiB"]
    for label, fields in (
        ("as asked", {}),
        ("B 24 → 16", {"batch": "16"}),
        ("T 6000 → 3000", {"context": "3000"}),
        ("with summaries", {"context": "3300"}),
    ):
        found = compose(scenario(Request(workload="support-desk", **fields)))
        spare = found.budget.spare_bytes or 0
        rows.append(
            f"{label:<16}KV {format_bytes(found.payload.bytes):>9}, "
            f"{'over by' if spare < 0 else 'to spare':>8} {format_bytes(abs(spare)):>9}, step "
            f"{format_ms(found.step.floor_ms)}, {format_per_s(found.step.tokens_per_s)} tokens/s, "
            f"{format_per_s(found.step.tokens_per_s_per_sequence)} a session"
        )
    rows.append(
        "decision        T first: 3,000 tokens and a rolling summary of 300 keep all 24 sessions; "
        "the price is a prefill of 3,000 tokens every 10 turns, 1.5 times what those turns generate"
    )
    return rows
