"""``kvtui size`` as CSV and Markdown."""

import csv
import io
import json

import pytest

from kvtui.cli import run

DESK = ("size", "--workload", "support-desk")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run((*DESK, *arguments)) == 0
    return capsys.readouterr().out


def test_csv_names_figures_as_json_does(capsys: pytest.CaptureFixture[str]) -> None:
    """Every figure of the JSON form is a CSV line under its dotted name, to the digit."""
    lines = {one["figure"]: one["value"] for one in _records(printed(capsys, "--csv"))}
    found = json.loads(printed(capsys, "--json"))
    assert lines["payload.bytes"] == "75497472000"
    assert lines["budget.spare_bytes"] == str(found["budget"]["spare_bytes"]) == "-12146704384"
    assert lines["levers.0.change"] == found["levers"][0]["change"]
    assert float(lines["step.floor_ms"]) == found["step"]["floor_ms"]


def test_unknown_is_empty_in_csv(capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody knows is an empty value, never the word None and never 0."""
    run("size --layers 2 --kv-heads 2 --head-dim 64 --context 100 --csv".split())
    lines = {one["figure"]: one["value"] for one in _records(capsys.readouterr().out)}
    assert lines["budget.verdict"] == ""
    assert lines["limits.max_batch"] == ""


def test_markdown_holds_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """Figures and moves are pipe tables, the verdict among them."""
    text = printed(capsys, "--markdown")
    assert "| verdict | over: Over by 11.3 GiB." in text
    assert "| move | saves | fits |" in text
    for table in text.split("\n\n"):
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_check_keeps_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    """The form changes nothing about the verdict as exit status."""
    assert run((*DESK, "--markdown", "--check")) == 4
    assert "Over by" in capsys.readouterr().err


def test_one_form_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    """Two forms at once are refused with exit 2 and an empty stdout."""
    assert run((*DESK, "--json", "--csv")) == 2
    assert capsys.readouterr().out == ""


def _records(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))
