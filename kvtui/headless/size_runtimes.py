"""What engines would reserve, as text and Markdown: side by side, then each difference."""

from collections.abc import Sequence

from kvtui.headless.table import markdown_table, text_table
from kvtui.session.answer import Answer
from kvtui.session.parts import ReservationPart
from kvtui.units import format_bytes, format_count

_HEADER = ("runtime", "reserves", "over ideal", "for the cache", "fits", "tokens", "sequences")
_INDENT = "    "


def runtimes_text(answer: Answer, names: Sequence[str]) -> list[str]:
    """A table of the runtimes in ``names``, then why each takes what it takes."""
    shown = [one for one in answer.reservations if one.runtime in names]
    lines = text_table(_HEADER, [_row(one) for one in shown]).split("\n")
    for one in shown:
        if one.differences or one.pool.bytes is not None or one.notes:
            lines += ["", f"{one.runtime} {one.version}".rstrip()]
            lines += [_INDENT + line for line in _why(one, answer.context)]
    return lines


def runtimes_markdown(answer: Answer, names: Sequence[str]) -> str:
    """The same table for a page, with the differences as its last column."""
    rows = [
        (*_row(one), "; ".join(two.text for two in one.differences) or "none")
        for one in answer.reservations
        if one.runtime in names
    ]
    return markdown_table((*_HEADER, "differences"), rows)


def _row(one: ReservationPart) -> tuple[str, ...]:
    sign = "−" if one.more_bytes < 0 else "+"
    concurrency = one.pool.concurrency
    return (
        one.runtime,
        format_bytes(one.bytes),
        sign + format_bytes(abs(one.more_bytes)) if one.more_bytes else "0 B",
        format_bytes(one.pool.bytes),
        {True: "yes", False: "no", None: "n/a"}[one.fits],
        format_count(one.pool.tokens),
        "n/a" if concurrency is None else f"{concurrency:,.2f}",
    )


def _why(one: ReservationPart, context: int) -> list[str]:
    lines = [two.text for two in one.differences]
    pool = one.pool
    if pool.bytes is not None:
        blocks = (
            f"; {format_count(pool.blocks)} blocks of {format_count(pool.block_tokens)} tokens"
            if pool.blocks is not None and pool.block_tokens != 1
            else ""
        )
        lines.append(f"memory: {one.share_of}{blocks}")
        if pool.concurrency is not None and pool.concurrency < 1:
            lines.append(f"one sequence of {context:,} tokens does not fit")
        if pool.concurrency_at_mean not in (None, pool.concurrency):
            lines.append(f"{pool.concurrency_at_mean:,.2f} sequences of the mean length")
    lines += [f"log: {line}" for line in pool.log]
    if one.source:
        lines.append(f"read in: {one.source}")
    return lines + [f"! {note}" for note in one.notes]
