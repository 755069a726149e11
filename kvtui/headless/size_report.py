"""The sizing answer as text: every figure from ``session``, arranged and formatted here."""

from kvtui.headless.size_runtimes import runtimes_text
from kvtui.runtimes import transformers
from kvtui.session.answer import Answer
from kvtui.units import (
    format_bytes,
    format_count,
    format_exact,
    format_flops,
    format_ms,
    format_per_s,
)

_LABEL = 14


def size_report(answer: Answer, *, explain: bool = False, runtimes: tuple[str, ...] = ()) -> str:
    """The sizing answer for a reader; ``runtimes`` are set side by side."""
    sections = [
        _title(answer),
        _payload(answer),
        runtimes_text(answer, runtimes) if runtimes else _transformers(answer),
        _budget(answer),
        _capacity(answer),
        _speed(answer),
        _prefix_caching(answer),
        _levers(answer),
        [f"! {warning}" for warning in answer.warnings],
    ]
    if explain:
        sections.append(_explanations(answer))
    return "\n\n".join("\n".join(section) for section in sections if section)


def _title(answer: Answer) -> list[str]:
    verdict = (answer.budget.verdict or "no verdict").upper()
    workload = f"{answer.batch:,} × {answer.context:,} tokens"
    return [
        (
            f"{answer.model} · {answer.layers} layers · {workload} · {answer.dtype} · "
            f"{answer.budget.device} — {verdict}"
        ),
        answer.sentence,
    ]


def _row(label: str, text: str) -> str:
    return f"{label:<{_LABEL - 1}} {text}"


def _payload(answer: Answer) -> list[str]:
    part = answer.payload
    rows = [
        _row("KV payload", f"{format_bytes(part.bytes)}  ({format_exact(part.bytes)})"),
        _row("formula", answer.formula),
        _row(
            "growth",
            f"{format_bytes(part.bytes_per_token)} per token of one sequence, "
            f"{format_bytes(part.bytes_per_step)} per step; "
            f"longest sequence {format_bytes(part.per_sequence_bytes)}",
        ),
    ]
    if part.state_bytes:
        rows.append(_row("state", f"{format_bytes(part.state_bytes)}, constant in T"))
    if part.scale_bytes:
        rows.append(_row("scales", f"{format_bytes(part.scale_bytes)} of the payload"))
    if len(part.groups) > 1:
        rows += [
            _row("", f"{one.layers} × {one.kind}: {format_bytes(one.bytes + one.state_bytes)}")
            for one in part.groups
        ]
    if answer.per_rank.tp > 1 or answer.block > 1:
        rows.append(
            _row(
                "per rank",
                f"{format_bytes(answer.per_rank.bytes)} of payload, "
                f"{format_bytes(answer.per_rank.reserved_bytes)} reserved "
                f"(tp {answer.per_rank.tp}, block {answer.block})",
            )
        )
    return rows


def _transformers(answer: Answer) -> list[str]:
    """The one runtime that takes other bytes than the ideal and needs no engine's page."""
    return [
        _row(
            "as " + one.runtime,
            f"{format_bytes(one.bytes)} ({one.version}): "
            + "; ".join(two.text for two in one.differences),
        )
        for one in answer.reservations
        if one.differences and one.runtime == transformers.NAME
    ]


def _budget(answer: Answer) -> list[str]:
    part = answer.budget
    if part.total_bytes is None:
        return []
    band = part.overhead_bytes
    return [
        _row(
            "memory",
            f"{format_bytes(part.total_bytes)} × {part.utilization:g} "
            f"− weights {format_bytes(part.weights_bytes)} "
            f"− overhead {format_bytes(band.expected)} "
            f"({format_bytes(band.low)} to {format_bytes(band.high)}) "
            f"− reserve {format_bytes(part.reserve_bytes)}",
        ),
        _row(
            "for the cache",
            f"{format_bytes(part.available_bytes)}, {format_bytes(part.spare_bytes)} to spare",
        ),
        _row(
            "limits",
            f"max B {format_count(answer.limits.max_batch)} at T {answer.context:,}; "
            f"max T {format_count(answer.limits.max_context)} at B {answer.batch:,}",
        ),
    ]


def _capacity(answer: Answer) -> list[str]:
    part, limits = answer.capacity, answer.limits
    if part.concurrency is None:
        return []
    blocks = (
        f"{format_count(part.blocks)} blocks of {format_bytes(part.block_bytes)}, "
        if part.blocks is not None
        else ""
    )
    rows = [
        _row(
            "holds",
            f"{blocks}{format_count(part.tokens)} tokens; {part.concurrency:,.2f} sequences of "
            f"{answer.context:,} tokens"
            + (
                f", {part.concurrency_at_mean:,.2f} of the mean length, "
                f"{part.concurrency_at_p95:,.2f} of the 95th percentile"
                if part.concurrency_at_mean != part.concurrency
                and part.concurrency_at_mean is not None
                and part.concurrency_at_p95 is not None
                else ""
            ),
        ),
        _row(
            "smallest",
            f"tp {format_count(limits.min_tp)}; widest format {limits.largest_dtype or 'none'}; "
            f"longest single sequence {format_count(limits.longest_sequence)}; slack "
            f"{format_count(limits.token_slack)} tokens to the next block",
        ),
    ]
    strip = ", ".join(
        f"tp {one.tp}: {format_bytes(one.rank_bytes)} ({format_bytes(one.total_bytes)} in all)"
        for one in answer.tp_strip
    )
    rows.append(_row("over ranks", strip))
    return rows


def _speed(answer: Answer) -> list[str]:
    step, prefill = answer.step, answer.prefill
    rows = [
        _row(
            "step moves",
            f"KV {format_bytes(step.kv_read_bytes)} read, "
            f"{format_bytes(step.kv_write_bytes)} written, "
            f"weights {format_bytes(step.weight_read_bytes)}; {format_flops(step.flops)}"
            + (f", {step.intensity:.3g} FLOP/byte" if step.intensity is not None else ""),
        )
    ]
    if step.floor_ms is not None:
        rows.append(
            _row(
                "step floor",
                f"{format_ms(step.floor_ms)} ({step.bound}-bound): at most "
                f"{format_per_s(step.tokens_per_s)} tokens/s, "
                f"{format_per_s(step.tokens_per_s_per_sequence)} per sequence",
            )
        )
    if prefill.floor_ms is not None:
        rows.append(
            _row(
                "prefill floor",
                f"{format_ms(prefill.floor_ms)} ({prefill.bound}-bound): "
                f"{format_flops(prefill.flops)}, {format_bytes(prefill.bytes)}",
            )
        )
    return rows


def _prefix_caching(answer: Answer) -> list[str]:
    part = answer.prefix_caching
    if part is None:
        return []
    saved_ms = part.saves_prefill_ms
    floor = f" Prefill floor {format_ms(saved_ms)} less." if saved_ms else ""
    return [_row("prefix cache", f"hit rate {part.hit_rate:.3g}: {part.sentence}{floor}")]


def _levers(answer: Answer) -> list[str]:
    rows = []
    for lever in answer.levers:
        fits = {True: "fits", False: "does not fit", None: ""}[lever.fits]
        rows.append(
            _row(
                "move " + lever.name,
                f"{lever.change}: saves {format_bytes(lever.saves_bytes)}"
                + (f", step {format_ms(lever.step_ms)}" if lever.step_ms is not None else "")
                + (f", {fits}" if fits else "")
                + f". Price: {lever.price}.",
            )
        )
    return rows


def _explanations(answer: Answer) -> list[str]:
    rows = []
    for one in answer.explain:
        rows += [f"{one.name}", f"    {one.line}", f"    source: {one.source}"]
    return rows
