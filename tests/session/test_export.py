"""Exports: three forms of what is known."""

import csv
import io
import json
from pathlib import Path

import msgspec
import pytest

from kvtui.client.recording import Recording
from kvtui.session.answer import Answer, compose
from kvtui.session.export import export_csv, export_json, export_markdown
from kvtui.session.live import Live
from kvtui.session.summary import summary
from kvtui.sources.request import Request, scenario
from tests.client.recordings import TOKEN_BYTES, write


@pytest.fixture
def answer() -> Answer:
    return compose(scenario(Request(workload="support-desk")))


@pytest.fixture
def live(tmp_path: Path) -> Live:
    write(tmp_path / "run", 500)
    found, recording = Live(), Recording(tmp_path / "run")
    for record in recording.read():
        found.apply(record)
    recording.close()
    return found


def test_json_holds_answer_run_and_curve(answer: Answer, live: Live) -> None:
    """One object under its schema; answer and summary are those of the commands."""
    found = json.loads(export_json(answer, live))
    assert found["schema"] == "kvtui.export/1"
    assert found["size"] == json.loads(msgspec.json.encode(answer))
    assert found["run"] == json.loads(msgspec.json.encode(summary(live)))
    assert len(found["samples"]) == len(list(live.samples)) > 5
    assert found["ladder"][0]["bytes"] == live.held_kv_bytes


def test_json_of_nothing_is_null(live: Live) -> None:
    """What is not there is null, and never left out."""
    found = json.loads(export_json(None, Live()))
    assert (found["size"], found["run"], found["samples"]) == (None, None, [])


def test_csv_is_the_curve_with_its_prediction(answer: Answer, live: Live) -> None:
    """A line a sample; predicted bytes are the formula's at that length."""
    rows = list(csv.DictReader(io.StringIO(export_csv(answer, live))))
    samples = list(live.samples)
    assert len(rows) == len(samples)
    for row, one in zip(rows, samples, strict=True):
        assert int(row["tokens"]) == one.tokens
        assert int(row["predicted_kv_bytes"]) == one.tokens * TOKEN_BYTES
        assert float(row["step_ms"]) == one.step_ms
        assert float(row["limit_bytes_per_s"]) == 20e9


def test_csv_before_a_run_is_the_answer(answer: Answer) -> None:
    """A line a figure under its JSON name: the support desk is over by 11.3125 GiB."""
    rows = dict(csv.reader(io.StringIO(export_csv(answer, Live()))))
    assert int(rows["budget.spare_bytes"]) == -int(11.3125 * 2**30)
    assert rows["budget.verdict"] == "over"


def test_markdown_has_a_table_for_each_question(answer: Answer, live: Live) -> None:
    """Every table is well formed, and text from outside cannot break one."""
    strange = msgspec.structs.replace(answer, model="a|b\n# c")
    text = export_markdown(strange, live)
    for title in ("## What it will cost", "## What it costs", "## Where the bytes are"):
        assert title in text
    assert "a\\|b # c" in text
    assert "OVER" in text
    for block in text.split("\n\n"):
        if block.startswith("|"):
            cells = {line.replace("\\|", "").count("|") for line in block.strip().splitlines()}
            assert len(cells) == 1
    assert "## What it costs" not in export_markdown(answer, Live())
