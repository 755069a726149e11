"""Recording from the screen."""

from contextlib import closing
from pathlib import Path

import pytest

from kvtui.client.recorder import Recorder
from kvtui.client.recording import Recording
from kvtui.config import settings
from kvtui.errors import InputError
from kvtui.records import HostReading, RunAsked
from kvtui.session.live import Live
from kvtui.session.runs import RunOptions
from kvtui.session.summary import summary
from kvtui.sources.request import Request
from kvtui.tui.app import KvtuiApp, run
from tests.tui.sources import HOST, HandRoom, ended, opening, steps
from tests.tui.test_dashboard import dashboard, detect, screen_text, settle


@pytest.fixture(autouse=True)
def present_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(app: KvtuiApp) -> list[str]:
    """The notices on the screen."""
    return [one.message for one in app._notifications]


def recordings(folder: Path) -> list[Path]:
    return list(folder.glob("kvtui-recording-*.jsonl.gz"))


def replayed(path: Path) -> Live:
    live = Live()
    with closing(Recording(path)) as recording:
        for record in recording.read():
            live.apply(record)
    return live


async def test_w_in_the_middle_of_a_run_keeps_all_of_it(present_folder: Path) -> None:
    """The recording begins with the question and the first step, and grows with the run."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(120, 36)) as pilot:
        room.monitor.put(HOST)
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 100), steps(1, 101, 200))
        await settle(pilot, lambda: app.live.steps == 200)
        await pilot.press("w")
        await settle(pilot, lambda: " REC " in screen_text(app))
        (path,) = recordings(present_folder)
        assert replayed(path).steps == 200
        room.workers[0].put(steps(1, 201, 12288), ended(1, 12288))
        await settle(pilot, lambda: app.live.phase == "ended")
        await pilot.press("w")
        await settle(pilot, lambda: " REC " not in screen_text(app))
        room.monitor.put(HOST)
        await settle(pilot, lambda: app.live.host is HOST)
        assert summary(replayed(path)) == summary(app.live)
        assert list(replayed(path).samples) == list(app.live.samples)


async def test_the_recording_of_the_screen_holds_the_question_as_typed(
    present_folder: Path,
) -> None:
    """Fields typed on the screen are in the recording."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("w")
        app.form.set("layers", "3")
        app.ask()
        await pilot.press("r")
    (path,) = recordings(present_folder)
    with closing(Recording(path)) as recording:
        asked = next(one for one in recording.read() if isinstance(one, RunAsked))
    assert asked.fields["layers"] == "3"
    assert sum(shape.layers for shape in asked.command.groups) == 3


async def test_the_flag_records_from_the_first_reading_on(present_folder: Path) -> None:
    """--record FILE on the dashboard takes in what comes before any run, and ends with it."""
    room = HandRoom()
    app = KvtuiApp(Request(), RunOptions(), detect=detect, room=room)
    path = present_folder / "mine.jsonl"
    app.recorder_wanted = Recorder(path)
    async with app.run_test(size=(120, 36)) as pilot:
        room.monitor.put(HOST)
        await settle(pilot, lambda: app.live.host is not None)
        assert " REC " in screen_text(app)
    assert app.room.recorder is None
    with closing(Recording(path)) as recording:
        assert any(isinstance(one, HostReading) for one in recording.read())


def test_an_older_recording_survives_a_screen_that_cannot_be_shown(present_folder: Path) -> None:
    """A theme that does not exist is refused before --record FILE is opened."""
    path = present_folder / "mine.jsonl"
    path.write_bytes(b"measured before")
    with pytest.raises(InputError, match="theme is 'plaid'"):
        run(Request(), RunOptions(), detect=detect, settings=settings({"theme": "plaid"}, {}),
            record=path)  # fmt: skip
    assert path.read_bytes() == b"measured before"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
async def test_a_full_disk_is_said_on_the_screen_and_the_run_goes_on() -> None:
    """A notice names the cause, the header keeps saying so, and records go on being drawn."""
    room = HandRoom()
    app = KvtuiApp(Request(), RunOptions(), detect=detect, room=room)
    app.recorder_wanted = Recorder(Path("/dev/full"))
    async with app.run_test(size=(120, 36), notifications=True) as pilot:
        await settle(pilot, lambda: "NOT RECORDED" in screen_text(app))
        assert ["No space left on device" in one for one in said(app)] == [True]
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 100))
        await settle(pilot, lambda: app.live.steps == 100)
        assert len(said(app)) == 1


async def test_a_folder_that_cannot_be_written_is_a_notice(
    present_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen goes on without a recording, and says why there is none."""
    monkeypatch.setattr(
        "kvtui.tui.fresh_file.Path.cwd", lambda: present_folder / "gone", raising=True
    )
    app = dashboard(HandRoom())
    async with app.run_test(size=(120, 36), notifications=True) as pilot:
        await pilot.press("w")
        await settle(pilot, lambda: bool(said(app)))
        assert "No such file or directory" in said(app)[0]
        assert app.room.recorder is None


async def test_two_recordings_of_one_second_have_two_names(present_folder: Path) -> None:
    """A name that was made up never replaces a file."""
    app = dashboard(HandRoom())
    async with app.run_test(size=(80, 24)) as pilot:
        for _ in range(3):
            await pilot.press("w", "w")
    assert len(recordings(present_folder)) == 3
