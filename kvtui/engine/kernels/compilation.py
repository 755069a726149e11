"""Gets the CPU kernel compiled without holding anything up: in a process of its own, once.

Compiling takes seconds and the interpreter's lock with it, so a run must not wait for it beside
its own steps. The result stays on disk (under ``XDG_CACHE_HOME``), and a mark beside it names what
it was compiled from and for; where the mark is found, loading takes a fraction of a second.
Nothing here imports numba.
"""

import hashlib
import importlib.util
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvtui import host

if TYPE_CHECKING:  # importing it imports numba
    from kvtui.engine.kernels.cpu import CpuKernel

_SOURCES: Final = ("cpu_decode.py", "vectors.py")


class Compilation:
    """The kernel of this machine: missing, being compiled, or ready."""

    def __init__(self) -> None:
        """Nothing is started yet."""
        self._process: subprocess.Popen[bytes] | None = None
        self._failed = importlib.util.find_spec("numba") is None
        self.why = "numba is not installed: pip install 'kvtui[cpu]'" if self._failed else ""
        """Why there is no kernel, once that is known."""

    def begin(self) -> None:
        """Have it compiled if it is not on disk; returns at once."""
        if self._failed or self._process is not None or mark().exists():
            return
        try:
            # -P: no file of the present folder stands in for a module.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "kvtui.engine.kernels.warm"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            self._fail(f"its compilation could not be started: {error}")

    def ready(self) -> bool:
        """Whether it can be loaded now without compiling."""
        if self._failed:
            return False
        if mark().exists():
            return True
        if self._process is not None and (status := self._process.poll()) is not None:
            self._fail(f"compiling it ended with status {status}")
        return False

    def load(self, threads: int) -> "CpuKernel | None":
        """The kernel for ``threads`` threads; None where it cannot be had (``why`` says so)."""
        if self._failed:
            return None
        use_cache()
        try:
            from kvtui.engine.kernels.cpu import CpuKernel

            return CpuKernel(threads)
        except Exception as error:  # noqa: BLE001  # whatever a compiler may raise, torch still runs
            self._fail(f"{type(error).__name__}: {error}".splitlines()[0][:200])
            return None

    def close(self) -> None:
        """End a compilation that is still going on."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def _fail(self, why: str) -> None:
        self._failed, self.why = True, why


def use_cache() -> None:
    """Keep compiled code with the user, wherever the package lies; before numba is imported."""
    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder()))


def cache_folder() -> Path:
    """Where compiled kernels stay."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kvtui" / "kernels"


def mark() -> Path:
    """The file that says: compiled from these sources by this numba for this processor."""
    told = hashlib.sha256()
    for name in _SOURCES:
        told.update((Path(__file__).parent / name).read_bytes())
    try:
        compiler = version("numba")
    except PackageNotFoundError:
        compiler = "none"
    for part in (compiler, platform.python_version(), host.cpu_name()):
        told.update(part.encode() + b"\0")
    return cache_folder() / f"{told.hexdigest()[:32]}.ready"
