"""What is known, as a file: JSON with everything, CSV with a run's curve, Markdown for a page.

Figures carry their units in their names, as everywhere; unknown is null in JSON, empty in CSV and
``n/a`` in Markdown. Nothing is computed that the screen does not show.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kvtui.records import Summary
from kvtui.session.answer import Answer
from kvtui.session.flags import regime
from kvtui.session.ladder import Rung, ladder
from kvtui.session.live import Live, Sample
from kvtui.session.predictions import predicted_kv_bytes
from kvtui.session.summary import summary
from kvtui.units import (
    format_bytes,
    format_count,
    format_exact,
    format_ms,
    format_per_s,
    format_rate,
    format_share,
)

EXPORT_SCHEMA: Final = "kvtui.export/1"
Cell = str | int | float | bool | None


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON form."""

    schema: str = EXPORT_SCHEMA
    size: Answer | None
    """The question on screen and its last good answer, as ``size --json`` has it."""
    run: Summary | None
    """The run as it stands, as ``run --json`` ends."""
    samples: list[Sample]
    """The run's curve; at most a few thousand points, evenly thinned."""
    ladder: list[Rung]


def export_json(answer: Answer | None, live: Live) -> str:
    """Everything, as one object."""
    found = Export(
        size=answer,
        run=summary(live) if live.run is not None else None,
        samples=list(live.samples),
        ladder=list(ladder(live)),
    )
    return msgspec.json.encode(found).decode() + "\n"


def export_csv(answer: Answer | None, live: Live) -> str:
    """The run's curve, a sample a line; before any run the answer, a figure a line."""
    if live.run is None:
        return _csv(("figure", "value"), _figures("", msgspec.to_builtins(answer)))
    header = (*Sample.__struct_fields__, "predicted_kv_bytes", "limit_bytes_per_s")
    run, limit = live.run, live.limit_bytes_per_s
    rows = (
        (
            *msgspec.structs.astuple(one),
            predicted_kv_bytes(run, one.tokens) if run.groups and one.tokens >= run.start else None,
            limit,
        )
        for one in live.samples
    )
    return _csv(header, rows)


def export_markdown(answer: Answer | None, live: Live) -> str:
    """Tables a reader can paste: the question, the run, where the bytes went."""
    parts = []
    if answer is not None:
        parts += ["## What it will cost", _table(("figure", "value"), _answered(answer))]
    if live.run is not None:
        parts += [
            "## What it costs",
            _table(("figure", "measured", "predicted"), _measured(live)),
        ]
    rungs = [
        (rung.name, format_bytes(rung.bytes), rung.gap, format_bytes(rung.gap_bytes))
        for rung in ladder(live)
    ]
    parts += ["## Where the bytes are", _table(("rung", "bytes", "gap", "of it"), rungs)]
    return "\n\n".join(parts) + "\n"


def _answered(answer: Answer) -> list[tuple[str, str]]:
    payload, budget, step = answer.payload, answer.budget, answer.step
    return [
        ("model", answer.model),
        ("workload", f"{answer.batch:,} × {answer.context:,} tokens, {answer.dtype}"),
        ("KV cache", f"{format_bytes(payload.bytes)} ({format_exact(payload.bytes)})"),
        ("formula", answer.formula),
        ("device", f"{budget.device}, {format_bytes(budget.total_bytes)}"),
        ("weights on one rank", format_bytes(budget.weights_bytes)),
        ("verdict", f"{(budget.verdict or 'none').upper()}: {answer.sentence}"),
        ("max B", format_count(answer.limits.max_batch)),
        ("max T", format_count(answer.limits.max_context)),
        ("step floor", f"{format_ms(step.floor_ms)}, {format_per_s(step.tokens_per_s)} tokens/s"),
    ]


def _measured(live: Live) -> list[tuple[str, str, str]]:
    found = summary(live)
    word, sentence = regime(live)
    step = found.step_ms
    return [
        (
            "cache held",
            format_exact(found.held_kv_bytes),
            format_exact(found.predicted_kv_bytes),
        ),
        ("step, median", format_ms(step.p50), f"≥ {format_ms(found.predicted_step_ms)}"),
        ("step, p99", format_ms(step.p99), ""),
        (
            "KV bandwidth",
            format_rate(found.achieved_bytes_per_s),
            f"{format_share(found.share_of_limit)} of {format_rate(found.limit_bytes_per_s)}",
        ),
        ("tokens/s", format_per_s(found.tokens_per_s), f"≤ {_bound(live)}"),
        ("steps", f"{found.steps:,} to T = {found.tokens:,}", ""),
        ("bound", word, sentence),
        ("flags", ", ".join(found.flags) or "none", ""),
        ("ran", found.evidence or "not seen", found.backend or ""),
        ("device", found.device or "", ""),
        ("ended", found.ended if live.ended is not None else "not yet", _end(live)),
    ]


def _bound(live: Live) -> str:
    return format_per_s(live.predicted_tokens_per_s)


def _end(live: Live) -> str:
    return live.ended.sentence if live.ended is not None else ""


def _figures(name: str, value: object) -> Iterator[tuple[str, Cell]]:
    """Dotted names, as in the JSON form; items of a list are counted from 0."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _figures(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _figures(f"{name}.{at}", inner)
    elif isinstance(value, str | int | float | bool):
        yield name, value
    elif name:
        yield name, None


def _csv(header: Sequence[str], rows: Iterator[Sequence[Cell]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([str(one).lower() if isinstance(one, bool) else one for one in row])
    return text.getvalue()


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(header)
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"
        for row in (header, rule, *rows)
    )
