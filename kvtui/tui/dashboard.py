"""The screen with all panels: how they are arranged, and when they are drawn.

Nothing is drawn per record: a timer looks whether anything changed. Panels of the run are drawn
at most four times a second, plots twice, and not at all while the view is paused.
"""

from collections.abc import Callable
from typing import Final

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Static

from kvtui.decode_run import DecodeRun
from kvtui.session.live import Live
from kvtui.tui import arrangement
from kvtui.tui.bindings import LIVE_KEYS, Keys
from kvtui.tui.frame import footer_line, formula_lines, header_line
from kvtui.tui.opening import Asked
from kvtui.tui.palette import ASCII, glyphs, plain, tinted
from kvtui.tui.panels.base import Panel
from kvtui.tui.panels.gpu import GpuPanel
from kvtui.tui.panels.inputs import InputsPanel
from kvtui.tui.panels.live import LivePanel
from kvtui.tui.panels.memory import MemoryPanel
from kvtui.tui.panels.payload import PayloadPanel

TICK_S: Final = 0.25
"""Text repaints at most at 4 Hz, plots at every second tick."""
_TAB_PANELS: Final = {
    "size": ("#inputs", "#payload"),
    "live": ("#live",),
    "memory": ("#memory", "#gpu"),
}
"""Panels of a tab in the order in which its key focuses them."""


class Dashboard(Screen[None]):
    """Header, panels, formula and footer over one question and one live run."""

    def __init__(
        self,
        asked: Asked,
        live: Live,
        *,
        keys: Keys = LIVE_KEYS,
        status: Callable[[], tuple[tuple[str, str], ...]] = tuple,
        tick_s: float = TICK_S,
        live_panel: Callable[[Live, Callable[[], DecodeRun]], LivePanel] = LivePanel,
    ) -> None:
        """Show ``asked`` and ``live``; ``status`` gives words, with styles, for the header."""
        super().__init__()
        self._asked, self._live = asked, live
        self._keys, self._status, self._tick_s = keys, status, tick_s
        self._said: tuple[tuple[str, str], ...] = ()
        self._shown = "size"
        self.paused = False
        self._seen = (-1, -1)
        self._ticks = 0
        self._ready = False
        """All widgets are there; sizes may be known before."""
        self.inputs = InputsPanel(asked.form, asked.question)
        self.live_panel = live_panel(live, asked.run)
        self._of_question = (self.inputs, PayloadPanel(asked.question))
        self._of_run = (MemoryPanel(live), GpuPanel(live), self.live_panel)
        lines = ("header", "formula", "footer", "too-small")
        self._lines = {name: Static(id=name, markup=False) for name in lines}

    def compose(self) -> ComposeResult:
        """What is asked and where the bytes went on the left, the answers on the right."""
        inputs, payload = self._of_question
        memory, gpu, live = self._of_run
        yield self._lines["header"]
        with Container(id="body"):
            yield Container(inputs, memory, gpu, id="left")
            yield Container(payload, live, id="right")
        yield self._lines["formula"]
        yield self._lines["footer"]
        yield self._lines["too-small"]

    def on_mount(self) -> None:
        """Focus the inputs (no field takes text yet) and begin to look for changes."""
        self.set_class(glyphs() is ASCII, "ascii")
        self._ready = True
        self.inputs.focus()
        self.rearrange()
        self.set_interval(self._tick_s, self._tick)

    def on_resize(self) -> None:
        """Another size may be another arrangement; the app knows its size by now."""
        self.rearrange()

    def rearrange(self) -> None:
        """Panels for this size and tab."""
        if not self._ready:
            return
        size = self.app.size
        for name, holds in arrangement.classes(*size, self._shown).items():
            self.set_class(holds, name)
        self._set("too-small", Text(arrangement.size_needed(*size)))
        self.call_after_refresh(self.draw)

    def _tick(self) -> None:
        """Draw what may have changed; plots at half the rate."""
        self._ticks += 1
        limit = self._live.limit_bytes_per_s
        if limit is not None and self._live.device is not None and self._live.device.kind == "cpu":
            self._asked.question.measured(limit)
        if self.paused or not self.is_current:
            return
        plots = self._ticks % 2 == 0 and self.live_panel.plot_is_stale
        seen = (self._live.revision, self._asked.question.revision)
        if seen[1] != self._seen[1]:
            self._seen = seen
            self.draw()
        elif seen != self._seen or plots:
            self._seen = seen
            self.live_panel.renew_plots |= plots
            self._draw_run()
        elif self._status() != self._said:
            self._draw_header()

    def draw(self) -> None:
        """Bring every visible panel up to date; paused, those of the run stay as they are."""
        if not self._ready or not self.is_attached:
            return
        for panel in self._of_question:
            panel.update()
        self._draw_run()

    def _draw_run(self) -> None:
        """What records change: the panels of the run, and the lines around them."""
        if not self.paused:
            for panel in self._of_run:
                panel.update()
        width = self.app.size.width
        question = self._asked.question
        self._draw_header()
        explained = self.focused.explanation() if isinstance(self.focused, Panel) else None
        self._set("formula", formula_lines(question, explained, max(1, width - 2)))
        tabs = not self.has_class("full")
        self._set(
            "footer",
            footer_line(self._live, width, tabs=tabs, shown=self._shown, keys=self._keys),
        )

    def _draw_header(self) -> None:
        self._said = self._status()
        line = header_line(
            self._asked.question,
            self._live,
            self.app.size.width,
            paused=self.paused,
            status=self._said,
        )
        self._set("header", line)

    def _set(self, line: str, text: Text) -> None:
        widget = self._lines[line]
        drawn = tinted(text, dark=self.app.current_theme.dark)
        if self.has_class("ascii"):
            drawn = plain(drawn)
        if widget.content != drawn:
            widget.update(drawn, layout=False)

    @on(PayloadPanel.Walked)
    @on(MemoryPanel.Walked)
    def show_formula(self) -> None:
        """Another figure, another formula."""
        self.draw()

    def on_descendant_focus(self) -> None:
        """Another panel, another formula."""
        self.call_after_refresh(self.draw)

    def pause(self) -> None:
        """Freeze the view, or let it follow again."""
        self.paused = not self.paused
        self._seen = (-1, -1)
        self.draw()

    def show(self, name: str) -> None:
        """Open a tab and focus its first panel; its next one where that has the focus."""
        self._shown = name
        self.rearrange()
        panels = [self.query_one(one, Panel) for one in _TAB_PANELS[name]]
        focused = [one.has_focus for one in panels]
        at = (focused.index(True) + 1) % len(panels) if True in focused else 0
        self.call_after_refresh(panels[at].focus)

    def show_run(self) -> None:
        """Bring the run into sight where it is behind a tab."""
        if self.has_class("tabs"):
            self.show("live")

    def zoom(self) -> None:
        """Maximise the focused panel, or go back."""
        if self.maximized is not None:
            self.minimize()
        elif isinstance(self.focused, Panel):
            self.maximize(self.focused)
        self.call_after_refresh(self.draw)
