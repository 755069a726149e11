"""Exports from the screen."""

import json
import xml.dom.minidom
from pathlib import Path
from typing import TextIO

import pytest

from kvtui.tui.app import KvtuiApp
from kvtui.tui.screens.export import FORMS, ExportScreen
from tests.tui.sources import HandRoom, opening, steps
from tests.tui.test_dashboard import TUTORIAL, dashboard, screen_text, settle
from tests.tui.test_recording import said


@pytest.fixture(autouse=True)
def present_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


async def exported(app: KvtuiApp, folder: Path, key: str) -> str:
    """What ``e`` and then ``key`` write."""
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("e")
        await settle(pilot, lambda: isinstance(app.screen, ExportScreen))
        await pilot.press(key)
        await settle(pilot, lambda: bool(files(folder)))
        await settle(pilot, lambda: bool(said(app)))
        (path,) = files(folder)
        assert said(app) == [f"Written: {path}"]
        return path.read_text(encoding="utf-8")


async def test_the_picture_is_the_screen_without_the_dialog(present_folder: Path) -> None:
    """e s writes what was on the screen before it was asked, as SVG."""
    text = await exported(dashboard(HandRoom(), TUTORIAL), present_folder, "s")
    root = xml.dom.minidom.parseString(text).documentElement
    assert root is not None
    assert root.tagName == "svg"
    assert "payload" in text
    assert "FITS" in text
    assert "present" not in text


@pytest.mark.parametrize("key", ["j", "c", "m"])
async def test_the_data_is_written_in_each_form(present_folder: Path, key: str) -> None:
    """e and a letter write the answer of the tutorial: 2 GiB."""
    text = await exported(dashboard(HandRoom(), TUTORIAL), present_folder, key)
    assert ("2.00 GiB" if key == "m" else "2147483648") in text
    if key == "j":
        assert json.loads(text)["size"]["payload"]["bytes"] == 2**31


async def test_the_list_is_walked_and_left(present_folder: Path) -> None:
    """Enter takes the form under the cursor, Escape none, and nothing is written then."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("e", "escape")
        await pilot.pause()
        assert len(app.screen_stack) == 1
        assert files(present_folder) == []
        await pilot.press("e", "down", "enter")
        await settle(pilot, lambda: [one.suffix for one in files(present_folder)] == [".csv"])


async def test_nothing_is_written_over(present_folder: Path) -> None:
    """Three exports of one second have three names."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(80, 24)) as pilot:
        for count in (1, 2, 3):
            await pilot.press("e", "m")
            await settle(pilot, lambda count=count: len(files(present_folder)) == count)  # type: ignore[misc]


async def test_the_palette_exports_each_form(present_folder: Path) -> None:
    """Every form is a command of the palette, and works from there."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(80, 24)) as pilot:
        offered = {one.title: one for one in app.get_system_commands(app.screen)}
        for count, form in enumerate(FORMS, start=1):
            offered[f"Export as {form.name}"].callback()
            await settle(pilot, lambda count=count: len(files(present_folder)) == count)  # type: ignore[misc]


def on_a_full_disk(_: Path) -> TextIO:
    return Path("/dev/full").open("w", encoding="utf-8")


async def test_a_failed_export_is_a_notice(
    present_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is gone, a disk that is full: said, nothing left behind, the screen goes on."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(80, 24)) as pilot:
        with monkeypatch.context() as gone:
            gone.setattr("kvtui.tui.fresh_file.Path.cwd", lambda: present_folder / "gone")
            await pilot.press("e", "c")
            await settle(pilot, lambda: bool(said(app)))
        assert "No such file or directory" in said(app)[0]
        with monkeypatch.context() as full:
            full.setattr("kvtui.tui.fresh_file.names", lambda *_: iter([Path("/dev/full")]))
            full.setattr("kvtui.tui.exporting.open_new", on_a_full_disk)
            full.setattr("kvtui.tui.exporting.Path.unlink", lambda _: None)
            await pilot.press("e", "j")
            await settle(pilot, lambda: len(said(app)) == 2)
        assert "No space left on device" in said(app)[1]
        assert app.is_running
    assert files(present_folder) == []


async def test_markup_in_a_name_does_not_break_the_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder called like markup is shown as it is."""
    folder = tmp_path / "[bold red]x["
    folder.mkdir()
    monkeypatch.chdir(folder)
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36), notifications=True) as pilot:
        await pilot.press("e", "m")
        await settle(pilot, lambda: bool(files(folder)))
        await settle(pilot, lambda: "[bold red]x[" in screen_text(app))


async def test_a_run_is_exported_while_it_goes_on(present_folder: Path) -> None:
    """The curve so far is what is written."""
    room = HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 10), steps(1, 11, 20))
        await settle(pilot, lambda: app.live.steps == 20)
        await pilot.press("e", "c")
        await settle(pilot, lambda: bool(files(present_folder)))
    (path,) = files(present_folder)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    assert lines[-1].startswith("20,4116,")


async def test_the_dialogs_keep_to_ascii(
    present_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Export, help and picker have ASCII borders where the panels have them."""
    monkeypatch.setenv("KVTUI_ASCII", "1")
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        for key in ("e", "question_mark", "p"):
            await pilot.press(key)
            await settle(pilot, lambda: len(app.screen_stack) == 2)
            await pilot.pause()
            assert not set("╭╮╰╯│─") & set(screen_text(app))
            await pilot.press("escape")
            await settle(pilot, lambda: len(app.screen_stack) == 1)
