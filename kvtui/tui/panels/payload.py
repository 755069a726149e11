"""Payload against budget: the figures of the sizing answer, each opening its formula."""

from dataclasses import dataclass

from rich.text import Text
from textual import events
from textual.message import Message

from kvtui.session.answer import Answer
from kvtui.session.parts import LeverPart
from kvtui.session.question import Question
from kvtui.tui.palette import BLUE, CURSOR, DIM, LABEL, ORANGE, STALE, VERDICT_STYLE
from kvtui.tui.panels.base import LABEL_WIDTH, Panel, beside, flow, pair, wrapped
from kvtui.tui.plots import Part, stacked_bar
from kvtui.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_exact,
    format_flops,
    format_ms,
    format_per_s,
)

FIGURES = (
    "payload.bytes",
    "payload.bytes_per_token",
    "payload.bytes_per_step",
    "budget.available_bytes",
    "budget.spare_bytes",
    "limits.max_batch",
    "limits.max_context",
    "step.floor_ms",
)
"""Figures in the order the cursor walks them; names as in ``size --json``."""

_TWO_COLUMNS = 110
"""From this width the levers stand beside the figures."""
_FIGURES_WIDTH = 66
_SHORT = 8
"""Below this height only what decides is shown."""


class PayloadPanel(Panel, can_focus=True):
    """The answer; up and down walk its figures."""

    @dataclass
    class Walked(Message):
        """Another figure is under the cursor."""

    def __init__(self, question: Question) -> None:
        """Show the last answer of ``question``."""
        super().__init__("payload against budget", id="payload")
        self._question = question
        self._at = 0

    @property
    def figure(self) -> str:
        """Name of the figure under the cursor."""
        return FIGURES[self._at]

    def explanation(self) -> tuple[str, str] | None:
        """The figure's formula with values, and its source."""
        answer = self._question.answer
        part = answer.explanation(self.figure) if answer is not None else None
        return None if part is None else (part.line, part.source)

    def on_key(self, event: events.Key) -> None:
        """Walk the figures."""
        step = {"up": -1, "left": -1, "down": 1, "right": 1}.get(event.key)
        if step is None:
            return
        event.stop()
        event.prevent_default()
        self._at = (self._at + step) % len(FIGURES)
        self.update()
        self.post_message(self.Walked())

    def on_focus(self) -> None:
        """Show the cursor."""
        self.update()
        self.post_message(self.Walked())

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.update()

    def lines(self, width: int, height: int) -> list[Text]:
        """The figures, the most asked for first; levers in the room that is left."""
        answer = self._question.answer
        if answer is None:
            reason = self._question.error
            return wrapped(str(reason) if reason else "Nothing asked yet.", width, most=height)
        inner = min(width, _FIGURES_WIDTH) if width >= _TWO_COLUMNS else width
        if height < _SHORT:
            found = [
                *self._cache(answer, inner)[:1],
                *self._verdict(answer, inner)[:1],
                *self._bar(answer, inner),
                *self._limits(answer, inner),
                *self._speed(answer, inner),
            ]
        else:
            found = [
                *self._cache(answer, inner),
                *self._beside_cache(answer, inner),
                *self._bar(answer, inner),
                *self._verdict(answer, inner),
                *self._limits(answer, inner),
                *self._speed(answer, inner),
            ]
        if width >= _TWO_COLUMNS:
            rest = width - _FIGURES_WIDTH - 3
            found = beside(found, self._moves(answer, rest, height), _FIGURES_WIDTH + 3)
        else:
            found += self._moves(answer, width, height - len(found))
        if self._question.error is not None:
            for line in found:
                line.stylize(STALE)
        return found

    def _figure(self, name: str, text: str, style: str = "") -> Text:
        here = self.has_focus and self.figure == name
        return Text(text, CURSOR if here else style, no_wrap=True)

    def _cache(self, answer: Answer, width: int) -> list[Text]:
        part = answer.payload
        found = flow(
            "KV cache",
            [
                self._figure("payload.bytes", format_bytes(part.bytes), "bold"),
                format_exact(part.bytes),
                self._figure(
                    "payload.bytes_per_token", f"{format_bytes(part.bytes_per_token)}/token"
                ),
                self._figure("payload.bytes_per_step", f"{format_bytes(part.bytes_per_step)}/step"),
            ],
            width,
        )
        if part.state_bytes:
            found += flow(
                "", [f"of it {format_bytes(part.state_bytes)} state, constant in T"], width
            )
        rank = answer.per_rank
        if rank.tp > 1 or answer.block > 1:
            each = f"reserved on each of {rank.tp} ranks" if rank.tp > 1 else "reserved in blocks"
            found += flow("per rank", [f"{format_bytes(rank.reserved_bytes)} {each}"], width)
        return found

    def _beside_cache(self, answer: Answer, width: int) -> list[Text]:
        part = answer.budget
        band = part.overhead_bytes
        other = format_bytes(band.expected)
        ends = f" ({format_bytes(band.low)} to {format_bytes(band.high)})"
        reserve = pair("reserve", format_bytes(part.reserve_bytes)) if part.reserve_bytes else ""
        each = " per rank" if answer.per_rank.tp > 1 else ""
        return flow(
            "weights",
            [
                Text(format_bytes(part.weights_bytes)).append(each, DIM),
                pair("other", Text(other).append(ends if band.high > band.low else "", DIM)),
                reserve,
            ],
            width,
        )

    def _bar(self, answer: Answer, width: int) -> list[Text]:
        part = answer.budget
        if part.usable_bytes is None or part.spare_bytes is None:
            return []
        shown = f" {format_bytes(part.usable_bytes)}"
        bar = stacked_bar(
            [
                Part(answer.per_rank.reserved_bytes, self.glyphs.full, BLUE),
                Part(part.weights_bytes or 0, self.glyphs.medium, ""),
                Part(part.overhead_bytes.expected + part.reserve_bytes, self.glyphs.light, DIM),
            ],
            part.usable_bytes,
            max(8, width - LABEL_WIDTH - len(shown)),
            self.glyphs,
        )
        return flow("budget", [bar.append(shown, DIM)], width)

    def _verdict(self, answer: Answer, width: int) -> list[Text]:
        part = answer.budget
        spare = part.spare_bytes
        if part.usable_bytes is None or spare is None:
            return flow("verdict", ["no memory figure:", "type one or choose a gpu"], width)
        verdict = part.verdict or ""
        text = f"over by {format_bytes(-spare)}" if spare < 0 else f"{format_bytes(spare)} to spare"
        chunks: list[Text | str] = [
            Text(verdict.upper(), VERDICT_STYLE.get(verdict, "")),
            self._figure("budget.spare_bytes", text),
        ]
        if part.available_bytes is not None and part.available_bytes >= 0:
            held = format_bytes(part.available_bytes)
            chunks.append(
                Text("of ", LABEL)
                .append_text(self._figure("budget.available_bytes", held))
                .append(" for the cache", LABEL)
            )
        else:
            chunks.append("weights and overhead alone do not fit")
        return flow("verdict", chunks, width)

    def _limits(self, answer: Answer, width: int) -> list[Text]:
        limits = answer.limits
        batch = self._figure("limits.max_batch", format_count(limits.max_batch))
        context = self._figure("limits.max_context", format_count(limits.max_context))
        return flow("limits", [pair("max B", batch), pair("max T", context)], width)

    def _speed(self, answer: Answer, width: int) -> list[Text]:
        step, prefill = answer.step, answer.prefill
        if step.floor_ms is None:
            reads = f"reads {format_bytes(step.kv_read_bytes)} of KV,"
            return flow("step", [reads, "no bandwidth given"], width)
        least, most = self.glyphs.at_least, self.glyphs.at_most
        intensity = "" if step.intensity is None else f"{step.intensity:.3g} FLOP/B"
        found = flow(
            "step",
            [
                self._figure("step.floor_ms", f"{least} {format_ms(step.floor_ms)}", "bold"),
                f"{most} {format_per_s(step.tokens_per_s)} tok/s",
                Text(f"{step.bound}-bound", DIM),
                Text(intensity, DIM),
            ],
            width,
        )
        flops = Text(format_flops(prefill.flops), DIM) if prefill.flops is not None else ""
        if prefill.floor_ms is None:
            return [*found, *flow("prefill", [NOT_AVAILABLE, flops], width)]
        floor = f"{least} {format_ms(prefill.floor_ms)}"
        bound = Text(f"{prefill.bound}-bound", DIM)
        return [*found, *flow("prefill", [floor, bound, flops], width)]

    def _moves(self, answer: Answer, width: int, room: int) -> list[Text]:
        """What to move first, then warnings and other levers, with prices if all of it fits."""
        over = answer.budget.verdict == "over"
        levers = [one for one in answer.levers if one.fits] if over else answer.levers
        style = f"bold {ORANGE}" if over else "bold"
        most = 2 if room >= 6 + 2 * len(answer.warnings) else 1
        warnings = [
            line
            for warning in answer.warnings
            for line in wrapped(f"! {warning}", width, ORANGE, most=most)
        ]
        found: list[Text] = []
        for priced in (True, False):
            found = []
            if levers:
                found += self._lever("move", levers[0], width, style, priced=priced)
            elif over:
                found += flow("move", [Text("no single move fits", style)], width)
            found += warnings
            others = [self._lever("or", one, width, "", priced=priced) for one in levers[1:]]
            if len(found) + sum(map(len, others)) <= room:
                return found + [line for lines in others for line in lines]
        for lines in others:
            if len(found) + len(lines) > room:
                break
            found += lines
        return found[: max(0, room)]

    def _lever(
        self, label: str, lever: LeverPart, width: int, style: str, *, priced: bool
    ) -> list[Text]:
        change = f"first: {lever.change}" if label == "move" else lever.change
        step = f"step {format_ms(lever.step_ms)}" if lever.step_ms is not None else ""
        saves = f"saves {format_bytes(lever.saves_bytes)}"
        found = flow(label, [Text(change, style), saves, step], width)
        if priced:
            price = wrapped(lever.price, width - LABEL_WIDTH, DIM, most=2)
            found += [Text(" " * LABEL_WIDTH, no_wrap=True).append_text(line) for line in price]
        return found
