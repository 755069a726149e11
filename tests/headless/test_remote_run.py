"""``kvtui run --host`` from outside, through a fake ssh."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvtui.records import Ended, Hello, LinkReading, decode_record
from tests.client.far import ROOT, FakeSsh, far_kvtui

SHAPE = (
    "--device cpu --layers 1 --batch 1 --q-heads 2 --kv-heads 1 --head-dim 16 --dtype fp32"
    " --probe 16MiB --threads 1"
).split()


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "kvtui", "run", *SHAPE, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    found = FakeSsh(tmp_path / "bin", monkeypatch)
    found.write(banner=("Welcome",))
    return found


def test_a_run_elsewhere_reads_like_one_here(ssh: FakeSsh, tmp_path: Path) -> None:
    """The report is complete, exit 0, and how far away it was is a line of it."""
    host = far_kvtui(tmp_path)
    with start("--context", "256", "--host", "gpu-box", "--host-python", host.python) as run:
        out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert "ended         target after" in out
    assert "host          gpu-box, " in out


def test_a_link_that_is_lost_ends_the_run_as_lost_with_its_data(
    ssh: FakeSsh, tmp_path: Path
) -> None:
    """What was measured until then is in the records, the recording and the summary; exit 1."""
    host, recording = far_kvtui(tmp_path), tmp_path / "run.jsonl"
    arguments = ["--context", "1M", "--start", "16", "--json", "--record", str(recording)]
    with start(*arguments, "--host", "gpu-box", "--host-python", host.python) as run:
        assert run.stdout is not None
        pid, links, last = 0, 0, {}
        for line in run.stdout:
            last = json.loads(line)
            record = decode_record(line.encode())
            links += isinstance(record, LinkReading)
            if isinstance(record, Hello) and record.role == "worker":
                pid = record.pid
            if last["type"] == "steps" and pid:
                os.kill(pid, signal.SIGKILL)
                pid = 0
        assert run.wait(30) == 1
        assert run.stderr is not None
        assert "ssh to gpu-box was killed by SIGKILL" in run.stderr.read()
    assert (last["type"], last["ended"]) == ("summary", "lost")
    assert last["steps"] > 0
    assert last["held_kv_bytes"] > 0
    assert links
    kept = [decode_record(line) for line in recording.read_bytes().splitlines()]
    assert not [one for one in kept if isinstance(one, Ended)]
    assert any(isinstance(one, LinkReading) for one in kept)


def test_a_host_that_cannot_be_reached_is_one_sentence(ssh: FakeSsh) -> None:
    """Nothing is run, stdout holds the summary of nothing, exit 3."""
    ssh.write(noise=("ssh: connect to host gpu-box port 22: Connection refused",), status=255)
    with start("--context", "64", "--json", "--host", "gpu-box") as run:
        out, err = run.communicate(timeout=60)
    assert run.returncode == 3
    assert "Nothing answers for ssh on gpu-box" in err
    assert json.loads(out.splitlines()[-1])["ended"] == "lost"


def test_the_gpu_is_asked_for_there(ssh: FakeSsh, tmp_path: Path) -> None:
    """--gpu auto is the far machine's; without one there the far monitor's reason is said."""
    host = far_kvtui(tmp_path)
    flags = ["--gpu", "auto", "--host", "gpu-box", "--host-python", host.python]
    with start("--context", "64", *flags) as run:
        out, err = run.communicate(timeout=60)
    if run.returncode == 3:
        assert out == ""
        assert "gpu auto on gpu-box: " in err
    assert "kvtui.monitor --once" in ssh.calls.read_text().splitlines()[0]
