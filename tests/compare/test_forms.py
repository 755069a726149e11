"""``kvtui compare`` as text, Markdown, CSV, JSON and a plot."""

import csv
import io
import json
import re

import pytest

from kvtui.cli import run
from tests.test_imports import command, loaded_by

DESK = ("compare", "--workload", "support-desk")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(arguments) == 0
    return capsys.readouterr().out


def test_json_has_stable_keys_and_exact_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """One object: schema, rows with units in their names, the figure's curves."""
    found = json.loads(printed(capsys, *DESK, "--json"))
    assert found["schema"] == "kvtui.compare/1"
    assert {"name", "bytes", "bytes_per_token", "max_batch", "max_context", "step_ms", "price"} <= (
        found["rows"][0].keys()
    )
    assert found["rows"][0]["bytes"] == 75_497_472_000
    window = next(one for one in found["rows"] if one["name"] == "window")
    assert window["max_context"] == "unlimited"
    curve = found["figure"]["curves"][0]
    assert len(curve["bytes"]) == len(found["figure"]["tokens"])


def test_csv_is_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    """A CSV reader gets one record a variant, whatever commas the prices hold."""
    rows = list(csv.DictReader(io.StringIO(printed(capsys, *DESK, "--csv"))))
    assert [one["name"] for one in rows][:2] == ["MHA", "GQA"]
    assert int(rows[0]["bytes"]) == 75_497_472_000
    assert rows[0]["asked"] == "true"


def test_markdown_is_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Every line of the Markdown form has the same number of cells."""
    lines = printed(capsys, *DESK, "--markdown").splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert lines[1].startswith("| --- |")


def test_text_marks_the_question_and_prices(capsys: pytest.CaptureFixture[str]) -> None:
    """The text form marks the row as asked and lists what each variant costs."""
    text = printed(capsys, *DESK)
    assert "> MHA" in text
    assert "70.3 GiB" in text
    assert "What each costs" in text


@pytest.mark.parametrize("columns", ["50", "80", "160"])
def test_the_plot_honours_the_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """No line is wider than COLUMNS, nothing is coloured off a terminal, the budget is named."""
    monkeypatch.setenv("COLUMNS", columns)
    text = printed(capsys, *DESK, "--kinds", "mha,gqa", "--plot")
    assert max(map(len, text.splitlines())) <= int(columns)
    assert "\x1b" not in text
    assert "budget: the line at 59.0 GiB" in text
    assert "70.3 GiB" in text
    assert re.search(r"a{3}", text)
    assert re.search(r"b{3}", text)


def test_no_color_is_honoured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the figure is coloured, and NO_COLOR leaves the marks alone."""
    from kvtui.compare import compared, figure
    from kvtui.headless import compare_plot
    from kvtui.sources.request import Request, scenario

    drawn = figure(compared([scenario(Request(workload="tutorial"))], kinds=["mha", "mqa"]))
    monkeypatch.setattr("sys.stdout", _Terminal())
    assert "\x1b[" in compare_plot.drawn(drawn)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in compare_plot.drawn(drawn)


def test_ascii_mode_draws_the_frame_in_ascii(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With KVTUI_ASCII the figure holds no character that a plain font lacks."""
    monkeypatch.setenv("KVTUI_ASCII", "1")
    assert printed(capsys, *DESK, "--plot").isascii()


def test_the_legend_names_every_curve(capsys: pytest.CaptureFixture[str]) -> None:
    """Each variant has its mark and its size at T in a legend below the figure."""
    text = printed(capsys, *DESK, "--plot")
    assert "a MHA 70.3 GiB" in text
    assert "k prefix caching 36.6 GiB" in text


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--kinds", "gqa,,mla"), "kinds is 'gqa,,mla'"),
        (("--models", "a,b", "--model", "llama-3.1-8b"), "model is 'llama-3.1-8b'"),
        (("--csv", "--json"), "not allowed with"),
    ],
)
def test_bad_input_leaves_stdout_empty(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    """A bad list or two forms at once is one sentence on stderr and exit 2."""
    assert run((*DESK, *arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_plotext_is_loaded_only_for_a_plot() -> None:
    """The table loads no plotting library; the plot does, and neither loads the screen."""
    assert loaded_by(command(*DESK)) == set()
    assert loaded_by(command(*DESK, "--plot")) == {"plotext"}
