"""The dashboard's wiring: keys to actions, sources to the screen, and the way out.

No number is made here, and nothing is drawn here.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.command import Provider
from textual.screen import Screen
from textual.theme import Theme

from kvtui.client.local import LOCAL, Helpers
from kvtui.client.recorder import Recorder
from kvtui.config import Settings
from kvtui.decode_run import DecodeRun
from kvtui.errors import ExitCode, KvtuiError
from kvtui.log import LOG
from kvtui.session.live import Live
from kvtui.session.runs import RunOptions
from kvtui.sources.request import DetectDevice, Request
from kvtui.tui import lists
from kvtui.tui.bindings import BINDINGS, LIVE_KEYS, Keys, commands
from kvtui.tui.dashboard import TICK_S, Dashboard
from kvtui.tui.engine_room import EngineRoom
from kvtui.tui.exporting import SUFFIXES, new_recorder, text_of, write_new
from kvtui.tui.opening import Asked
from kvtui.tui.palette import BLUE, ORANGE
from kvtui.tui.panels.base import Panel
from kvtui.tui.panels.inputs import InputsPanel
from kvtui.tui.panels.live import LivePanel
from kvtui.tui.preset_commands import PresetCommands
from kvtui.tui.screen_settings import check
from kvtui.tui.signals import end_on_signals


class KvtuiApp(App[int]):
    """One question, one live run, one screen."""

    CSS_PATH = Path(__file__).with_name("kvtui.tcss")
    BINDINGS: ClassVar[list[BindingType]] = list(BINDINGS)
    TITLE = "kvtui"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {
        *App.COMMANDS,
        PresetCommands,
    }

    def __init__(
        self,
        request: Request,
        options: RunOptions,
        *,
        detect: DetectDevice | None = None,
        room: Callable[[Live], EngineRoom] = EngineRoom,
        settings: Settings | None = None,
    ) -> None:
        """Start from ``request``; an empty one is the demonstration on this machine."""
        super().__init__(ansi_color=bool(os.environ.get("NO_COLOR")))
        self.asked = Asked(request, options, detect)
        self.form, self.question = self.asked.form, self.asked.question
        self.live = Live()
        self.room = room(self.live)
        self.room.say = self.complain
        self.recorder_wanted: Recorder | None = None
        """What to record to from the start."""
        self._keymap_wanted = dict(settings.keys) if settings is not None else {}
        self._theme_wanted = settings.theme if settings is not None else None
        self.dashboard = Dashboard(
            self.asked,
            self.live,
            keys=self.keys,
            status=self.status,
            tick_s=settings.interval_s if settings is not None else TICK_S,
            live_panel=self.live_panel,
        )

    @property
    def keys(self) -> Keys:
        """What footer, help and palette list."""
        return LIVE_KEYS.rebound(self._keymap_wanted)

    def live_panel(self, live: Live, wanted: Callable[[], DecodeRun]) -> LivePanel:
        """The panel that shows the run."""
        return LivePanel(live, wanted)

    def status(self) -> tuple[tuple[str, str], ...]:
        """Words for the header about where records come from and go."""
        words = [(word, f"bold {BLUE}") for word in self.room.link_words()]
        recorder = self.room.recorder
        if recorder is not None and recorder.failure is not None:
            words.append((" NOT RECORDED ", f"bold reverse {ORANGE}"))
        elif recorder is not None:
            words.append(("REC", f"bold {ORANGE}"))
        return tuple(words)

    def get_default_screen(self) -> Screen[Any]:
        """The dashboard lies under everything else."""
        return self.dashboard

    # -- in and out --------------------------------------------------------------------------

    def on_load(self) -> None:
        """From here on a signal leaves by the same way as a key."""
        if not self.is_headless:
            end_on_signals(asyncio.get_running_loop(), self._leave, self.room.kill_now)

    def on_mount(self) -> None:
        """Start what may come after the first frame."""
        if self._theme_wanted is not None:
            self.theme = self._theme_wanted
        self.set_keymap(self._keymap_wanted)
        if self.recorder_wanted is not None:
            self.room.record(self.recorder_wanted)
        self.theme_changed_signal.subscribe(self, self._redraw)
        self.call_after_refresh(self.room.watch)

    async def on_unmount(self) -> None:
        """Stop the helpers, whichever way the screen ended."""
        await self.room.stop()

    def _handle_exception(self, error: Exception) -> None:
        """Keep what a crash says: the terminal shows it once, the log for good."""
        LOG.error("crashed", exc_info=error)
        super()._handle_exception(error)

    def _leave(self, status: int) -> None:
        self.exit(return_code=status)

    async def action_quit(self) -> None:
        """Leave; the helpers are stopped on the way out."""
        self.exit(return_code=0)

    # -- inputs ------------------------------------------------------------------------------

    @on(InputsPanel.Changed)
    def ask(self) -> None:
        """Answer what was typed, at once."""
        self.asked.again()
        self.dashboard.live_panel.refused = None
        self.dashboard.draw()

    @on(InputsPanel.PickerWanted)
    def open_picker(self, event: InputsPanel.PickerWanted) -> None:
        """Enter on a field with a list."""
        self.action_pick(event.picker)

    def action_pick(self, kind: str) -> None:
        """Choose a model, a device or a field's value from a list."""
        from kvtui.tui.screens.picker import PickerScreen

        def take(name: str | None) -> None:
            if name is None:
                return
            self.choose(kind, name)

        self.push_screen(PickerScreen(kind, lists.names(kind)), take)

    def action_compare(self) -> None:
        """The question of the last good answer, under other kinds, formats and engines."""
        from kvtui.tui.screens.comparison import ComparisonScreen

        if self.question.scenario is not None:
            self.push_screen(ComparisonScreen(self.question.scenario))

    def action_move(self) -> None:
        """Type what the first move that fits would; the first at all where none does."""
        levers = self.question.answer.levers if self.question.answer is not None else []
        chosen = next((one for one in levers if one.fits), levers[0] if levers else None)
        if chosen is None:
            self.tell("There is no move to make.")
            return
        self.asked.move(chosen.fields)
        self.ask()
        self.tell(f"{chosen.change}: {chosen.price}. u takes it back.")

    def action_undo(self) -> None:
        """Type what stood before the last move."""
        if self.asked.undo():
            self.ask()
        else:
            self.tell("No move to take back.")

    def choose(self, kind: str, name: str) -> None:
        """Take a preset, or a value for the field ``kind``."""
        if kind == "workloads":
            self.asked.anew(Request(workload=name))
            self.dashboard.draw()
            return
        if kind == "models":
            self.form.choose_model(name, self.question.scenario)
        elif kind == "devices":
            self.form.choose_device(name)
        else:
            self.dashboard.inputs.choose(kind, name)
        self.ask()

    def action_save(self) -> None:
        """Ask for a name and save the question under it."""
        from kvtui.sources.saving import save_workload
        from kvtui.tui.screens.naming import NamingScreen

        def save(name: str | None) -> None:
            if name is None:
                return
            try:
                path = save_workload(name, self.form.request())
            except KvtuiError as error:
                self.complain(str(error))
                return
            self.tell(f"Saved: {path}. kvtui --workload {name} asks it again.")

        self.push_screen(NamingScreen(), save)

    def action_step(self, change: str) -> None:
        """Halve, double, raise or lower the focused number."""
        self.dashboard.inputs.step(change)

    # -- the run -----------------------------------------------------------------------------

    async def action_run(self) -> None:
        """Run what is on the screen, or stop the run."""
        if self.live.running:
            await self.room.end()
            return
        panel = self.dashboard.live_panel
        panel.refused = None
        self.dashboard.show_run()
        try:
            wanted = self.asked.run()
            await self.room.run(wanted, self.form.request().given())
        except KvtuiError as error:
            panel.refused = f"Not run: {error}"
        panel.renew_plots = True
        self.dashboard.draw()

    async def action_hold(self) -> None:
        """Hold the run itself, or let it go on."""
        if self.live.running:
            await self.room.hold(paused=self.live.phase != "held")

    def action_record(self) -> None:
        """Record to a new file in the present folder, or end the recording."""
        recorder = self.room.recorder
        if recorder is not None:
            self.room.end_recording()
            if recorder.failure is None:
                self.tell(f"Recorded: {recorder.path}")
        else:
            try:
                opened = new_recorder()
            except KvtuiError as error:
                self.complain(str(error))
                return
            self.room.record(opened)
            if opened.failure is None:
                self.tell(f"Recording to {opened.path}; w ends it.")
        self.dashboard.draw()

    def action_export(self, form: str = "") -> None:
        """Ask for a form, or write it where it was said."""
        from kvtui.tui.screens.export import ExportScreen

        if form:
            self.call_after_refresh(self._export, form)
        else:
            self.push_screen(ExportScreen(), self._export_chosen)

    def _export_chosen(self, form: str | None) -> None:
        if form is not None:
            self.call_after_refresh(self._export, form)

    def _export(self, form: str) -> None:
        try:
            if form == "svg":
                text = self.export_screenshot(title="kvtui")
            else:
                text = text_of(form, self.question.answer, self.live)
            self.tell(f"Written: {write_new(form, text)}")
        except KvtuiError as error:
            self.complain(str(error))

    def tell(self, sentence: str) -> None:
        """Show a sentence for a while."""
        LOG.info("%s", sentence)
        self.notify(sentence, markup=False)

    def complain(self, sentence: str) -> None:
        """The same, of what went wrong, and for longer."""
        LOG.error("%s", sentence)
        if self.is_running:
            self.notify(sentence, severity="error", timeout=20, markup=False)

    # -- the view ----------------------------------------------------------------------------

    def _redraw(self, _: Theme) -> None:
        self.call_after_refresh(self.dashboard.draw)

    async def action_pause(self) -> None:
        """Freeze the view; the run and what it records go on."""
        self.dashboard.pause()

    def action_show(self, name: str) -> None:
        """Switch tabs; where all panels are visible, focus that one."""
        self.dashboard.show(name)

    def action_walk(self, by: int) -> None:
        """Focus the next visible panel."""
        if by > 0:
            self.screen.focus_next(Panel)
        else:
            self.screen.focus_previous(Panel)

    def action_zoom(self) -> None:
        """Maximise the focused panel, or go back."""
        self.dashboard.zoom()

    def action_theme(self) -> None:
        """Choose a theme from the palette's list."""
        self.search_themes()

    def action_help(self) -> None:
        """Keys and figures."""
        from kvtui.tui.screens.help import HelpScreen

        self.push_screen(HelpScreen(self.keys))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every key's action is in the palette too."""
        yield from super().get_system_commands(screen)
        for title, key, action in commands(self.keys):
            yield SystemCommand(title, f"key {key}", self._command(action))
        for form in SUFFIXES:
            yield SystemCommand(
                f"Export as {form}",
                "a new file in the present folder",
                self._command(f"export('{form}')"),
            )

    def _command(self, action: str) -> Callable[[], object]:
        return lambda: self.run_worker(self.run_action(action))


def run(
    request: Request,
    options: RunOptions,
    *,
    detect: DetectDevice | None = None,
    settings: Settings,
    record: Path | None = None,
    helpers: Helpers = LOCAL,
) -> int:
    """Show the dashboard until it is left; the exit status. All of it goes to ``record`` too.

    Raises:
        InputError: a theme or key cannot be used, or the first question cannot be asked.
        SourceError: ``record`` cannot be opened.
    """
    app = KvtuiApp(
        request,
        options,
        detect=detect,
        room=lambda live: EngineRoom(live, helpers),
        settings=settings,
    )
    return shown(app, settings, record)


def shown(app: KvtuiApp, settings: Settings, record: Path | None = None) -> int:
    """Show ``app`` until it is left; the exit status.

    Raises:
        InputError: a theme or key cannot be used, or the first question cannot be asked.
        SourceError: ``record`` cannot be opened; nothing of it is touched before the rest is right.
    """
    check(settings)
    if app.question.answer is None and app.question.error is not None:
        raise app.question.error
    with contextlib.nullcontext() if record is None else Recorder(record) as app.recorder_wanted:
        try:
            app.run(mouse=settings.mouse)
        finally:
            app.room.kill_now()
            LOG.info("left with status %s", app.return_code)
    return int(app.return_code or ExitCode.DONE)
