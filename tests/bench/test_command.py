"""``kvtui bench`` as it is typed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvtui.bench import __main__ as command
from kvtui.engine import limits
from kvtui.engine.kernels.compilation import Compilation

MIB = 2**20


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe of a megabyte and no kernel: what is tested is the command."""
    monkeypatch.setattr(limits, "probe_bytes", lambda device, cache: MIB)
    monkeypatch.setattr(Compilation, "load", lambda self, threads: None)


def status(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit status of the process that ``kvtui bench`` starts, run in this one."""
    monkeypatch.setattr(sys, "argv", ["kvtui.bench", "--device", "cpu", *arguments])
    with pytest.raises(SystemExit) as ended:
        command.main()
    return int(ended.value.code or 0)


def test_the_command_passes_its_flags_on() -> None:
    """kvtui bench --list names every case, and says which run only when named."""
    result = subprocess.run(
        [sys.executable, "-m", "kvtui", "bench", "--list"],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert "l2-control" in result.stdout
    assert "soak" in next(line for line in result.stdout.splitlines() if "when named" in line)


@pytest.mark.parametrize(
    ("flag", "value", "told"),
    [
        ("--cases", "nonsense", "cases is 'nonsense'"),
        ("--sweep", "much", "sweep is 'much'"),
        ("--sweep", "1", "sweep is '1'"),
        ("--seconds", "0", "seconds is '0'"),
        ("--time-limit", "nan", "time limit is 'nan'"),
        ("--threads", "none", "threads is 'none'"),
        ("--threads", "0", "threads is 0"),
        ("--dtype", "int3", "dtype is 'int3'"),
        ("--compare", "none.json", "none.json"),
        ("--output", "no/folder.json", "output is 'no/folder.json'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flag: str,
    value: str,
    told: str,
) -> None:
    """Names, sizes, times and files are refused by field, and stdout stays empty."""
    assert status(monkeypatch, "--json", f"{flag}={value}") == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert told in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.usefixtures("small")
def test_a_result_is_written_and_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """--output keeps what --json prints; a second run reads it back and says what changed."""
    path = tmp_path / "first.json"
    flags = ("--cases", "l2-control", "--sweep", "1MiB", "--seconds", "0.01")
    assert status(monkeypatch, *flags, "--json", "--output", str(path)) == 0
    first = capsys.readouterr()
    assert first.err == ""
    assert json.loads(path.read_text())["results"] == json.loads(first.out)["results"]
    assert list(tmp_path.iterdir()) == [path]
    assert status(monkeypatch, *flags, "--compare", str(path)) == 0
    second = capsys.readouterr().out
    assert f"COMPARED WITH {path}" in second
    assert "l2-control" in second
