"""``kvtui reconcile`` from the command line."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvtui.cli import run
from tests.reconcile import start_up
from tests.test_imports import command, loaded_by


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "vllm.log"
    path.write_text(start_up.vllm_v1(), newline="")
    return str(path)


def test_text_names_every_figure(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The text form gives each figure with its line, its rule and a count at the end."""
    assert run(("reconcile", log)) == 0
    out = capsys.readouterr().out
    assert out.startswith("vLLM 0.11.0 · Qwen3-8B (as the log says) · bf16 · tp 2 · pages of 16")
    assert f"GPU KV cache size: {start_up.VLLM_TOKENS:,} tokens  [line 7]" in out
    assert "3 explained, 2 measured by the engine, 0 unexplained." in out


def test_unexplained_stands_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What no rule gives is said in the text and again at its end, with its size."""
    path = tmp_path / "log"
    path.write_text(start_up.llama_cpp().replace("10240 cells", "10752 cells"))
    assert run(("reconcile", str(path))) == 0
    out = capsys.readouterr().out
    assert "NOT EXPLAINED, 512 cells more than" in out
    assert "Unexplained: cells is 512 cells more than the rule gives." in out


def test_json_has_stable_keys(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One object: engine, model, findings with printed, value, predicted and status."""
    assert run(("reconcile", log, "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "kvtui.reconcile/1"
    assert found["unexplained"] == []
    tokens = next(one for one in found["findings"] if one["figure"] == "GPU KV cache size")
    assert tokens["value"] == start_up.VLLM_TOKENS
    assert tokens["unit"] == "tokens"
    assert tokens["status"] == "explained"
    assert {"line", "place", "printed", "predicted", "unexplained", "explanation"} <= tokens.keys()


def test_stdin_is_a_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dash reads stdin."""
    stdin = SimpleNamespace(buffer=io.BytesIO(start_up.llama_cpp().encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert run(("reconcile", "-")) == 0
    assert capsys.readouterr().out.startswith("llama.cpp")


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is empty"), (b"\x00\x01\x02" * 1000, "no start-up lines"), (None, "cannot be read")],
)
def test_no_log_leaves_stdout_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, said: str
) -> None:
    """What is no log is one sentence on stderr and exit 2."""
    path = tmp_path / "log"
    if content is not None:
        path.write_bytes(content)
    assert run(("reconcile", str(path), "--json")) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_a_folder_is_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder is named as what cannot be read."""
    assert run(("reconcile", str(tmp_path))) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_it_loads_nothing_heavy(log: str) -> None:
    """Reading a log loads neither torch nor the screen."""
    assert loaded_by(command("reconcile", log)) == set()
