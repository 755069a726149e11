"""``kvtui monitor`` from outside: readings on stdout, everything else on stderr."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.far import ROOT, FakeSsh, far_kvtui

COMMAND = (sys.executable, "-P", "-m", "kvtui", "monitor")


@pytest.fixture(autouse=True)
def checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """kvtui is found wherever the test is."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def once(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "--once", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_files_where_it_is_called_are_not_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A select.py or kvtui folder in the present folder reaches no helper."""
    for name in ("select", "msgspec", "psutil"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.chdir(tmp_path)
    found = once()
    assert (found.returncode, found.stderr) == (0, "")
    types = [json.loads(line)["type"] for line in found.stdout.splitlines()]
    assert types[0] == "hello"
    assert "host" in types


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_a_signal_ends_it_and_its_child(number: signal.Signals, status: int) -> None:
    """It ends with 128 + n, and what it printed before stays whole lines."""
    with subprocess.Popen([*COMMAND, "--interval", "0.25"], stdout=subprocess.PIPE) as shown:
        assert shown.stdout is not None
        pid = json.loads(shown.stdout.readline())["pid"]
        shown.stdout.readline()
        shown.send_signal(number)
        rest = shown.stdout.read()
        assert shown.wait(10) == status
    assert all(json.loads(line) for line in rest.splitlines())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_reader_that_goes_away_ends_it() -> None:
    """With its stdout closed it ends quietly at the next reading, and so does its child."""
    with subprocess.Popen(
        [*COMMAND, "--interval", "0.25"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as shown:
        assert shown.stdout is not None
        assert shown.stderr is not None
        pid = json.loads(shown.stdout.readline())["pid"]
        shown.stdout.close()
        assert shown.wait(10) == 0
        assert shown.stderr.read() == b""
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_another_machine_is_read_over_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Banners stay out of stdout; a failure is one sentence on stderr and exit 3."""
    ssh = FakeSsh(tmp_path / "bin", monkeypatch)
    ssh.write(banner=("Welcome",))
    host = far_kvtui(tmp_path)
    found = once("--host", "gpu-box", "--host-python", host.python)
    assert found.returncode == 0
    assert json.loads(found.stdout.splitlines()[0])["type"] == "hello"
    ssh.write(noise=("Host key verification failed.",), status=255)
    found = once("--host", "gpu-box")
    assert (found.returncode, found.stdout) == (3, "")
    assert "The host key of gpu-box is not known" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host=-oProxyCommand=id"], "host is '-oProxyCommand=id'"),
        (["--host", "me@-x"], "host is 'me@-x'"),
        (["--host-python", "python3"], "host python is 'python3'; it must be given together"),
        (["--interval", "0.1"], "interval is '0.1'; it must be 0.25 to 3600 seconds"),
    ],
)
def test_bad_input_is_named(arguments: list[str], words: str) -> None:
    """Field, value and what is allowed, exit 2, and nothing is started."""
    found = once(*arguments)
    assert (found.returncode, found.stdout) == (2, "")
    assert words in found.stderr
