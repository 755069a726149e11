"""The dashboard, driven by keys and fed by hand."""

import re
from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from kvtui.errors import InputError
from kvtui.records import Gone, HoldCommand, Notice, RunCommand, StopCommand, WatchCommand
from kvtui.session.runs import RunOptions
from kvtui.sources.request import Request
from kvtui.spec import Device
from kvtui.tui.app import KvtuiApp
from kvtui.tui.bindings import BINDINGS
from kvtui.tui.panels.base import Panel
from kvtui.tui.panels.inputs import InputsPanel
from kvtui.tui.panels.live import LivePanel
from kvtui.tui.panels.payload import PayloadPanel
from kvtui.tui.screens.help import help_text
from tests.tui.sources import HOST, HandRoom, ended, memory, opening, steps

TUTORIAL = Request(workload="tutorial", gpu="h200", weights="15GiB")
SIZES = [(1, 1), (10, 5), (39, 11), (40, 12), (60, 20), (80, 24), (119, 35), (120, 36), (200, 60),
         (300, 100)]  # fmt: skip


def detect(name: str) -> Device:
    return Device(name="this machine", memory_bytes=20 * 2**30, source="test", host=True)


def dashboard(room: HandRoom, request: Request | None = None) -> KvtuiApp:
    return KvtuiApp(request or Request(), RunOptions(), detect=detect, room=room)


def text(app: KvtuiApp, panel: type[Panel]) -> str:
    return app.screen_stack[0].query_one(panel).render().plain


def screen_text(app: KvtuiApp) -> str:
    """What the terminal shows, cell by cell."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    assert len(lines) == height
    assert all(sum(segment.cell_length for segment in line) == width for line in lines)
    return "\n".join("".join(segment.text for segment in line) for line in lines)


async def settle(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    """Let messages and timers run until ``condition`` holds."""
    for _ in range(200):
        if condition():
            return
        await pilot.pause(0.02)
    pytest.fail("the screen never came to the expected state")


async def test_the_first_screen_at_80x24() -> None:
    """At 80x24 inputs, payload, verdict, limits, step and formula are on the first screen."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        shown = screen_text(app)
        for word in (
            "inputs",
            "payload against budget",
            "2.00 GiB",
            "FITS",
            "max B",
            "max T",
            "tok/s",
            "2·L·B·T·Hkv·D·s = 2·32·4·4096·8·128·2",
            "1 Size",
            "r run",
            "? help",
            "q quit",
        ):
            assert word in shown, word  # fmt: skip
        assert not app.screen.show_vertical_scrollbar


async def test_everything_is_visible_from_120x36() -> None:
    """From 120x36 all panels are on one screen."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        shown = screen_text(app)
        for title in ("inputs", "payload against budget", "live", "memory", "device"):
            assert title in shown
        assert all(panel.size.height >= 5 for panel in app.query(Panel))


@pytest.mark.parametrize("size", SIZES)
async def test_any_size_draws(size: tuple[int, int]) -> None:
    """Every size from 1x1 to 300x100 draws without an error, with a run on screen."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=size) as pilot:
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 20), memory(1))
        await settle(pilot, lambda: app.live.steps == 20)
        for key in ("1", "2", "3", "2"):
            await pilot.press(key)
        await pilot.pause()
        if size[0] < 40 or size[1] < 12:
            assert app.screen.has_class("tiny")
        screen_text(app)


async def test_a_storm_of_sizes() -> None:
    """Resizing again and again while a run goes on never fails."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        room.workers[0].put(*opening(1))
        for index, size in enumerate([*SIZES, *reversed(SIZES)]):
            room.workers[0].put(steps(1, index * 10 + 1, index * 10 + 10))
            await pilot.resize_terminal(*size)
            width, height = size
            assert app.dashboard.has_class("full") == (width >= 120 and height >= 36)
            assert app.dashboard.has_class("tiny") == (width < 40 or height < 12)
        await settle(pilot, lambda: app.live.steps == 200)
        screen_text(app)


async def test_typing_recomputes_at_once() -> None:
    """Every keystroke in T is answered: 8 192 tokens double the tutorial's 2 GiB."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("down", "down", "right", "right", "enter")
        assert app.query_one(InputsPanel).current.name == "context"
        await pilot.press(*"8192")
        assert app.query_one(InputsPanel).editing
        await pilot.pause()
        assert "4.00 GiB" in text(app, PayloadPanel)
        await pilot.press("escape")
        await pilot.pause()
        assert "2.00 GiB" in text(app, PayloadPanel)


async def test_letters_are_keys_until_a_field_is_edited() -> None:
    """q leaves when nothing is edited; in an edited field it is a letter."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("down", "down", "enter", "q")
        assert app.is_running
        assert app.form.typed["layers"] == "q"
        await pilot.press("escape", "q")
        await pilot.pause()
    assert app.return_code == 0


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (["down", "down", "right", "right", "enter", "0", "enter"], "context is 0"),
        (["down", "down", "down", "right", "enter", "5", "enter"], "multiple of the KV heads (5)"),
    ],
)
async def test_a_bad_field_keeps_the_last_answer(keys: list[str], sentence: str) -> None:
    """A bad value leaves the last figures on screen and says the reason beside the field."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press(*keys)
        await pilot.pause()
        assert "2.00 GiB" in text(app, PayloadPanel)
        assert sentence in re.sub(r"\s+", " ", text(app, InputsPanel))
        assert "NOT ANSWERED" in screen_text(app)


async def test_brackets_and_signs_change_the_focused_number() -> None:
    """] doubles, [ halves, + and - step the number under the cursor."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("down", "down", "right", "]")
        assert app.form.typed["batch"] == "8"
        await pilot.press("[", "[")
        assert app.form.typed["batch"] == "2"
        await pilot.press("+")
        assert app.form.typed["batch"] == "3"
        await pilot.press("-")
        assert app.form.typed["batch"] == "2"


async def test_the_attention_kind_brings_its_own_fields() -> None:
    """Choosing mla shows latent fields with values and hides the head fields."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("down", "enter", *"mla", "enter")
        await pilot.pause()
        names = [one.name for one in app.query_one(InputsPanel).fields]
        assert "kv_lora_rank" in names
        assert "head_dim" not in names
        assert "576 MiB" in text(app, PayloadPanel)


async def test_picking_a_model() -> None:
    """p lists presets; typing narrows; Enter takes the model and its weights."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("p")
        await pilot.press(*"3.1-8b", "enter")
        await settle(pilot, lambda: "Llama-3.1-8B" in screen_text(app))
        assert "128 KiB/token" in text(app, PayloadPanel)


async def test_every_figure_opens_its_formula() -> None:
    """Walking the payload panel shows another formula for each figure."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("1")
        await settle(pilot, lambda: app.query_one(PayloadPanel).has_focus)
        seen = set()
        for _ in range(8):
            await pilot.pause()
            seen.add(app.query_one("#formula").render().plain)  # type: ignore[union-attr]
            await pilot.press("down")
        assert len(seen) == 8


async def test_a_run_from_start_to_end() -> None:
    """r sends the run on screen; its curve grows, prediction stands beside it, the end is said."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(120, 36)) as pilot:
        room.monitor.put(HOST)
        await pilot.press("r")
        command = room.workers[0].sent[0]
        assert isinstance(command, RunCommand)
        assert (command.target, command.start, command.time_limit_s) == (16384, 4096, 30.0)
        room.workers[0].put(*opening(1), steps(1, 1, 100), memory(1))
        await settle(pilot, lambda: "RUNNING" in screen_text(app))
        await settle(pilot, lambda: "equal" in text(app, LivePanel))
        assert " 4,196 of 16,384" in text(app, LivePanel)
        assert "aten::flash_for_cpu" in text(app, LivePanel)
        assert any(isinstance(one, WatchCommand) for one in room.monitor.sent)
        room.workers[0].put(steps(1, 101, 12288), ended(1, 12288))
        await settle(pilot, lambda: "TARGET" in text(app, LivePanel))
        assert app.live.progress == 1.0
        assert re.search("[\u2801-\u28ff]", text(app, LivePanel)), "the curve stays"


async def test_hold_and_stop_reach_the_worker() -> None:
    """h holds the run, h again resumes it, r stops it."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 10))
        await settle(pilot, lambda: app.live.phase == "decoding")
        await pilot.press("h")
        await pilot.press("r")
        await settle(pilot, lambda: len(room.workers[0].sent) == 3)
        assert room.workers[0].sent[1:] == [HoldCommand(paused=True), StopCommand()]


async def test_a_dead_worker_is_named_and_r_runs_again() -> None:
    """A killed worker leaves curve and cause on screen; the next r starts another."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 100))
        room.workers[0].put(
            Gone(role="worker", sentence="The worker was killed by SIGKILL.", exit_status=-9,
                 expected=False)
        )  # fmt: skip
        await settle(pilot, lambda: "killed by SIGKILL" in text(app, LivePanel))
        assert "LOST" in text(app, LivePanel)
        assert "33.6 MiB held" not in text(app, LivePanel) or app.live.steps == 100
        await pilot.press("r")
        assert len(room.workers) == 2
        assert isinstance(room.workers[1].sent[0], RunCommand)
        assert room.workers[1].sent[0].run == 2


async def test_a_run_that_cannot_be_is_refused_in_place() -> None:
    """A format that only sizing answers is refused with a sentence, and nothing is started."""
    room = HandRoom()
    app = dashboard(room, Request(workload="tutorial", dtype="q8_0"))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("r")
        await pilot.pause()
        assert "Not run: dtype is 'q8_0'" in text(app, LivePanel)
        assert room.workers == []


async def test_pause_freezes_the_view_and_says_so() -> None:
    """Space shows PAUSED and keeps the figures; what comes meanwhile appears on resuming."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 10))
        await settle(pilot, lambda: " 4,106 of" in text(app, LivePanel))
        await pilot.press("space")
        room.workers[0].put(steps(1, 11, 50))
        await settle(pilot, lambda: app.live.steps == 50)
        await pilot.pause(0.6)
        assert " 4,106 of" in text(app, LivePanel)
        assert "PAUSED" in screen_text(app)
        await pilot.press("space")
        await settle(pilot, lambda: " 4,146 of" in text(app, LivePanel))


async def test_nothing_is_painted_when_nothing_changed() -> None:
    """Without new records or keys no panel paints again."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(120, 36)) as pilot:
        room.monitor.put(HOST)
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 10))
        await settle(pilot, lambda: " 4,106 of" in text(app, LivePanel))
        await pilot.pause(0.6)
        before = [panel.paints for panel in app.query(Panel)]
        await pilot.pause(1.0)
        assert [panel.paints for panel in app.query(Panel)] == before


async def test_nvml_that_is_missing_is_said_in_place() -> None:
    """The device panel gives NVML's sentence and the host's figures."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(120, 36)) as pilot:
        room.monitor.put(
            Notice(topic="nvml", severity="warning", sentence="No NVIDIA driver here."), HOST
        )
        await settle(pilot, lambda: "No NVIDIA driver here." in screen_text(app))
        assert "12.0 GiB used of 32.0 GiB" in screen_text(app)


async def test_markup_in_a_name_is_text() -> None:
    """A model name that looks like markup is shown as it is."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        app.form.set("model", "[bold red]x[/")
        app.ask()
        await pilot.pause()
        assert "[bold red]x[/" in screen_text(app)


def test_every_binding_has_an_id_and_a_tooltip_and_is_in_the_help() -> None:
    """Keys, palette and help name the same actions."""
    page = help_text().plain
    ids = [binding.id for binding in BINDINGS]
    assert None not in ids
    assert len(set(ids)) == len(ids)
    for binding in BINDINGS:
        assert binding.tooltip
        assert binding.tooltip in page


async def test_the_palette_offers_every_action() -> None:
    """Every visible binding's action is a command of the palette."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(80, 24)):
        offered = {command.title for command in app.get_system_commands(app.screen)}
        own = {b.tooltip for b in BINDINGS if b.show and b.id not in ("palette", "quit", "help")}
        assert own <= offered


async def test_help_opens_and_closes() -> None:
    """? shows the help over the dashboard, Escape leaves it."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("question_mark")
        await settle(pilot, lambda: "KEYS" in screen_text(app))
        await pilot.press("escape")
        assert len(app.screen_stack) == 1


async def test_states_are_words_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR the verdict is still a word and no colour but the terminal's own is used."""
    monkeypatch.setenv("NO_COLOR", "1")
    app = dashboard(HandRoom(), Request(workload="support-desk"))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "OVER" in screen_text(app)
        assert app.ansi_color


async def test_ascii_mode_uses_no_other_glyph(monkeypatch: pytest.MonkeyPatch) -> None:
    """KVTUI_ASCII draws bars and plots in plain ASCII."""
    monkeypatch.setenv("KVTUI_ASCII", "1")
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 100))
        await settle(pilot, lambda: " 4,196 of" in text(app, LivePanel))
        allowed = set("·≥≤×−→┄…–—Σµ°")
        strange = {char for char in screen_text(app) if ord(char) > 126} - allowed
        assert not strange


async def test_leaving_stops_the_helpers() -> None:
    """Quitting in the middle of a run stops worker and monitor."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 10))
        await settle(pilot, lambda: app.live.phase == "decoding")
        await pilot.press("q")
    assert room.workers[0].stopped
    assert room.monitor.stopped


def test_an_unknown_theme_is_refused_by_name() -> None:
    """A theme that does not exist is an error that lists the names."""
    from kvtui.tui.app import run

    with pytest.raises(InputError, match="textual-dark"):
        run(TUTORIAL, RunOptions(), detect=detect, theme="plaid")
