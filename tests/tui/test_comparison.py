"""The comparison, one key from the payload; and moves made by one key."""

import pytest

from kvtui.sources.request import Request
from kvtui.tui.panels.comparison import CurvePanel, EnginesPanel, VariantsPanel
from kvtui.tui.screens.comparison import ComparisonScreen
from tests.tui.sources import HandRoom
from tests.tui.test_dashboard import SIZES, TUTORIAL, dashboard, screen_text, settle

DESK = Request(workload="support-desk")


def made(screen: object) -> bool:
    return isinstance(screen, ComparisonScreen) and bool(screen.variants.rows())


@pytest.mark.parametrize("key", ["c", "4"])
async def test_the_lessons_table_is_one_key_away(key: str) -> None:
    """The tutorial's cache as MHA, GQA and MQA is 8 GiB, 2 GiB and 256 MiB, engines beside it."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press(key)
        await settle(pilot, lambda: made(app.screen))
        await pilot.pause()
        shown = screen_text(app)
        table = {row[0].strip(" >"): row[1] for row in app.screen.query_one(VariantsPanel).rows()}
        assert (table["MHA"], table["GQA"], table["MQA"]) == ("8.00 GiB", "2.00 GiB", "256 MiB")
        for word in ("8.00 GiB", "ideal", "transformers", "budget", "bytes over T"):
            assert word in shown
        await pilot.press("escape")
        assert app.screen is app.dashboard


async def test_the_cursor_starts_at_what_was_asked_and_tells_each_price() -> None:
    """The row as asked is under the cursor; the next one's price and curve follow it down."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("c")
        await settle(pilot, lambda: made(app.screen))
        panel, curve = app.screen.query_one(VariantsPanel), app.screen.query_one(CurvePanel)
        assert panel.rows()[panel.at][0] == "> GQA"
        assert "GQA" in curve.render().plain.splitlines()[-1]
        await pilot.press("down")
        await pilot.pause()
        assert "MQA: all query heads share one K and V" in screen_text(app)
        assert "MQA" in curve.render().plain.splitlines()[-1]


async def test_small_screens_show_one_panel_at_a_time() -> None:
    """At 80x24 tab goes from variants to engines to the curve and round again."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("c")
        await settle(pilot, lambda: made(app.screen))
        seen = []
        for _ in range(4):
            await pilot.pause()
            panels = (VariantsPanel, EnginesPanel, CurvePanel)
            seen.append([one.__name__ for one in panels if app.screen.query_one(one).size.height])
            await pilot.press("tab")
        assert seen == [["VariantsPanel"], ["EnginesPanel"], ["CurvePanel"], ["VariantsPanel"]]


@pytest.mark.parametrize("size", SIZES)
async def test_any_size_draws(size: tuple[int, int]) -> None:
    """Every size draws all three panels without an error."""
    app = dashboard(HandRoom(), DESK)
    async with app.run_test(size=size) as pilot:
        app.action_compare()
        await settle(pilot, lambda: made(app.screen))
        for key in ("down", "tab", "down", "tab", "tab"):
            await pilot.press(key)
        await pilot.resize_terminal(max(1, size[0] // 2), size[1] + 3)
        await pilot.pause()
        assert screen_text(app)


async def test_a_move_is_one_key_and_one_key_takes_it_back() -> None:
    """The support desk is over; m shortens T to the 5,034 that fit, u brings 6,000 back."""
    app = dashboard(HandRoom(), DESK)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("m")
        await settle(pilot, lambda: app.question.answer is not None)
        assert app.question.answer is not None
        assert (app.question.answer.context, app.question.answer.budget.verdict) == (5034, "fits")
        await pilot.press("u")
        await pilot.pause()
        assert (app.question.answer.context, app.question.answer.budget.verdict) == (6000, "over")
        await pilot.press("u")
        await pilot.pause()
        assert app.question.answer.context == 6000


async def test_wrong_input_is_compared_as_it_was_last_right() -> None:
    """With a field that cannot be answered, the comparison shows the last good question."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        app.form.set("kv_heads", "5")
        app.ask()
        assert app.question.error is not None
        await pilot.press("c")
        await settle(pilot, lambda: made(app.screen))
        rows = app.screen.query_one(VariantsPanel).rows()
        assert any(row[1] == "2.00 GiB" for row in rows)
