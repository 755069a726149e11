"""The dashboard, driven by keys and fed by hand."""

import re
from collections.abc import Callable

import msgspec
import pytest
from textual.pilot import Pilot

from kvtui.client.local import Helpers, NotStarted
from kvtui.client.source import Source
from kvtui.config import settings
from kvtui.errors import InputError
from kvtui.records import (
    Gone,
    GpuReading,
    HoldCommand,
    Limit,
    Notice,
    RunCommand,
    Stage,
    StopCommand,
    WatchCommand,
)
from kvtui.session.live import Live
from kvtui.session.runs import RunOptions
from kvtui.sources.request import Request
from kvtui.spec import Device
from kvtui.tui.app import KvtuiApp
from kvtui.tui.bindings import BINDINGS
from kvtui.tui.engine_room import EngineRoom
from kvtui.tui.palette import BLUE, ORANGE
from kvtui.tui.panels.base import Panel
from kvtui.tui.panels.gpu import GpuPanel
from kvtui.tui.panels.inputs import InputsPanel
from kvtui.tui.panels.live import LivePanel
from kvtui.tui.panels.memory import MemoryPanel
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
        run(TUTORIAL, RunOptions(), detect=detect, settings=settings({"theme": "plaid"}, {}))


@pytest.mark.parametrize("size", [(40, 12), (60, 20), (80, 24), (100, 30), (120, 36), (200, 60)])
async def test_the_verdict_and_the_way_out_are_always_in_sight(size: tuple[int, int]) -> None:
    """At every size from the least on, payload, verdict, help and quit are on the first screen."""
    app = dashboard(HandRoom(), Request(workload="support-desk"))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        shown = screen_text(app)
        for word in ("70.3 GiB", "OVER", "over by 11.3 GiB", "r run", "? help", "q quit"):
            assert word in shown, word


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_no_figure_is_cut(size: tuple[int, int]) -> None:
    """At the sizes people use, no line of inputs or payload ends in an ellipsis."""
    app = dashboard(HandRoom(), Request(workload="support-desk"))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert "…" not in text(app, PayloadPanel)
        assert "…" not in text(app, InputsPanel)


async def test_figures_per_rank_say_so() -> None:
    """With tensor parallelism, header, cache and weights say that they are of one rank."""
    app = dashboard(HandRoom(), Request(model="llama-3.1-8b", gpu="h200", context="4096", tp="2"))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert "tp 2" in screen_text(app)
        assert "reserved on each of 2 ranks" in text(app, PayloadPanel)
        assert "per rank" in text(app, PayloadPanel)


async def test_before_a_run_the_prediction_is_drawn() -> None:
    """The live panel says what r would run and draws its curve; typing changes both at once."""
    app = dashboard(HandRoom())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert "32.0 MiB to 128 MiB" in text(app, LivePanel)
        assert re.search("[\u2801-\u28ff]", text(app, LivePanel))
        await pilot.press("down", "down", "right", "right", "enter", *"8192", "enter")
        assert "16.0 MiB to 64.0 MiB" in text(app, LivePanel)


async def test_a_shape_that_only_sizing_answers_says_so_before_r() -> None:
    """The live panel gives the reason in place of a preview."""
    app = dashboard(HandRoom(), Request(workload="tutorial", dtype="q8_0"))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert "No live run of this: dtype is 'q8_0'" in text(app, LivePanel)


async def test_the_stage_is_said_while_a_run_is_prepared() -> None:
    """Before the first step the live panel says what the worker is doing."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("r")
        await settle(pilot, lambda: "importing torch" in text(app, LivePanel))
        room.workers[0].put(Stage(name="probe", detail="Measuring the read limit."))
        await settle(pilot, lambda: "Measuring the read limit." in text(app, LivePanel))


async def test_the_last_record_reaches_the_plot() -> None:
    """Whatever tick the end falls on, the curve is drawn to the end and then left alone."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 100))
        await settle(pilot, lambda: app.live.steps == 100)
        room.workers[0].put(steps(1, 101, 12288), ended(1, 12288))
        await settle(pilot, lambda: app.live.phase == "ended")
        await settle(pilot, lambda: not app.query_one(LivePanel).plot_is_stale)
        assert "\u28ff" * 50 in text(app, LivePanel)


async def test_typing_while_paused_leaves_the_run_frozen() -> None:
    """A paused view still answers what is typed, and shows nothing new of the run."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 10))
        await settle(pilot, lambda: " 4,106 of" in text(app, LivePanel))
        await pilot.press("space")
        room.workers[0].put(steps(1, 11, 50))
        await settle(pilot, lambda: app.live.steps == 50)
        await pilot.press("down", "down", "right", "]")
        await pilot.pause()
        assert "256 MiB" in text(app, PayloadPanel)
        assert " 4,106 of" in text(app, LivePanel)


async def test_tab_walks_fields_and_leaves_at_the_last() -> None:
    """Tab goes from field to field; only from the last one does it leave the inputs."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        panel = app.query_one(InputsPanel)
        walked = []
        for _ in panel.fields:
            assert panel.has_focus
            walked.append(panel.current.name)
            await pilot.press("tab")
        assert walked == [one.name for one in panel.fields]
        assert not panel.has_focus


async def test_attention_changes_by_arrows_and_dtype_from_a_list() -> None:
    """Right walks the attention kinds in place; Enter on dtype lists the formats."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("down", "right")
        assert app.form.typed["attention"] != "mha"
        await pilot.press("left", "down", "down", "down", "enter", *"fp8", "enter")
        await settle(pilot, lambda: len(app.screen_stack) == 1)
        assert app.form.typed["dtype"] == "fp8"
        assert "1.00 GiB" in text(app, PayloadPanel)


async def test_a_click_takes_a_field_and_a_tab() -> None:
    """The mouse moves the cursor to a field and opens tabs from the foot of the screen."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert await pilot.click(InputsPanel, offset=(29, 3))
        assert app.query_one(InputsPanel).current.name == "context"
        assert await pilot.click("#footer", offset=(11, 0))
        await settle(pilot, lambda: app.dashboard.has_class("show-live"))


async def test_every_rung_of_a_gpu_fits_and_explains_itself() -> None:
    """At 120x36 all seven rungs are visible; walking them says what each gap is."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("r")
        cuda = msgspec.structs.replace(opening(1)[1], kind="cuda")
        room.workers[0].put(*opening(1), cuda, steps(1, 1, 10), memory(1))
        await settle(pilot, lambda: "device total" in text(app, MemoryPanel))
        assert len(text(app, MemoryPanel).splitlines()) >= 7
        await pilot.press("3")
        await settle(pilot, lambda: app.query_one(MemoryPanel).has_focus)
        seen = set()
        for _ in range(7):
            await pilot.pause()
            seen.add(app.query_one("#formula").render().plain)  # type: ignore[union-attr]
            await pilot.press("down")
        assert len(seen) == 7
        assert any("allocator cache" in one for one in seen)


async def test_many_flags_leave_room_for_the_curve() -> None:
    """At 120x36 a run that ended badly with several flags still shows its curve."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("r")
        after = Limit(run=1, when="after", read_bytes_per_s=9e9, probe_bytes=1, threads=1)
        started = msgspec.structs.replace(opening(1)[4], cache="concat")
        room.workers[0].put(*opening(1), started, after, steps(1, 1, 1))
        room.workers[0].put(steps(1, 2, 8000))
        room.workers[0].put(
            Gone(role="worker", sentence="It is gone. " * 8, exit_status=1, expected=False)
        )
        await settle(pilot, lambda: "LOST" in text(app, LivePanel))
        assert {"EXPANDED", "CONTENDED"} <= set(text(app, LivePanel).split())
        await settle(pilot, lambda: "\u28ff" * 20 in text(app, LivePanel))
        assert "64.0 MiB" in text(app, LivePanel), "a curve of seven rows has a label half way"


async def test_a_light_theme_takes_darker_shades() -> None:
    """On a light theme the pair that carries meaning is dark enough to read."""
    app = dashboard(HandRoom(), Request(workload="support-desk"))
    async with app.run_test(size=(120, 36)) as pilot:
        panel = app.query_one(PayloadPanel)

        def bright() -> bool:
            styles = [str(span.style) for span in panel.render().spans]
            return any(ORANGE in style or BLUE in style for style in styles)

        await settle(pilot, bright)
        app.theme = "textual-light"
        await settle(pilot, lambda: not bright())


async def test_a_worker_that_cannot_start_is_said_in_place() -> None:
    """When the operating system refuses a process, the live panel says so and r tries again."""

    class NoRoom(HandRoom):
        def __call__(self, live: Live) -> EngineRoom:
            async def refuse() -> Source:
                return NotStarted("worker", "The worker cannot be started: no processes left.")

            async def monitor() -> Source:
                return self.monitor

            return EngineRoom(live, Helpers(refuse, monitor))

    app = dashboard(NoRoom())
    async with app.run_test(size=(120, 36)) as pilot:
        for _ in range(2):
            await pilot.press("r")
            await settle(pilot, lambda: "cannot be started" in text(app, LivePanel))
        assert app.live.number == 2


async def test_a_small_terminal_is_told_the_size_it_needs() -> None:
    """Below 40x12 one sentence gives the size needed and the size there is."""
    app = dashboard(HandRoom())
    async with app.run_test(size=(39, 11)) as pilot:
        await pilot.pause()
        shown = re.sub(r"\s+", " ", screen_text(app))
        assert "40x12 cells needed, this is 39x11." in " ".join(shown.split())


async def test_the_device_panel_names_what_people_expect() -> None:
    """ECC, throttling and MIG in words, shared memory said, and the machine's other GPUs."""
    room = HandRoom()
    app = dashboard(room, TUTORIAL)
    gpu = GpuReading(
        index=0, uuid="GPU-a", name="NVIDIA GB10", pci_bus_id=None, total_bytes=100 * 2**30,
        used_bytes=40 * 2**30, free_bytes=60 * 2**30, reserved_bytes=None, unified=True,
        busy_percent=97, power_w=650, power_limit_w=700, temperature_c=61, sm_clock_mhz=1980,
        memory_clock_mhz=2619, max_memory_clock_mhz=2619, throttle=["power cap"], mig=True,
        processes=[], missing={}, ecc=True, ecc_uncorrected=3,
    )  # fmt: skip
    other = msgspec.structs.replace(gpu, index=1, uuid="GPU-b", name="other", followed=False)
    async with app.run_test(size=(200, 60)) as pilot:
        room.monitor.put(gpu, other)
        await settle(pilot, lambda: bool(app.live.other_gpus))
        await settle(pilot, lambda: "GPU #1" in text(app, GpuPanel))
        shown = text(app, GpuPanel)
        for word in ("MIG", "UNIFIED", "THROTTLED: power cap", "3 UNCORRECTED ERRORS", "650 W"):
            assert word in shown
