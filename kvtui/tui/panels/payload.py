"""Payload against budget: the figures of the sizing answer, each opening its formula."""

from dataclasses import dataclass

from rich.text import Text
from textual import events
from textual.message import Message

from kvtui.session.answer import Answer
from kvtui.session.question import Question
from kvtui.tui.palette import BLUE, CURSOR, DIM, LABEL, ORANGE, STALE, VERDICT_STYLE
from kvtui.tui.panels.base import Panel, wrapped
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
    "budget.available_bytes",
    "budget.spare_bytes",
    "limits.max_batch",
    "limits.max_context",
    "step.floor_ms",
)
"""Figures in the order the cursor walks them; names as in ``size --json``."""


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
        """The figures that fit, the most asked for first."""
        answer = self._question.answer
        if answer is None:
            reason = self._question.error
            return wrapped(str(reason) if reason else "Nothing asked yet.", width, most=height)
        found = [
            *self._bytes(answer, width),
            *self._budget(answer, width),
            self._limits(answer),
            *self._speed(answer, width),
        ]
        found += self._moves(answer, width, height - len(found))
        if self._question.error is not None:
            for line in found:
                line.stylize(STALE)
        return found

    def _figure(self, name: str, text: str, style: str = "bold") -> Text:
        here = self.has_focus and self.figure == name
        return Text(text, CURSOR if here else style, no_wrap=True)

    def _line(self, label: str, *parts: Text | str) -> Text:
        line = Text(no_wrap=True).append(f"{label:<8}", LABEL)
        for part in parts:
            line.append_text(part if isinstance(part, Text) else Text(part))
        return line

    def _bytes(self, answer: Answer, width: int) -> list[Text]:
        part = answer.payload
        exact = f"  {format_exact(part.bytes)}"
        per_token = self._figure(
            "payload.bytes_per_token", f"{format_bytes(part.bytes_per_token)}/token", ""
        )
        per_step = f"  {format_bytes(part.bytes_per_step)}/step"
        found = []
        kv = self._figure("payload.bytes", format_bytes(part.bytes))
        if width >= 70:
            found.append(self._line("KV", kv, exact, "  ", per_token, per_step))
        else:
            found.append(self._line("KV", kv, exact))
            found.append(self._line("", per_token, per_step))
        if part.state_bytes:
            found.append(self._line("state", f"{format_bytes(part.state_bytes)}, constant in T"))
        if answer.per_rank.tp > 1 or answer.block > 1:
            found.append(
                self._line(
                    "rank",
                    f"{format_bytes(answer.per_rank.reserved_bytes)} reserved on each of "
                    f"{answer.per_rank.tp}",
                )
            )
        return found

    def _budget(self, answer: Answer, width: int) -> list[Text]:
        part = answer.budget
        weights = format_bytes(part.weights_bytes)
        band = part.overhead_bytes
        found = [
            self._line(
                "weights",
                weights,
                Text("  other ", LABEL),
                f"{format_bytes(band.expected)}",
                Text(f" ({format_bytes(band.low)} to {format_bytes(band.high)})", DIM)
                if width >= 60
                else "",
                Text("  reserve ", LABEL) if part.reserve_bytes else "",
                format_bytes(part.reserve_bytes) if part.reserve_bytes else "",
            )
        ]
        if part.usable_bytes is None or part.spare_bytes is None:
            found.append(self._line("budget", "no memory figure: type one or choose a gpu"))
            return found
        shown = f" {format_bytes(part.usable_bytes)}"
        found.append(
            stacked_bar(
                [
                    Part(answer.per_rank.reserved_bytes, self.glyphs.full, BLUE),
                    Part(part.weights_bytes or 0, self.glyphs.medium, ""),
                    Part(band.expected + part.reserve_bytes, self.glyphs.light, DIM),
                ],
                part.usable_bytes,
                max(8, width - len(shown)),
                self.glyphs,
            ).append(shown, DIM)
        )
        verdict = part.verdict or ""
        spare = part.spare_bytes
        text = f"over by {format_bytes(-spare)}" if spare < 0 else f"{format_bytes(spare)} to spare"
        room: list[Text | str] = [
            Text(verdict.upper(), VERDICT_STYLE.get(verdict, "")),
            " ",
            self._figure("budget.spare_bytes", text, ""),
        ]
        if part.available_bytes is not None and part.available_bytes >= 0:
            held = self._figure("budget.available_bytes", format_bytes(part.available_bytes), "")
            room += [" of ", held, " for the cache" if width >= 60 else ""]
        elif width >= 60:
            room.append(", weights and overhead alone exceed the memory")
        found.append(self._line("verdict", *room))
        return found

    def _limits(self, answer: Answer) -> Text:
        return self._line(
            "limits",
            Text("max B ", LABEL),
            self._figure("limits.max_batch", format_count(answer.limits.max_batch), ""),
            Text("  max T ", LABEL),
            self._figure("limits.max_context", format_count(answer.limits.max_context), ""),
        )

    def _speed(self, answer: Answer, width: int) -> list[Text]:
        step, prefill = answer.step, answer.prefill
        if step.floor_ms is None:
            return [
                self._line(
                    "step", f"reads {format_bytes(step.kv_read_bytes)} of KV; no bandwidth given"
                )
            ]
        least, most = self.glyphs.at_least, self.glyphs.at_most
        bound = f"{step.bound}-bound"
        intensity = NOT_AVAILABLE if step.intensity is None else f"{step.intensity:.3g} FLOP/B"
        first = self._line(
            "step",
            self._figure("step.floor_ms", f"{least} {format_ms(step.floor_ms)}"),
            f"  {most} {format_per_s(step.tokens_per_s)} tok/s",
        )
        second = f"{bound}, {intensity}"
        filling = (
            f"{least} {format_ms(prefill.floor_ms)}, {prefill.bound}-bound"
            if prefill.floor_ms is not None
            else NOT_AVAILABLE
        )
        if width >= 70:
            first.append(f"  {second}", DIM)
            return [first, self._line("prefill", filling, f", {format_flops(prefill.flops)}")]
        return [first, self._line("", Text(second, DIM)), self._line("prefill", filling)]

    def _moves(self, answer: Answer, width: int, room: int) -> list[Text]:
        """What to move first, and warnings, in the lines that are left."""
        found: list[Text] = []
        over = answer.budget.verdict == "over"
        levers = [one for one in answer.levers if one.fits] if over else answer.levers
        if over and levers:
            first = levers[0]
            found.append(
                self._line(
                    "move",
                    Text(first.change, f"bold {ORANGE}"),
                    f" saves {format_bytes(first.saves_bytes)}",
                )
            )
            levers = levers[1:]
        elif over:
            found.append(self._line("move", Text("no single move fits", f"bold {ORANGE}")))
        for warning in answer.warnings:
            found += wrapped(f"! {warning}", width, ORANGE, most=2)
        two_lines = room - len(found) >= 2 * len(levers)
        for lever in levers:
            found.append(
                self._line(
                    "lever",
                    f"{lever.change}: {format_bytes(lever.saves_bytes)} less",
                    f", step {format_ms(lever.step_ms)}" if lever.step_ms is not None else "",
                )
            )
            if two_lines:
                found.append(self._line("", Text(lever.price, DIM)))
        return found[: max(0, room)]
