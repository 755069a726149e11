"""Settings as they show on the screen."""

from pathlib import Path

from kvtui.config import settings
from kvtui.log import LOG, log_to
from kvtui.records import Notice
from kvtui.session.runs import RunOptions
from kvtui.sources.request import Request
from kvtui.tui.app import KvtuiApp
from kvtui.tui.screens.help import HelpScreen
from tests.tui.sources import HandRoom, opening, steps
from tests.tui.test_dashboard import detect, screen_text, settle


def app_with(room: HandRoom, **environment: str) -> KvtuiApp:
    found = settings({}, {"HOME": "/nowhere", **environment})
    return KvtuiApp(Request(), RunOptions(), detect=detect, room=room, settings=found)


async def test_a_rebound_key_acts_and_is_what_footer_and_help_say() -> None:
    """The new key runs, the old one does not, and both lists name the new one."""
    room = HandRoom()
    app = app_with(room, KVTUI_KEYS="run=x hold=r")
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot, lambda: " x run " in screen_text(app))
        await pilot.press("r")
        assert room.workers == []
        await pilot.press("x")
        assert len(room.workers) == 1
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        await settle(pilot, lambda: "x         Run what is on the screen" in screen_text(app))


async def test_the_theme_of_the_settings_is_worn() -> None:
    """KVTUI_THEME is the theme of the first frame."""
    app = app_with(HandRoom(), KVTUI_THEME="nord")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert app.theme == "nord"


async def test_the_log_tells_what_happened_once(tmp_path: Path) -> None:
    """Stages, notices and the end are in the log; steps, which come at a rate, are not."""
    path = tmp_path / "kvtui.log"
    log_to(path)
    try:
        room = HandRoom()
        app = app_with(room)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("r")
            notice = Notice(topic="t", severity="info", sentence="Something\nhappened.")
            room.workers[0].put(*opening(1), steps(1, 1, 10), notice)
            await settle(pilot, lambda: "t" in app.live.notices)
    finally:
        handler = LOG.handlers.pop()
        handler.close()
    text = path.read_text(encoding="utf-8")  # the screen is closed
    assert "Started(" in text
    assert "Something\\nhappened." in text
    assert "Steps(" not in text
