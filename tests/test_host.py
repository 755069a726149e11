"""What this machine tells about itself, also in a container or when it tells nothing."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from kvtui import host

GIB = 2**30


def file(folder: Path, name: str, text: str) -> tuple[str, ...]:
    (folder / name).write_text(text)
    return (str(folder / "missing"), str(folder / name))


@pytest.fixture
def sixteen_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 16 GiB, 12 of them available, outside any container."""
    found = type("Memory", (), {"total": 16 * GIB, "available": 12 * GIB})
    monkeypatch.setattr(psutil, "virtual_memory", found)
    for name in ("_CGROUP_LIMITS", "_CGROUP_USED", "_CGROUP_STATISTICS"):
        monkeypatch.setattr(host, name, ())


def test_memory_is_the_machines() -> None:
    """Total and available memory are positive and in order."""
    found = host.memory()
    assert 0 < found.available_bytes <= found.total_bytes


@pytest.mark.usefixtures("sixteen_gib")
@pytest.mark.parametrize(
    ("limit", "used", "statistics", "right"),
    [
        (str(8 * GIB), str(3 * GIB), "anon 1", (8 * GIB, 5 * GIB)),
        (str(8 * GIB), str(9 * GIB), "anon 1", (8 * GIB, 0)),
        (str(8 * GIB), str(7 * GIB), f"anon 1\ninactive_file {4 * GIB}", (8 * GIB, 5 * GIB)),
        (
            str(8 * GIB),
            str(7 * GIB),
            f"inactive_file 0\ntotal_inactive_file {2 * GIB}",
            (8 * GIB, 3 * GIB),
        ),
        (str(15 * GIB), str(1 * GIB), "anon 1", (15 * GIB, 12 * GIB)),
        ("max", str(3 * GIB), "anon 1", (16 * GIB, 12 * GIB)),
        (str(2**63 - 4096), str(3 * GIB), "anon 1", (16 * GIB, 12 * GIB)),
    ],
    ids=["limit", "over it", "cached files", "older form", "machine is short", "none", "none (v1)"],
)
def test_a_containers_limit_wins_where_it_is_lower(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    limit: str,
    used: str,
    statistics: str,
    right: tuple[int, int],
) -> None:
    """The lower of both counts; cached files that can be given back are not taken."""
    monkeypatch.setattr(host, "_CGROUP_LIMITS", file(tmp_path, "memory.max", limit + "\n"))
    monkeypatch.setattr(host, "_CGROUP_USED", file(tmp_path, "memory.current", used + "\n"))
    monkeypatch.setattr(host, "_CGROUP_STATISTICS", file(tmp_path, "memory.stat", statistics))
    found = host.memory()
    assert (found.total_bytes, found.available_bytes) == right


def test_a_process_is_known_while_it_lives() -> None:
    """Resident set and name of a live process; None for one that is gone."""
    assert (host.resident_bytes() or 0) > 2**20
    assert host.process_name(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert host.resident_bytes(child.pid) is None
    assert host.process_name(child.pid) is None


def test_cores_are_those_this_process_may_use() -> None:
    """The affinity mask counts, not the machine."""
    assert host.cores() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("levels", "size"),
    [
        ({"0": ("1", "32K"), "2": ("2", "1024K"), "3": ("3", "36M")}, 36 * 2**20),
        ({"0": ("1", "32K"), "1": ("2", "2M")}, 2 * 2**20),
        ({}, None),
        ({"0": ("1", "unknown")}, None),
    ],
    ids=["three levels", "two levels", "none", "nonsense"],
)
def test_the_last_level_is_the_cache(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    levels: dict[str, tuple[str, str]],
    size: int | None,
) -> None:
    """The size of the highest level; None where the system does not tell."""
    for index, (level, text) in levels.items():
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        (folder / "level").write_text(level + "\n")
        (folder / "size").write_text(text + "\n")
    monkeypatch.setattr(host, "_CPU_CACHE", tmp_path)
    assert host.last_level_cache_bytes() == size


def test_the_processor_and_its_load_have_values() -> None:
    """Name, busy share and load average are there on this system."""
    assert host.cpu_name()
    busy, load = host.cpu_percent(), host.load_average()
    assert busy is not None
    assert 0 <= busy <= 100
    assert load is not None
    assert load >= 0
