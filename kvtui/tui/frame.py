"""The lines around the panels: what is asked and how it stands, the formula, the keys."""

from rich.text import Text

from kvtui.session.live import Live
from kvtui.session.question import Question
from kvtui.tui.bindings import BINDINGS, FOOTER
from kvtui.tui.fields import attention_kind
from kvtui.tui.palette import BLUE, DIM, ORANGE, VERDICT_STYLE, glyphs
from kvtui.tui.panels.base import wrapped
from kvtui.units import format_bytes

_RUN_WORDS = {"starting": "STARTING", "decoding": "RUNNING", "held": "HELD"}


def header_line(question: Question, live: Live, width: int, *, paused: bool) -> Text:
    """Model, attention and device on the left; verdict and run state as words on the right."""
    separator = glyphs().separator
    left = Text(no_wrap=True).append(" kvtui ", "bold")
    right = Text(no_wrap=True)
    answer = question.answer
    if paused:
        right.append(" PAUSED ", f"bold reverse {ORANGE}")
        right.append(" ")
    if live.phase in _RUN_WORDS:
        right.append(_RUN_WORDS[live.phase], f"bold {BLUE}")
        right.append(" ")
    if answer is not None:
        kind = attention_kind(question.scenario).upper()
        memory = format_bytes(answer.budget.total_bytes)
        device = answer.budget.device
        named = f"{device} {memory}" if answer.budget.total_bytes is not None else device
        left.append(separator.join((f" {answer.model}", kind, named)))
        verdict = answer.budget.verdict
        word = (verdict or "no budget").upper()
        if question.error is not None:
            word = "NOT ANSWERED"
            right.append(word, f"bold {ORANGE}")
        else:
            right.append(word, VERDICT_STYLE.get(verdict or "", DIM))
    right.append(" ")
    left.truncate(max(0, width - right.cell_len - 1), overflow="ellipsis")
    left.pad_right(max(0, width - right.cell_len - left.cell_len))
    return left.append_text(right)


def formula_lines(question: Question, figure: str, width: int) -> Text:
    """The focused figure's formula with its values, and where the rule comes from."""
    answer = question.answer
    if answer is None:
        return Text()
    part = answer.explanation(figure)
    if part is None:
        return Text(answer.formula, no_wrap=True)
    lines = wrapped(part.line, width, most=2)
    if len(lines) == 1:
        lines += wrapped(part.source, width, DIM, most=1)
    return Text("\n").join(lines[:2])


def footer_line(width: int, *, tabs: bool, shown: str) -> Text:
    """The keys that fit; with tabs, which one is open."""
    line = Text(no_wrap=True)
    if tabs:
        for number, name in enumerate(("size", "live", "memory"), start=1):
            style = "bold reverse" if name == shown else ""
            line.append(f" {number} {name.title()} ", style)
        line.append(" ")
    by_id = {binding.id: binding for binding in BINDINGS}
    for name in FOOTER:
        binding = by_id[name]
        key = (binding.key_display or binding.key.split(",")[0]).replace("ctrl+", "^")
        piece = f" {key} "
        if line.cell_len + len(piece) + len(binding.description) + 1 > width:
            continue
        line.append(piece, f"bold {BLUE}")
        line.append(f"{binding.description} ", DIM)
    return line
