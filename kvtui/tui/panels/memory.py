"""Where the bytes went: the ladder as one bar and a table, every gap with its name."""

from rich.text import Text

from kvtui.session.ladder import ladder
from kvtui.session.live import Live
from kvtui.tui.palette import BLUE, DIM, LABEL, ORANGE
from kvtui.tui.panels.base import Panel
from kvtui.tui.plots import Part, stacked_bar
from kvtui.units import format_bytes


class MemoryPanel(Panel, can_focus=True):
    """Draws the ladder of the device in use, of the host before any run."""

    def __init__(self, live: Live) -> None:
        """Show ``live``."""
        super().__init__("memory: where the bytes went", id="memory")
        self._live = live

    def lines(self, width: int, height: int) -> list[Text]:
        """The bar, then a row a rung."""
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
        for index, rung in enumerate(rungs):
            glyph, style = styles[index] if index < len(rungs) - 1 else (self.glyphs.empty, DIM)
            line = Text(no_wrap=True).append(f"{glyph} ", style)
            line.append(f"{rung.name:<16}", LABEL)
            line.append(f"{format_bytes(rung.bytes):>9}", "bold")
            gap = rung.gap_bytes
            shown = format_bytes(gap)
            signed = f"+{shown}" if gap is not None and gap >= 0 else shown
            if index:
                line.append(f" {signed:>10} " if width >= 46 else "  ")
                line.append(rung.gap, DIM)
                if width >= 90:
                    line.append(f": {rung.sentence}", DIM)
            else:
                line.append(f"  {rung.sentence}", DIM)
            found.append(line)
        return found[:height]
