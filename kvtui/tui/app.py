"""The dashboard's wiring: panels, keys, timers, and the way out. No number is made here."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Static

from kvtui.errors import ExitCode, InputError, KvtuiError
from kvtui.session.live import Live
from kvtui.session.question import Question
from kvtui.session.runs import DEMONSTRATION, DEMONSTRATION_SECONDS, RunOptions, decode_run
from kvtui.sources.request import DetectDevice, Request
from kvtui.tui.bindings import BINDINGS
from kvtui.tui.engine_room import EngineRoom
from kvtui.tui.fields import Form
from kvtui.tui.frame import footer_line, formula_lines, header_line
from kvtui.tui.palette import ASCII, glyphs
from kvtui.tui.panels.base import Panel
from kvtui.tui.panels.gpu import GpuPanel
from kvtui.tui.panels.inputs import InputsPanel
from kvtui.tui.panels.live import LivePanel
from kvtui.tui.panels.memory import MemoryPanel
from kvtui.tui.panels.payload import PayloadPanel

_TICK_S = 0.25
"""Text repaints at most at 4 Hz, plots at every second tick."""
_LEAST = (40, 12)
_FULL = (120, 36)


class KvtuiApp(App[int]):
    """One question, one live run, one screen."""

    CSS_PATH = Path(__file__).with_name("kvtui.tcss")
    BINDINGS: ClassVar[list[BindingType]] = list(BINDINGS)
    TITLE = "kvtui"
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        request: Request,
        options: RunOptions,
        *,
        detect: DetectDevice | None = None,
        room: Callable[[Live], EngineRoom] = EngineRoom,
        theme: str | None = None,
    ) -> None:
        """Start from ``request``; an empty one is the demonstration on this machine."""
        super().__init__(ansi_color=bool(os.environ.get("NO_COLOR")))
        self._options = options
        self._chosen = bool(request.given())
        self.form = Form(base=request if self._chosen else _demonstration())
        self.question = Question(detect=detect)
        self.question.ask(self.form.request())
        self.live = Live()
        self.room = room(self.live)
        self._wanted_theme = theme
        self._shown = "size"
        self._paused = False
        self._seen = (-1, -1)
        self._ticks = 0

    def compose(self) -> ComposeResult:
        """Header, panels, formula, footer."""
        yield Static(id="header", markup=False)
        with Container(id="body"):
            yield InputsPanel(self.form, self.question)
            yield PayloadPanel(self.question)
            yield LivePanel(self.live)
            with Container(id="bottom"):
                yield MemoryPanel(self.live)
                yield GpuPanel(self.live)
        yield Static(id="formula", markup=False)
        yield Static(id="footer", markup=False)
        yield Static(f"kvtui needs {_LEAST[0]} x {_LEAST[1]} cells.", id="too-small", markup=False)

    async def on_mount(self) -> None:
        """Focus the inputs (no field takes text yet), then start what may come later."""
        if self._wanted_theme is not None:
            self.theme = self._wanted_theme
        self.screen.set_class(glyphs() is ASCII, "ascii")
        self.query_one(InputsPanel).focus()
        self._arrange()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._leave, 128 + number)
        self.set_interval(_TICK_S, self._tick)
        self.call_after_refresh(self._watch)

    async def _watch(self) -> None:
        await self.room.watch()

    async def on_unmount(self) -> None:
        """Stop the helpers, whichever way the screen ended."""
        await self.room.stop()

    def _leave(self, status: int) -> None:
        self.exit(return_code=status)

    # -- drawing -----------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Another size may be another arrangement."""
        self._arrange()

    def _arrange(self) -> None:
        width, height = self.size
        full = width >= _FULL[0] and height >= _FULL[1]
        for name, holds in (
            ("tiny", width < _LEAST[0] or height < _LEAST[1]),
            ("narrow", width < 76),
            ("full", full),
            ("tabs", not full),
            ("tall", full and height >= 48),
            ("huge", full and width >= 160),
            ("show-size", self._shown == "size"),
            ("show-live", self._shown == "live"),
            ("show-memory", self._shown == "memory"),
        ):
            self.screen_stack[0].set_class(holds, name)
        self.call_after_refresh(self.draw)

    def _tick(self) -> None:
        """Draw if anything changed; plots at half the rate."""
        self._ticks += 1
        limit = self.live.limit_bytes_per_s
        if limit is not None and self.live.device is not None and self.live.device.kind == "cpu":
            self.question.measured(limit)
        seen = (self.live.revision, self.question.revision)
        if self._paused or seen == self._seen or len(self.screen_stack) > 1:
            return
        self._seen = seen
        self.query_one(LivePanel).renew_plots = self._ticks % 2 == 0
        self.draw()

    def draw(self) -> None:
        """Bring every visible panel up to date."""
        if not self.is_running:
            return
        base = self.screen_stack[0]
        for panel in base.query(Panel):
            panel.update()
        width = self.size.width
        self._set("#header", header_line(self.question, self.live, width, paused=self._paused))
        figure = base.query_one(PayloadPanel).figure
        self._set("#formula", formula_lines(self.question, figure, max(1, width - 2)))
        self._set("#footer", footer_line(width, tabs=not base.has_class("full"), shown=self._shown))

    def _set(self, selector: str, text: Text) -> None:
        widget = self.screen_stack[0].query_one(selector, Static)
        if widget.visual != text and getattr(widget, "drawn", None) != text:
            widget.drawn = text  # type: ignore[attr-defined]  # remembered to repaint nothing twice
            widget.update(text, layout=False)

    # -- inputs ------------------------------------------------------------------------------

    @on(InputsPanel.Changed)
    def ask(self) -> None:
        """Answer what was typed, at once."""
        self._chosen = True
        self.question.ask(self.form.request())
        self.draw()

    @on(PayloadPanel.Walked)
    def show_formula(self) -> None:
        """Another figure, another formula."""
        self.draw()

    @on(InputsPanel.PickerWanted)
    def open_picker(self, event: InputsPanel.PickerWanted) -> None:
        """Enter on a field with a list."""
        self.action_pick(event.picker)

    def action_pick(self, kind: str) -> None:
        """Choose a model or a device by name."""
        from kvtui.sources import presets
        from kvtui.tui.screens.picker import PickerScreen

        names = (
            presets.model_names() if kind == "models" else ["host", "auto", *presets.device_names()]
        )

        def take(name: str | None) -> None:
            if name is None:
                return
            if kind == "models":
                self.form.choose_model(name, self.question.scenario)
            else:
                self.form.choose_device(name)
            self.ask()

        self.push_screen(PickerScreen(kind, names), take)

    def action_step(self, change: str) -> None:
        """Halve, double, raise or lower the focused number."""
        self.query_one(InputsPanel).step(change)

    # -- the run -----------------------------------------------------------------------------

    async def action_run(self) -> None:
        """Run what is on the screen, or stop the run."""
        panel = self.query_one(LivePanel)
        if self.live.running:
            await self.room.end()
            return
        panel.refused = None
        try:
            if self.question.error is not None:
                raise self.question.error
            assert self.question.scenario is not None
            options = self._options
            if not self._chosen and options.time_limit_s is None:
                options = replace(options, time_limit_s=DEMONSTRATION_SECONDS)
            wanted = decode_run(self.question.scenario, options)
        except KvtuiError as error:
            panel.refused = f"Not run: {error}"
        else:
            await self.room.run(wanted)
        if self.screen_stack[0].has_class("tabs"):
            self.action_show("live")
        panel.renew_plots = True
        self.draw()

    async def action_hold(self) -> None:
        """Hold the run itself, or let it go on."""
        if self.live.running:
            await self.room.hold(paused=self.live.phase != "held")

    def action_pause(self) -> None:
        """Freeze the view; the run and what it records go on."""
        self._paused = not self._paused
        self._seen = (-1, -1)
        self.draw() if not self._paused else self._set(
            "#header", header_line(self.question, self.live, self.size.width, paused=True)
        )

    # -- the view ----------------------------------------------------------------------------

    def action_show(self, name: str) -> None:
        """Switch tabs; where all panels are visible, focus that one."""
        self._shown = name
        self._arrange()
        target = {"size": "#inputs", "live": "#live", "memory": "#memory"}[name]
        self.call_after_refresh(lambda: self.screen_stack[0].query_one(target).focus())

    def action_walk(self, by: int) -> None:
        """Focus the next visible panel."""
        if by > 0:
            self.screen.focus_next(Panel)
        else:
            self.screen.focus_previous(Panel)

    def action_zoom(self) -> None:
        """Maximise the focused panel, or go back."""
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif isinstance(self.focused, Panel):
            self.screen.maximize(self.focused)
        self.call_after_refresh(self.draw)

    def action_theme(self) -> None:
        """Choose a theme from the palette's list."""
        self.search_themes()

    def action_help(self) -> None:
        """Keys and figures."""
        from kvtui.tui.screens.help import HelpScreen

        self.push_screen(HelpScreen())

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every key's action is in the palette too."""
        yield from super().get_system_commands(screen)
        for binding in BINDINGS:
            if binding.show and binding.id not in ("palette", "quit", "help"):
                action = binding.action
                yield SystemCommand(
                    binding.tooltip or binding.description,
                    f"key {binding.key_display or binding.key.split(',')[0]}",
                    lambda action=action: self.run_worker(self.run_action(action)),
                )

    async def action_quit(self) -> None:
        """Leave; the helpers are stopped on the way out."""
        self.exit(return_code=0)


def _demonstration() -> Request:
    """What the screen starts on when nothing was asked."""
    return Request(workload=DEMONSTRATION, gpu="host")


def run(
    request: Request,
    options: RunOptions,
    *,
    detect: DetectDevice | None = None,
    theme: str | None = None,
    mouse: bool = True,
) -> int:
    """Show the dashboard until it is left; the exit status.

    Raises:
        InputError: the theme is unknown, or the first question cannot be asked.
    """
    app = KvtuiApp(request, options, detect=detect, theme=theme)
    if theme is not None and theme not in app.available_themes:
        raise InputError("theme", theme, "one of " + ", ".join(sorted(app.available_themes)))
    if app.question.answer is None and app.question.error is not None:
        raise app.question.error
    try:
        app.run(mouse=mouse)
    finally:
        app.room.kill_now()
    return int(app.return_code or ExitCode.DONE)
