"""The script for the first GPU box: parts that fail, hang or leave children behind."""

import json
import os
import select
import sys
from pathlib import Path

import pytest

from kvtui.bench.__main__ import _parser
from tests.bench import gpu_checks
from tests.bench.gpu_checks import Part, parts, run

HANGS = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
PARENT = (
    "import subprocess, sys, os\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
    "print(child.pid, flush=True)\n"
    "child.wait()\n"
)


def python(name: str, code: str, limit_s: float = 60.0) -> Part:
    return Part(name, [sys.executable, "-c", code], f"{name}.txt", limit_s)


def gone(pid: int) -> bool:
    """Whether the process ends within ten seconds; one that is not there has ended."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], 10.0)[0])
    finally:
        os.close(watched)


def test_a_part_that_fails_or_hangs_does_not_stop_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part's output, log and result are kept, and the whole has failed."""
    monkeypatch.setattr(gpu_checks, "PATIENCE_S", 0.2)
    out = tmp_path / "new" / "folder"
    chosen = [
        python("fails", "import sys; print('seen'); print('why', file=sys.stderr); sys.exit(3)"),
        python("hangs", HANGS, limit_s=0.5),
        python("works", "print('{}')"),
    ]
    assert run(chosen, out) == 1
    told = json.loads((out / "summary.json").read_text())["parts"]
    assert [(one["part"], one["status"], one["result"]) for one in told] == [
        ("fails", 3, "failed"),
        ("hangs", None, "over its limit"),
        ("works", 0, "passed"),
    ]
    assert (out / "fails.txt").read_text() == "seen\n"
    assert (out / "fails.log").read_text() == "why\n"
    assert (out / "works.txt").read_text() == "{}\n"
    assert run(chosen[2:], out) == 0


def test_a_part_is_ended_with_all_it_started(tmp_path: Path) -> None:
    """The bench is a child of the command that starts it: both are gone after the limit."""
    assert run([python("parent", PARENT, limit_s=2.0)], tmp_path) == 1
    child = int((tmp_path / "parent.txt").read_text())
    assert gone(child)


def test_all_parts_together_take_less_than_eight_minutes(tmp_path: Path) -> None:
    """Limits and patience add up to less than 480 s; the bench ends by itself before its own."""
    chosen = parts(tmp_path)
    assert [part.name for part in chosen] == ["pytest", "check", "bench"]
    assert sum(part.limit_s + gpu_checks.PATIENCE_S for part in chosen) <= 480
    bench = list(chosen[-1].command)
    assert float(bench[bench.index("--time-limit") + 1]) + 60 <= chosen[-1].limit_s
    flags = bench[bench.index("bench") + 1 :]
    options = _parser().parse_args(flags)
    assert (options.device, options.json) == ("cuda", True)
    assert options.output == str(tmp_path / "bench.json")


def test_without_a_folder_it_says_how_it_is_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written somewhere by accident."""
    for arguments in ([], [""], ["a", "b"]):
        monkeypatch.setattr(sys, "argv", ["gpu_checks", *arguments])
        with pytest.raises(SystemExit) as ended:
            gpu_checks.main()
        assert ended.value.code == 2
    assert "OUT=DIR" in capsys.readouterr().err
