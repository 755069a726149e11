"""A finished run as text: each figure beside its prediction, and where the bytes went."""

from kvtui.records import Summary
from kvtui.session.flag_rules import Flag
from kvtui.session.flags import regime
from kvtui.session.ladder import Rung
from kvtui.session.lengths import ragged_sentence
from kvtui.session.live import Live
from kvtui.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_exact,
    format_ms,
    format_per_s,
    format_rate,
    format_share,
)

_LABEL = 14


def run_report(live: Live, summary: Summary, flags: tuple[Flag, ...]) -> str:
    """What a run measured, each figure beside its prediction."""
    word, sentence = regime(live)
    step = summary.step_ms
    rows = [
        (
            "cache",
            (
                f"{format_exact(summary.held_kv_bytes)} held, "
                f"{format_exact(summary.predicted_kv_bytes)} predicted, "
                f"{format_bytes(summary.capacity_kv_bytes)} reserved"
            ),
        ),
        ("prefill", format_ms(summary.prefill_ms)),
        (
            "step",
            (
                f"{format_ms(step.p50)} median (p10 {format_ms(step.p10)}, "
                f"p90 {format_ms(step.p90)}, p99 {format_ms(step.p99)}), "
                f"floor {format_ms(summary.predicted_step_ms)}"
            ),
        ),
        (
            "KV bandwidth",
            (
                f"{format_rate(summary.achieved_bytes_per_s)}, "
                f"{format_share(summary.share_of_limit)} of the measured "
                f"{format_rate(summary.limit_bytes_per_s)}; weights apart "
                f"{format_rate(summary.weight_bytes_per_s)}"
            ),
        ),
        *_link(summary),
        ("tokens/s", format_per_s(summary.tokens_per_s)),
        *((("lengths", lengths),) if (lengths := ragged_sentence(live)) else ()),
        ("bound", f"{word}: {sentence}"),
        ("backend", f"{summary.backend or NOT_AVAILABLE}, ran {summary.evidence or NOT_AVAILABLE}"),
        ("device", f"{summary.device or NOT_AVAILABLE}, {format_count(summary.threads)} threads"),
        (
            "ended",
            (
                f"{summary.ended} after {summary.steps:,} steps at T = {summary.tokens:,}. "
                f"{summary.sentence}"
            ),
        ),
    ]
    lines = [f"{name:<{_LABEL}}{text}" for name, text in rows]
    lines += [f"{'flag':<{_LABEL}}{flag.name}: {flag.sentence}" for flag in flags]
    return "\n".join(lines)


def _link(summary: Summary) -> tuple[tuple[str, str], ...]:
    if summary.link_bytes_per_s is None:
        return ()
    rate = format_rate(summary.link_bytes_per_s)
    return (("link", f"{rate}: the cold part of the cache crosses it every step"),)


def ladder_report(rungs: tuple[Rung, ...]) -> str:
    """Where the bytes went, a rung a line, each gap with its name."""
    return "\n".join(
        f"{rung.name:<18}{format_bytes(rung.bytes):>11}  {_signed(rung.gap_bytes):>12}  "
        f"{rung.gap}: {rung.sentence}"
        for rung in rungs
    )


def _signed(size: int | None) -> str:
    return f"+{format_bytes(size)}" if size is not None and size >= 0 else format_bytes(size)
