"""``make screenshots``: the pictures in the README, of a real run and of a comparison.

Not a test: it starts the real worker, waits for the curve to grow, and writes what Textual draws.
"""

import asyncio
from pathlib import Path

from kvtui.machine import detect
from kvtui.session.runs import RunOptions
from kvtui.sources.request import Request
from kvtui.tui.app import KvtuiApp
from kvtui.tui.screens.comparison import ComparisonScreen

_PATIENCE_S = 60.0
_DESK = Request(workload="support-desk")


async def dashboard(width: int, height: int) -> str:
    """Run the demonstration for a while; the screen as SVG."""
    app = KvtuiApp(Request(), RunOptions(), detect=detect)
    async with app.run_test(size=(width, height)) as pilot:
        await pilot.press("r")
        waited = 0.0
        while app.live.progress < 0.3 and waited < _PATIENCE_S:
            await pilot.pause(0.25)
            waited += 0.25
        await pilot.pause(1.0)
        return app.export_screenshot(title="kvtui")


async def comparison(width: int, height: int) -> str:
    """The support desk under everything it can be compared with."""
    app = KvtuiApp(_DESK, RunOptions(), detect=detect)
    async with app.run_test(size=(width, height)) as pilot:
        await pilot.press("c")
        screen = app.screen
        assert isinstance(screen, ComparisonScreen)
        while not screen.variants.rows():
            await pilot.pause(0.1)
        await pilot.pause(0.5)
        return app.export_screenshot(title="kvtui")


if __name__ == "__main__":
    for draw in (dashboard, comparison):
        Path(f"{draw.__name__}.svg").write_text(asyncio.run(draw(120, 40)), encoding="utf-8")
