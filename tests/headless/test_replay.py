"""``kvtui replay`` without a terminal."""

import json
from pathlib import Path

import pytest

from kvtui.headless.replay import replay_summary
from kvtui.records import encode
from tests.client.recordings import decode, ended, opening, write
from tests.headless.test_recording import RUN, kvtui


def test_the_summary_of_a_recording_is_the_summary_of_its_run(tmp_path: Path) -> None:
    """What the run printed last is what its recording gives, but for its own last line."""
    path = tmp_path / "run.jsonl.gz"
    ran = kvtui(*RUN, "--record", str(path))
    assert ran.returncode == 0, ran.stderr
    result = kvtui("replay", str(path), "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout) == json.loads(ran.stdout.splitlines()[-1])


def test_every_run_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A session of two runs, the second torn off, gives two summaries in order."""
    path = tmp_path / "two"
    write(path, 100)
    run = decode(50)
    torn = b"".join(encode(one) for one in opening(run, 2))
    path.write_bytes(path.read_bytes() + torn + encode(ended(run, 2, 9.0))[:40])
    assert replay_summary([path]) == 0
    first, second = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (first["ended"], first["steps"]) == ("target", 100)
    assert (second["ended"], second["sentence"]) == ("lost", "The recording breaks off here.")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "the file is empty."),
        (b"\0\1\2", "binary data"),
        (b'{"type":"hello","schema":"kvtui.records/9"}\n', "kvtui.records/9"),
        (
            b'{"type":"recording","schema":"kvtui.records/1","version":"1","began":""}\n',
            "it holds no run.",
        ),
    ],
)
def test_what_cannot_be_replayed_is_a_sentence(tmp_path: Path, data: bytes, sentence: str) -> None:
    """Exit 2, one sentence on stderr, nothing on stdout."""
    path = tmp_path / "file"
    path.write_bytes(data)
    result = kvtui("replay", str(path), "--json")
    assert (result.returncode, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_second_file_that_is_none_leaves_stdout_empty(tmp_path: Path) -> None:
    """With --against both are summed up, or neither."""
    write(tmp_path / "run", 10)
    both = kvtui("replay", str(tmp_path / "run"), "--against", str(tmp_path / "run"), "--json")
    assert (both.returncode, both.stdout.count("\n")) == (0, 2)
    result = kvtui("replay", str(tmp_path / "run"), "--against", str(tmp_path / "no"), "--json")
    assert (result.returncode, result.stdout) == (2, "")
    assert "No such file or directory" in result.stderr


def test_without_a_terminal_it_says_so(tmp_path: Path) -> None:
    """Exit 2, and what to do instead."""
    write(tmp_path / "run", 10)
    result = kvtui("replay", str(tmp_path / "run"))
    assert (result.returncode, result.stdout) == (2, "")
    assert "needs a terminal" in result.stderr
    assert "--json" in result.stderr
