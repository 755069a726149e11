"""The lock that keeps two kvtuis from one device unasked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvtui.client.device_lock import DeviceLock, device_name


def test_the_second_is_told_who_holds_the_device_until_it_is_let_go(tmp_path: Path) -> None:
    """Another device is free, the same one has a holder with its pid, and release frees it."""
    first, second, other = (DeviceLock(tmp_path) for _ in range(3))
    assert first.take("cpu") is None
    assert first.take("cpu") is None
    assert other.take("gpu 0") is None
    holder = second.take("cpu")
    assert holder is not None
    assert holder.startswith(f"the kvtui with pid {os.getpid()}, since ")
    first.release()
    first.release()
    assert second.take("cpu") is None
    assert second.take("gpu 1") is None
    assert first.take("cpu") is None, "a lock holds one device at a time"


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    """A holder that is killed holds nothing, and what it wrote into the file does not matter."""
    code = (
        "import sys; from pathlib import Path; from kvtui.client.device_lock import DeviceLock\n"
        "lock = DeviceLock(Path(sys.argv[1])); print(lock.take('cpu'), flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"None\n"
        told = DeviceLock(tmp_path).take("cpu")
        assert told is not None
        assert f"pid {holder.pid}" in told
        holder.kill()
    assert DeviceLock(tmp_path).take("cpu") is None


def test_without_a_folder_of_its_own_runs_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A link in the place of the folder, a file, or no right to write: no lock, and no failure."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "kvtui").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert DeviceLock().take("cpu") is None
    assert not list((tmp_path / "elsewhere").iterdir())
    (tmp_path / "kvtui").unlink()
    (tmp_path / "kvtui").write_text("")
    assert DeviceLock().take("cpu") is None
    assert DeviceLock(tmp_path / "not there").take("cpu") is None


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """A lock file that is a link is left alone."""
    victim = tmp_path / "victim"
    victim.write_text("keep")
    (tmp_path / "cpu.lock").symlink_to(victim)
    assert DeviceLock(tmp_path).take("cpu") is None
    assert victim.read_text() == "keep"


@pytest.mark.parametrize(
    ("device", "environment", "driver", "name"),
    [
        ("auto", {}, False, "cpu"),
        ("auto", {}, True, "gpu 0"),
        ("auto", {"CUDA_VISIBLE_DEVICES": ""}, True, "cpu"),
        ("cpu", {}, True, "cpu"),
        ("cuda", {}, True, "gpu 0"),
        ("cuda:1", {}, True, "gpu 1"),
        ("cuda:1", {"CUDA_VISIBLE_DEVICES": "6,7"}, True, "gpu 7"),
        ("cuda:0", {"CUDA_VISIBLE_DEVICES": "GPU-ab"}, True, "gpu GPU-ab"),
        ("cuda:9", {"CUDA_VISIBLE_DEVICES": "6,7"}, True, "gpu 9"),
    ],
)
def test_one_device_has_one_name(
    tmp_path: Path, device: str, environment: dict[str, str], driver: bool, name: str
) -> None:
    """auto, cuda and cuda:0 are one device; CUDA_VISIBLE_DEVICES renumbers."""
    nvidia = tmp_path if driver else tmp_path / "none"
    assert device_name(device, environment=environment, nvidia=nvidia) == name
    assert device_name(device, "gpu-box", environment, nvidia=nvidia) == f"{device} on gpu-box"
