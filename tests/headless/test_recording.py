"""What ``kvtui run --record`` leaves and says, with the real helpers."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvtui.records import RunAsked, decode_record

RUN = (
    *"run --device cpu --layers 2 --batch 1 --context 512 --start 384 --q-heads 8 --kv-heads 2 "
    "--head-dim 64 --dtype fp32 --probe 16MiB --json".split(),
)


def kvtui(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kvtui", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_said_once_and_the_run_goes_on() -> None:
    """stderr names file and cause, the summary is printed, the run decides the status."""
    result = kvtui(*RUN, "--record", "/dev/full")
    assert result.returncode == 0
    assert result.stderr.count("The recording /dev/full is incomplete: No space left") == 1
    assert json.loads(result.stdout.splitlines()[-1])["ended"] == "target"


def test_a_compressed_recording_holds_the_question_and_every_record(tmp_path: Path) -> None:
    """The file is what was printed, line for line, after the line that opens it."""
    path = tmp_path / "run.jsonl.gz"
    result = kvtui(*RUN, "--record", str(path))
    assert result.returncode == 0, result.stderr
    opening, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert json.loads(opening)["type"] == "recording"
    assert lines == result.stdout.splitlines()
    asked = decode_record(lines[0].encode())
    assert isinstance(asked, RunAsked)
    assert asked.fields["layers"] == "2"
    assert asked.command.target == 512
