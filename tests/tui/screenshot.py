"""``make screenshots``: the picture in the README, of a real run on this machine.

Not a test: it starts the real worker, waits for the curve to grow, and writes what Textual draws.
"""

import asyncio
import sys
from pathlib import Path

from kvtui.machine import detect
from kvtui.session.runs import RunOptions
from kvtui.sources.request import Request
from kvtui.tui.app import KvtuiApp

_SECONDS = 18.0


async def draw(width: int, height: int) -> str:
    """Run the demonstration for a while; the screen as SVG."""
    app = KvtuiApp(Request(), RunOptions(), detect=detect)
    async with app.run_test(size=(width, height)) as pilot:
        await pilot.press("r")
        waited = 0.0
        while app.live.progress < 0.2 and waited < _SECONDS * 3:
            await pilot.pause(0.25)
            waited += 0.25
        await pilot.pause(1.0)
        return app.export_screenshot(title="kvtui")


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "dashboard.svg")
    target.write_text(asyncio.run(draw(120, 40)), encoding="utf-8")
