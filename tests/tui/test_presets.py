"""Saving a question, and finding presets by name."""

from pathlib import Path

import pytest
from textual.widgets import Input

from kvtui.sources.request import Request, scenario
from kvtui.sources.saving import save_workload
from kvtui.tui.preset_commands import PresetCommands
from tests.tui.sources import HandRoom
from tests.tui.test_dashboard import TUTORIAL, dashboard, settle


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "kvtui" / "workloads"


async def test_a_question_is_saved_and_asked_again(folder: Path) -> None:
    """s asks for a name; the saved preset gives the same answer, and stands in the list under l."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        app.form.set("context", "5000")
        app.ask()
        asked = app.question.answer
        assert asked is not None
        await pilot.press("s", *"mine", "enter")
        await settle(pilot, (folder / "mine.toml").exists)
        again = scenario(Request(workload="mine"))
        assert (again.workload.longest, again.model.layers) == (5000, 32)
        app.form.set("context", "100")
        app.ask()
        await pilot.press("l", *"mine", "enter")
        await pilot.pause()
        assert app.question.answer is not None
        assert app.question.answer.payload == asked.payload


async def test_a_name_that_is_none_is_said_and_nothing_is_written(folder: Path) -> None:
    """A path is no name: the sentence is shown, no file made."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("s")
        await settle(pilot, lambda: bool(app.screen.query(Input)))
        app.screen.query_one(Input).value = "../mine"
        await pilot.press("enter")
        await settle(pilot, lambda: len(app._notifications) > 0)
        assert "preset name" in next(iter(app._notifications)).message
    assert list(folder.parent.glob("**/*.toml")) == []


def test_a_saved_preset_is_never_written_over(folder: Path) -> None:
    """The second save under one name is refused, and the first is as it was."""
    save_workload("mine", Request(batch="3", context="50"))
    before = (folder / "mine.toml").read_text()
    with pytest.raises(Exception, match="preset name"):
        save_workload("mine", Request(batch="4"))
    assert (folder / "mine.toml").read_text() == before


async def test_the_palette_finds_every_kind_of_preset() -> None:
    """Searching finds a model, a device and a workload by name, and choosing one asks it."""
    app = dashboard(HandRoom(), TUTORIAL)
    async with app.run_test(size=(120, 36)) as pilot:
        provider = PresetCommands(app.screen)
        await provider.startup()
        for query in ("model llama-3.1-8b", "gpu h200", "workload support-desk"):
            hits = [hit async for hit in provider.search(query)]
            assert query in [hit.text for hit in hits if hasattr(hit, "text")]
        chosen = next(hit for hit in hits if getattr(hit, "text", "") == "workload support-desk")
        assert callable(chosen.command)
        chosen.command()
        await pilot.pause()
        assert app.question.answer is not None
        assert app.question.answer.budget.verdict == "over"
