"""The sizing answer as CSV and as Markdown; figures from ``session``, arranged here.

CSV has one line a figure under the dotted name it has in the JSON form, so that a script finds
the same name in both; Markdown is for a page or an issue.
"""

from collections.abc import Iterator

import msgspec

from kvtui.headless.size_runtimes import runtimes_markdown
from kvtui.headless.table import Cell, csv_table, markdown_table
from kvtui.session.answer import Answer
from kvtui.units import (
    format_bytes,
    format_count,
    format_exact,
    format_flops,
    format_ms,
    format_per_s,
)


def size_csv(answer: Answer) -> str:
    """``figure,value`` lines; unknown is empty, items of a list are counted from 0."""
    return csv_table(("figure", "value"), list(_figures("", msgspec.to_builtins(answer))))


def _figures(name: str, value: object) -> Iterator[tuple[str, Cell]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _figures(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _figures(f"{name}.{at}", inner)
    else:
        assert value is None or isinstance(value, str | int | float | bool)
        yield name, value


def size_markdown(answer: Answer, runtimes: tuple[str, ...] = ()) -> str:
    """A table of the figures, one of ``runtimes``, one of the moves, and the warnings."""
    payload, budget, step = answer.payload, answer.budget, answer.step
    rows = [
        ("model", answer.model),
        ("workload", f"{answer.batch:,} × {answer.context:,} tokens, {answer.dtype}"),
        ("payload", f"{format_bytes(payload.bytes)} ({format_exact(payload.bytes)})"),
        ("formula", answer.formula),
        ("constant state", format_bytes(payload.state_bytes)),
        ("per token", format_bytes(payload.bytes_per_token)),
        ("per step", format_bytes(payload.bytes_per_step)),
        ("reserved on one rank", format_bytes(answer.per_rank.reserved_bytes)),
        ("device", f"{budget.device}, {format_bytes(budget.total_bytes)}"),
        ("weights on one rank", format_bytes(budget.weights_bytes)),
        ("for the cache", format_bytes(budget.available_bytes)),
        ("verdict", f"{budget.verdict or 'none'}: {answer.sentence}"),
        ("max B", format_count(answer.limits.max_batch)),
        ("max T", format_count(answer.limits.max_context)),
        ("step floor", f"{format_ms(step.floor_ms)} ({step.bound or 'unknown'}-bound)"),
        ("tokens/s", format_per_s(step.tokens_per_s)),
        (
            "prefill floor",
            f"{format_ms(answer.prefill.floor_ms)}, {format_flops(answer.prefill.flops)}",
        ),
    ]
    parts = [markdown_table(("figure", "value"), rows)]
    if runtimes:
        parts.append(runtimes_markdown(answer, runtimes))
    if answer.levers:
        moves = [
            (
                lever.change,
                format_bytes(lever.saves_bytes),
                {True: "yes", False: "no", None: "n/a"}[lever.fits],
                format_ms(lever.step_ms),
                lever.price,
            )
            for lever in answer.levers
        ]
        parts.append(markdown_table(("move", "saves", "fits", "step floor", "price"), moves))
    if answer.warnings:
        parts.append("\n".join(f"- {warning}" for warning in answer.warnings))
    return "\n\n".join(parts)
