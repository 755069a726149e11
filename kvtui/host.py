"""What this machine has: memory, cores, last-level cache, and the resident set of a process.

The only module that imports psutil. Figures are those of the machine kvtui runs on, or of its
container where a memory limit is set.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

_CGROUP_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
_CGROUP_USED = (
    "/sys/fs/cgroup/memory.current",
    "/sys/fs/cgroup/memory/memory.usage_in_bytes",
)
_CGROUP_STATISTICS = ("/sys/fs/cgroup/memory.stat", "/sys/fs/cgroup/memory/memory.stat")
_CPU_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Memory of the machine, bytes."""

    total_bytes: int
    available_bytes: int
    """What can be taken without swapping."""


def memory() -> HostMemory:
    """Total and available memory; a container's limit wins where it is lower."""
    machine = psutil.virtual_memory()
    total, available = int(machine.total), int(machine.available)
    limit, used = _first_number(_CGROUP_LIMITS), _first_number(_CGROUP_USED)
    if limit is not None and limit < total:
        total = limit
        # Files read once count as used but are given back on demand: a working set, as
        # "docker stats" shows it, leaves them out.
        taken = max(0, (used or 0) - _reclaimable_bytes())
        available = min(available, max(0, limit - taken))
    return HostMemory(total, available)


def resident_bytes(pid: int | None = None) -> int | None:
    """Resident set of process ``pid`` (this one when None); None when it is gone or hidden."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


def process_name(pid: int) -> str | None:
    """Name of process ``pid``; None when it is not visible from here."""
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return None


def cores() -> int:
    """CPU cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_name() -> str:
    """Model name of the processor, "CPU" where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "CPU"
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name" and value.strip():
            return " ".join(value.split())
    return "CPU"


def last_level_cache_bytes() -> int | None:
    """Size of the largest cache level of core 0; None where the system does not tell."""
    best: tuple[int, int] | None = None
    try:
        for index in _CPU_CACHE.glob("index*"):
            level = int((index / "level").read_text())
            text = (index / "size").read_text().strip()
            size = int(text.rstrip("KMG")) * {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1], 1)
            best = max(best or (level, size), (level, size))
    except (OSError, ValueError):
        return None
    return best[1] if best else None


def cpu_percent() -> float | None:
    """Busy share of all cores since the last call, percent; the first call has no interval."""
    return float(psutil.cpu_percent(interval=None))


def load_average() -> float | None:
    """Runnable processes over the last minute; None where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _first_number(paths: tuple[str, ...]) -> int | None:
    for path in paths:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            return int(text)
    return None


def _reclaimable_bytes() -> int:
    """Cached files of this container that nobody uses now."""
    for path in _CGROUP_STATISTICS:
        try:
            lines = Path(path).read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        found = dict(line.split(maxsplit=1) for line in lines if " " in line)
        value = found.get("total_inactive_file") or found.get("inactive_file") or "0"
        return int(value) if value.isdigit() else 0
    return 0
