"""The lines around the panels: what is asked and how it stands, the formula, the keys."""

from typing import Final

from rich.style import Style
from rich.text import Text

from kvtui.session.live import Live
from kvtui.session.question import Question
from kvtui.tui.arrangement import TABS
from kvtui.tui.bindings import LIVE_KEYS, Keys, shown_key
from kvtui.tui.fields import attention_kind
from kvtui.tui.palette import BLUE, DIM, ORANGE, VERDICT_STYLE, glyphs
from kvtui.tui.panels.base import wrapped
from kvtui.units import format_bytes

_RUN_WORDS = {"starting": "STARTING", "decoding": "RUNNING", "held": "HELD"}

_TAB_NAMES: Final = 60
"""From this width every tab is named, not only the open one."""


def header_line(
    question: Question,
    live: Live,
    width: int,
    *,
    paused: bool,
    status: tuple[tuple[str, str], ...] = (),
) -> Text:
    """Model, attention and device on the left; run state and verdict as words on the right.

    ``status`` are words, each with its style, about where the records come from and go.
    """
    separator = glyphs().separator
    left = Text(no_wrap=True).append(" kvtui ", "bold")
    words: list[tuple[str, str]] = list(status)
    if paused:
        words.append((" PAUSED ", f"bold reverse {ORANGE}"))
    if live.phase in _RUN_WORDS:
        words.append((_RUN_WORDS[live.phase], f"bold {BLUE}"))
    answer = question.answer
    if answer is not None:
        kind = attention_kind(question.scenario).upper()
        memory = format_bytes(answer.budget.total_bytes)
        device = answer.budget.device
        named = f"{device} {memory}" if answer.budget.total_bytes is not None else device
        each = (f"tp {answer.per_rank.tp}",) if answer.per_rank.tp > 1 else ()
        left.append(" ").append(separator.join((answer.model, kind, named, *each)))
        verdict = answer.budget.verdict
        if question.error is not None:
            words.append(("NOT ANSWERED", f"bold {ORANGE}"))
        else:
            words.append(((verdict or "no budget").upper(), VERDICT_STYLE.get(verdict or "", DIM)))
    right = Text("  ").join(Text(word, style) for word, style in words).append(" ")
    left.truncate(max(0, width - right.cell_len - 1), overflow="ellipsis")
    left.pad_right(max(0, width - right.cell_len - left.cell_len))
    return left.append_text(right)


def formula_lines(question: Question, explained: tuple[str, str] | None, width: int) -> Text:
    """The focused figure's formula with its values, and where the rule comes from."""
    answer = question.answer
    if explained is None:
        part = answer.explanation("payload.bytes") if answer is not None else None
        if part is None:
            return Text(answer.formula if answer is not None else "", no_wrap=True)
        explained = part.line, part.source
    rule, source = explained
    lines = wrapped(rule, width, most=2)
    if len(lines) == 1 and len(source) <= width:
        lines.append(Text(source, DIM))
    elif len(lines) == 1:
        lines = wrapped(f"{rule}  {source}", width, most=2)
        lines[0].stylize(DIM, len(rule))
        lines[1].stylize(DIM)
    return Text("\n", no_wrap=True).join(lines[:2])


def footer_line(live: Live, width: int, *, tabs: bool, shown: str, keys: Keys = LIVE_KEYS) -> Text:
    """The keys that fit, each a link; with tabs, which one is open."""
    line = Text(no_wrap=True)
    if tabs:
        for number, name in enumerate(TABS, start=1):
            style = Style(bold=name == shown, reverse=name == shown)
            named = name == shown or width >= _TAB_NAMES
            text = f" {number} {name.title()} " if named else f" {number} "
            line.append(text, style + _link(f"show('{name}')"))
        line.append(" ")
    by_id = {binding.id: binding for binding in keys.bindings}
    pieces = {}
    room = width - line.cell_len
    for name in keys.footer_first:
        if name == "hold" and not live.running:
            continue
        binding = by_id[name]
        key = shown_key(binding).replace("ctrl+", "^")
        piece = Text(no_wrap=True)
        link = _link(binding.action)
        piece.append(f" {key}", Style.parse(f"bold {BLUE}") + link)
        piece.append(f" {_word(name, binding.description, live)} ", link)
        if piece.cell_len <= room:
            pieces[name] = piece
            room -= piece.cell_len
    for name in keys.footer:
        if name in pieces:
            line.append_text(pieces[name])
    return line


def _word(name: str, otherwise: str, live: Live) -> str:
    """What the key does now."""
    if otherwise == "run/stop":
        return "stop" if live.running else "run"
    if name == "hold":
        return "resume" if live.phase == "held" else "hold"
    return otherwise


def _link(action: str) -> Style:
    return Style(meta={"@click": f"app.{action}" if "(" in action else f"app.{action}()"})
