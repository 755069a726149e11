"""Where the bytes went: the ladder as one bar and a table, every gap with its name."""

from dataclasses import dataclass

from rich.text import Text
from textual import events
from textual.message import Message

from kvtui.session.ladder import Rung, ladder
from kvtui.session.live import Live
from kvtui.tui.palette import BLUE, CURSOR, DIM, LABEL, ORANGE
from kvtui.tui.panels.base import Panel, wrapped
from kvtui.tui.plots import Part, stacked_bar
from kvtui.units import format_bytes

_NAME = 15
_BYTES = 9
_GAP = 11
_WIDE = 56
"""From this width the bytes of a gap stand beside its name."""
_SENTENCES = 96
"""From this width a gap's sentence stands on its line."""


class MemoryPanel(Panel, can_focus=True):
    """Draws the ladder of the device in use, of the host before any run."""

    @dataclass
    class Walked(Message):
        """Another rung is under the cursor."""

    def __init__(self, live: Live) -> None:
        """Show ``live``."""
        super().__init__("memory: where the bytes went", id="memory")
        self._live = live
        self._at = 0

    def explanation(self) -> tuple[str, str] | None:
        """What the rung under the cursor holds beyond the one before."""
        rungs = ladder(self._live)
        rung = rungs[self._at % len(rungs)]
        gap = "" if rung.gap_bytes is None else f": {_signed(rung.gap_bytes)}"
        return f"{rung.name} {format_bytes(rung.bytes)}, {rung.gap}{gap}", rung.sentence

    def on_key(self, event: events.Key) -> None:
        """Walk the rungs."""
        step = {"up": -1, "left": -1, "down": 1, "right": 1}.get(event.key)
        if step is None:
            return
        event.stop()
        event.prevent_default()
        self._at = (self._at + step) % len(ladder(self._live))
        self._shown()

    def on_focus(self) -> None:
        """Show the cursor."""
        self._shown()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.update()

    def _shown(self) -> None:
        self.update()
        self.post_message(self.Walked())

    def lines(self, width: int, height: int) -> list[Text]:
        """The bar, then a row a rung, with its sentence where there is room."""
        rungs = ladder(self._live)
        total = rungs[-1].bytes
        styles = (
            (self.glyphs.full, BLUE),
            (self.glyphs.medium, BLUE),
            (self.glyphs.full, ""),
            (self.glyphs.medium, ""),
            (self.glyphs.light, ORANGE),
            (self.glyphs.light, ""),
        )
        found = []
        if total:
            parts = [
                Part(rung.gap_bytes or 0, *style)
                for rung, style in zip(rungs[:-1], styles, strict=False)
            ]
            found.append(stacked_bar(parts, total, width, self.glyphs))
        most = _sentence_lines(rungs, width, height - 1) if width < _SENTENCES else 0
        for index, rung in enumerate(rungs):
            glyph, style = styles[index] if index < len(rungs) - 1 else (self.glyphs.empty, DIM)
            line = Text(no_wrap=True).append(f"{glyph} ", style)
            here = self.has_focus and index == self._at % len(rungs)
            line.append(f"{rung.name:<{_NAME}}", CURSOR if here else LABEL)
            line.append(f"{format_bytes(rung.bytes):>{_BYTES}}", "bold")
            if width >= _WIDE:
                line.append(f"{_signed(rung.gap_bytes) if index else '':>{_GAP}}")
            line.append(f"  {_fitting(rung.gap, width - line.cell_len - 2)}", DIM)
            if width >= _SENTENCES:
                line.pad_right(max(0, _WIDE + 14 - line.cell_len))
                line.append(f" {rung.sentence}", DIM)
            found.append(line)
            if most:
                found += [
                    Text("  ").append_text(one)
                    for one in wrapped(rung.sentence, width - 2, DIM, most=most)
                ]
        return _without_unknown(found, rungs, height) if len(found) > height else found


def _without_unknown(lines: list[Text], rungs: tuple[Rung, ...], height: int) -> list[Text]:
    """Rungs that nobody knows give way where the panel is short."""
    bar = len(lines) - len(rungs)
    kept = [
        line
        for index, line in enumerate(lines)
        if index < bar or rungs[index - bar].bytes is not None
    ]
    return (kept if len(kept) > bar else lines)[:height]


def _sentence_lines(rungs: tuple[Rung, ...], width: int, height: int) -> int:
    """How many lines a sentence under its rung may take; 0 where there is no room for any."""
    for most in (2, 1):
        lines = sum(1 + len(wrapped(one.sentence, width - 2, most=most)) for one in rungs)
        if lines <= height:
            return most
    return 0


def _signed(size: int | None) -> str:
    shown = format_bytes(size)
    return f"+{shown}" if size is not None and size >= 0 else shown


def _fitting(gap: str, width: int) -> str:
    """As many of the gap's comma-separated names as fit."""
    while len(gap) > width and ", " in gap:
        gap = gap.rpartition(", ")[0]
    return gap
