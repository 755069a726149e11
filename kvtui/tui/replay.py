"""The dashboard over a recording: the same screen, with keys that wind it instead of a worker."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import ClassVar, Final

from textual.binding import BindingType

from kvtui.client.recording import Recording
from kvtui.config import Settings
from kvtui.decode_run import DecodeRun
from kvtui.records import EngineDevice, Limit, RunAsked, Steps
from kvtui.session.live import Live
from kvtui.session.recorded import recorded_request
from kvtui.session.runs import RunOptions
from kvtui.sources.request import DetectDevice, Request
from kvtui.tui.app import KvtuiApp, shown
from kvtui.tui.bindings import REPLAY_BINDINGS, REPLAY_KEYS, Keys
from kvtui.tui.palette import BLUE, ORANGE
from kvtui.tui.panels.live import LivePanel
from kvtui.tui.replay_overlay import Against, OverlaidLivePanel
from kvtui.tui.replay_panel import ReplayLivePanel
from kvtui.tui.replay_room import ReplayRoom
from kvtui.tui.replay_timeline import Timeline

_HEAD_RECORDS: Final = 2000
"""Records before the first step, among which the question is looked for."""
_QUESTION_S: Final = 0.5
"""How often it is looked whether another run has begun."""
_STANDING: Final = ("PAUSED", "END")


class ReplayApp(KvtuiApp):
    """Plays one recording."""

    BINDINGS: ClassVar[list[BindingType]] = list(REPLAY_BINDINGS)

    def __init__(
        self,
        recording: Recording,
        *,
        against: Recording | None = None,
        detect: DetectDevice | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Ask the question that was recorded, and play what came of it over ``against``."""
        self._recording = recording
        self._other = against
        self._against: Against | None = None
        self._head = head = recording_head(recording)
        self._recorded = recorded_request(head.asked, head.device, head.limit)
        self._question_of = head.asked.command.run if head.asked is not None else 0
        """The run whose question is on the screen."""
        super().__init__(
            self._recorded or Request(),
            RunOptions(),
            detect=detect,
            room=self._furnish,
            settings=settings,
        )

    def _furnish(self, live: Live) -> ReplayRoom:
        self.replay = ReplayRoom(live, self._recording)
        return self.replay

    def live_panel(self, live: Live, wanted: Callable[[], DecodeRun]) -> LivePanel:
        """With a second recording, one that shows both."""
        if self._other is None:
            return ReplayLivePanel(live, wanted)
        name, timeline = self._other.path.name, Timeline(self._other)
        self._against = Against(name, timeline, self.replay.timeline)
        return OverlaidLivePanel(live, wanted, self._against)

    @property
    def keys(self) -> Keys:
        """Those of a replay."""
        return REPLAY_KEYS.rebound(self._keymap_wanted)

    def status(self) -> tuple[tuple[str, str], ...]:
        """Position, speed, and what stands still."""
        return tuple(
            (f" {word} ", f"bold reverse {ORANGE}") if word in _STANDING else (word, f"bold {BLUE}")
            for word in self.replay.words()
        )

    def on_mount(self) -> None:
        """Begin with the run in sight, and say when its question is not known.

        The dashboard's own handler runs as well: Textual calls that of every class.
        """
        self.call_after_refresh(self.dashboard.show_run)
        self.set_interval(_QUESTION_S, self.follow_question)
        if self._against is not None:
            self.run_worker(self._against.timeline.build())
        if self._recorded is None:
            self.notify(
                "The recording does not hold a question that can be asked here; "
                "inputs and payload are the demonstration's.",
                severity="warning",
                markup=False,
            )

    def follow_question(self) -> None:
        """Ask what was asked of the run that is shown; what was typed meanwhile goes."""
        number = self.live.number
        asked = self.replay.timeline.asked.get(number)
        if number == self._question_of or asked is None:
            return
        self._question_of = number
        device = self.live.device or self._head.device
        limit = self.live.limit_before or self._head.limit
        request = recorded_request(asked, device, limit)
        if request is not None:
            self.asked.anew(request)
            self.dashboard.draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What is being replayed is recorded already."""
        return False if action == "record" else super().check_action(action, parameters)

    async def action_run(self) -> None:
        """Play again from the start."""
        self.replay.wind_to(0.0)
        await self.replay.hold(paused=False)

    async def action_hold(self) -> None:
        """Hold the replay or let it go on; at its end, play again."""
        if self.replay.at_end:
            await self.action_run()
        else:
            await self.replay.hold(paused=not self.replay.pace.paused)

    async def action_pause(self) -> None:
        """The same: a recording loses nothing while it stands still."""
        await self.action_hold()

    def action_wind(self, by: int) -> None:
        """Wind on or back."""
        self.replay.wind_by(by)

    def action_wind_to(self, where: str) -> None:
        """Wind to the start or the end."""
        self.replay.wind_to(0.0 if where == "start" else float("inf"))

    def action_speed(self, by: int) -> None:
        """Play faster or slower."""
        self.replay.pace.shift(by)


@dataclass(frozen=True, slots=True)
class Head:
    """What a recording says before its first step."""

    asked: RunAsked | None = None
    device: EngineDevice | None = None
    limit: Limit | None = None


def recording_head(recording: Recording) -> Head:
    """The question of the first run, and the machine that ran it."""
    head = Head()
    for record in islice(recording.read(), _HEAD_RECORDS):
        match record:
            case RunAsked() if head.asked is None:
                head = replace(head, asked=record)
            case EngineDevice():
                head = replace(head, device=record)
            case Limit():
                head = replace(head, limit=record)
            case Steps():
                break
    return head


def replay(
    path: Path,
    *,
    against: Path | None = None,
    detect: DetectDevice | None = None,
    settings: Settings,
) -> int:
    """Show the dashboard over the recording at ``path`` until it is left; the exit status.

    With ``against`` the curves of both are drawn in one plot.

    Raises:
        SourceError: the file is no recording of this version.
        InputError: a theme or key cannot be used.
    """
    with ExitStack() as opened:
        recording = opened.enter_context(closing(Recording(path)))
        other = None if against is None else opened.enter_context(closing(Recording(against)))
        app = ReplayApp(recording, against=other, detect=detect, settings=settings)
        return shown(app, settings)
