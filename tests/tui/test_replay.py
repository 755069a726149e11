"""The dashboard over recordings, driven by keys."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from kvtui.client.recording import Recording
from kvtui.records import RECORDS_SCHEMA, Hello, Notice, Record, RunAsked, encode
from kvtui.session.live import Live
from kvtui.session.summary import summary
from kvtui.tui.bindings import REPLAY_BINDINGS, REPLAY_KEYS
from kvtui.tui.panels.live import LivePanel
from kvtui.tui.panels.payload import PayloadPanel
from kvtui.tui.replay import ReplayApp
from kvtui.tui.screens.help import help_text
from tests.client.recordings import decode, ended, host, opening, write
from tests.client.test_hostile_recordings import strange
from tests.tui.test_dashboard import SIZES, screen_text, settle, text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "run.jsonl", 4000)
    return tmp_path / "run.jsonl"


@pytest.fixture
def recording(path: Path) -> Iterator[Recording]:
    opened = Recording(path)
    yield opened
    opened.close()


def known_at(recording: Recording, at_ms: float) -> Live:
    """What applying every record up to a moment gives."""
    live, reader = Live(), recording.read()
    for record in reader:
        if reader.at_ms > at_ms:
            break
        live.apply(record)
    return live


async def test_a_recording_plays_like_a_live_run(recording: Recording) -> None:
    """The question, the growing cache and the end of the run appear as they did live."""
    app = ReplayApp(recording)
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot, lambda: "RUNNING" in screen_text(app))
        assert "REPLAY 0:0" in screen_text(app)
        assert "16.0 MiB" not in text(app, PayloadPanel)
        assert "31.6 MiB" in text(app, PayloadPanel), "the recorded question: T = 8,096"
        await pilot.press(*[">"] * 9)
        await settle(pilot, lambda: "TARGET" in text(app, LivePanel))
        assert "END" in screen_text(app)
        assert "equal" in text(app, LivePanel)
        assert summary(app.live) == summary(known_at(recording, float("inf")))


async def test_winding_shows_exactly_what_was_known_then(recording: Recording) -> None:
    """Forth, back and to the ends: the view is that of a reader who stopped at that moment."""
    app = ReplayApp(recording)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: app.replay.timeline.complete)
        await pilot.press("space")
        length_ms = app.replay.timeline.reached_ms
        for at_ms in (length_ms * 0.9, length_ms * 0.1, length_ms * 0.5, 0.0, length_ms):
            app.replay.wind_to(at_ms)
            expected = known_at(recording, at_ms)
            assert app.live.steps == expected.steps
            assert summary(app.live) == summary(expected)
            assert list(app.live.samples) == list(expected.samples)
        await pilot.press("home")
        assert app.live.steps == 0
        await pilot.press(".", ".", ".")
        there = app.replay.position_ms
        assert there == pytest.approx(3000)
        await pilot.press(",")
        assert app.replay.position_ms == pytest.approx(2000)
        await pilot.press("end")
        assert app.replay.position_ms == length_ms
        assert app.live.steps == 4000


async def test_space_holds_the_replay_and_says_so(recording: Recording) -> None:
    """Space stands still and shows PAUSED; winding works meanwhile; at the end it plays again."""
    app = ReplayApp(recording)
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot, lambda: app.replay.timeline.complete)
        await pilot.press("space")
        await settle(pilot, lambda: "PAUSED" in screen_text(app))
        steps = app.live.steps
        await pilot.pause(0.3)
        assert app.live.steps == steps
        await pilot.press(".")
        assert app.live.steps > steps
        assert app.replay.pace.paused
        await pilot.press("end")
        await settle(pilot, lambda: "END" in screen_text(app))
        await pilot.press("space")
        await settle(pilot, lambda: 0 < app.live.steps < 4000)
        assert not app.replay.pace.paused


async def test_a_moment_not_read_yet_is_shown_once_it_is(recording: Recording) -> None:
    """Winding to the end before the file was read waits for it and goes there."""
    app = ReplayApp(recording)
    async with app.run_test(size=(80, 24)) as pilot:
        assert not app.replay.timeline.complete or app.live.steps < 4000
        app.action_wind_to("end")
        await settle(pilot, lambda: app.live.steps == 4000)


async def test_speeds_have_ends(recording: Recording) -> None:
    """< and > halve and double from a quarter to 64, and beyond it is as fast as it can be read."""
    app = ReplayApp(recording)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("space", *["<"] * 5)
        await settle(pilot, lambda: "0.25x" in screen_text(app))
        await pilot.press(*[">"] * 8)
        await settle(pilot, lambda: "64x" in screen_text(app))
        await pilot.press(*[">"] * 3)
        await settle(pilot, lambda: " max " in screen_text(app))


async def test_a_torn_recording_says_that_it_breaks_off(tmp_path: Path) -> None:
    """The curve stays, and the run is named lost, with the reason."""
    write(tmp_path / "torn", 300, finish=False)
    with closing(Recording(tmp_path / "torn")) as recording:
        app = ReplayApp(recording)
        async with app.run_test(size=(120, 36)) as pilot:
            await pilot.press(*[">"] * 9)
            await settle(pilot, lambda: "breaks off" in text(app, LivePanel))
            assert app.live.steps == 300


def recorded(path: Path, *found: Record | bytes) -> Path:
    path.write_bytes(b"".join(one if isinstance(one, bytes) else encode(one) for one in found))
    return path


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


@pytest.fixture
def two_runs(tmp_path: Path) -> Path:
    path = tmp_path / "two"
    write(path, 100, number=1)
    run = decode(50)
    with path.open("ab") as file:
        for record in (*opening(run, 2), ended(run, 2, 9000.0)):
            file.write(encode(record))
    return path


async def test_several_runs_follow_each_other(two_runs: Path) -> None:
    """A session of two runs shows the second one after the first, each with its own question."""
    with closing(Recording(two_runs)) as recording:
        app = ReplayApp(recording)
        async with app.run_test(size=(120, 36)) as pilot:
            await pilot.press("end")
            await settle(pilot, lambda: "live: run 2" in str(app.dashboard.live_panel.border_title))
            await settle(pilot, lambda: app.form.request().context == "4146")
            await pilot.press("home")
            await settle(pilot, lambda: app.form.request().context == "4196")
            assert "20.0 GiB" in text(app, PayloadPanel), "the memory of the recorded machine"


@pytest.mark.parametrize("size", SIZES)
async def test_any_size_draws_a_replay(recording: Recording, size: tuple[int, int]) -> None:
    """Every size from 1x1 to 300x100 draws the end of a recording without an error."""
    app = ReplayApp(recording)
    async with app.run_test(size=size) as pilot:
        await pilot.press("end")
        await settle(pilot, lambda: app.live.steps == 4000)
        for key in ("1", "2", "3"):
            await pilot.press(key)
        screen_text(app)


async def test_before_the_first_run_no_run_is_offered(tmp_path: Path) -> None:
    """A recording begun before any run says that there is none, and not that r starts one."""
    hello = Hello(schema=RECORDS_SCHEMA, role="monitor", version="0", pid=1)
    run = decode(10)
    readings = [host(at_ms) for at_ms in (0.0, 60_000.0)]
    path = recorded(tmp_path / "early", hello, *readings, *opening(run))
    with closing(Recording(path)) as recording:
        app = ReplayApp(recording)
        async with app.run_test(size=(120, 36)) as pilot:
            await settle(pilot, lambda: "No run at this moment" in text(app, LivePanel))
            await pilot.press("end")
            await settle(pilot, lambda: "T to 4,106" in str(app.dashboard.live_panel.border_title))


async def test_markup_and_missing_files_in_a_recording_are_text(tmp_path: Path) -> None:
    """Text from a recording is shown as it is; a question of a lost file is asked by its shape."""
    asked, *rest = opening(decode(10))
    assert isinstance(asked, RunAsked)
    lost = {"model": "/gone/[bold]config.json", "gpu": "auto"}
    asked = msgspec.structs.replace(asked, fields=lost)
    notice = Notice(topic="nvml", severity="warning", sentence="[red]No[/] driver[/")
    path = recorded(tmp_path / "markup", asked, *rest, notice)
    with closing(Recording(path)) as recording:
        app = ReplayApp(recording)
        async with app.run_test(size=(120, 36)) as pilot:
            await settle(pilot, lambda: "[red]No[/] driver[/" in screen_text(app))
            assert "4,106" in screen_text(app)


async def test_a_recording_without_its_question_still_plays(path: Path, tmp_path: Path) -> None:
    """What was measured is drawn; the prediction is n/a; a notice says what the inputs show."""
    old = recorded(tmp_path / "old", *_lines(path)[2:])
    with closing(Recording(old)) as recording:
        app = ReplayApp(recording)
        async with app.run_test(size=(120, 36), notifications=True) as pilot:
            await pilot.press("end")
            await settle(pilot, lambda: app.live.steps == 4000)
            await settle(pilot, lambda: "TARGET" in text(app, LivePanel))
            shown = text(app, LivePanel)
            assert "predicted n/a" in shown
            assert "DIFFERS" not in shown


@pytest.mark.parametrize("seed", range(8))
async def test_strange_values_in_a_recording_are_drawn(tmp_path: Path, seed: int) -> None:
    """Extreme and foreign values leave a screen that goes on, on every tab."""
    with closing(Recording(strange(tmp_path, seed))) as recording:
        app = ReplayApp(recording, against=recording)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("end")
            await settle(pilot, lambda: app.replay.timeline.complete)
            for key in ("1", "2", "3", "home", ".", "2"):
                await pilot.press(key)
                screen_text(app)


def test_every_key_of_a_replay_is_in_its_help() -> None:
    """Keys, palette and help of a replay name the same actions."""
    page = help_text(REPLAY_KEYS).plain
    ids = [binding.id for binding in REPLAY_BINDINGS]
    assert len(set(ids)) == len(ids)
    for binding in REPLAY_BINDINGS:
        assert binding.tooltip
        assert binding.tooltip in page


async def test_the_palette_of_a_replay_offers_every_action(recording: Recording) -> None:
    """What a key does can be found by name, and nothing is recorded again."""
    app = ReplayApp(recording)
    async with app.run_test(size=(80, 24)) as pilot:
        offered = {command.title for command in app.get_system_commands(app.screen)}
        own = {
            one.tooltip
            for one in REPLAY_BINDINGS
            if one.show and one.id not in ("palette", "quit", "help")
        }
        assert own <= offered
        await pilot.press("w")
        assert app.room.recorder is None


@pytest.fixture
def against(tmp_path: Path) -> Iterator[Recording]:
    write(tmp_path / "other[b].jsonl", 6000, step_ms=10.0, seed=3)
    opened = Recording(tmp_path / "other[b].jsonl")
    yield opened
    opened.close()


async def test_two_recordings_share_one_plot(recording: Recording, against: Recording) -> None:
    """Both curves on one axis, told apart by marks, and their figures at the same length."""
    app = ReplayApp(recording, against=against)
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.press("end")
        await settle(pilot, lambda: "TARGET" in text(app, LivePanel))
        await settle(pilot, lambda: "against other[b].jsonl  L 8" in text(app, LivePanel))
        shown = text(app, LivePanel)
        assert "T 4,096" in shown
        assert "10,096" in shown, "the axis reaches as far as the longer run"
        ratio = next(line for line in shown.splitlines() if line.startswith("step p50"))
        assert 0.4 < float(ratio.split()[-1]) < 0.6
        at = next(line for line in shown.splitlines() if "at T =" in line)
        reached = int(at.split("at T = ")[1].split()[0].replace(",", ""))
        assert abs(reached - app.live.tokens) < 50


@pytest.mark.parametrize("size", SIZES)
async def test_any_size_draws_both(
    recording: Recording, against: Recording, size: tuple[int, int]
) -> None:
    """Every size draws the overlay without an error, at the start and at the end."""
    app = ReplayApp(recording, against=against)
    async with app.run_test(size=size) as pilot:
        screen_text(app)
        await pilot.press("end")
        await settle(pilot, lambda: app.live.steps == 4000)
        await pilot.press("2", "z")
        screen_text(app)


async def test_marks_tell_two_recordings_apart_without_braille(
    recording: Recording, against: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In ASCII one curve is of #, the other of x."""
    monkeypatch.setenv("KVTUI_ASCII", "1")
    app = ReplayApp(recording, against=against)
    async with app.run_test(size=(120, 50)) as pilot:
        await pilot.press("end")
        await settle(pilot, lambda: "x x against other[b].jsonl  L 8" in text(app, LivePanel))
        shown = text(app, LivePanel)
        assert "### this" in shown
        assert "x x against" in shown
        assert "x" in shown.split("x x against")[0]
