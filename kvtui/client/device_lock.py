"""One engine a device: whoever runs one holds a lock that the user's other kvtuis see.

Two engines on one device slow each other, and neither figure means anything then. The lock is the
kernel's (flock), so it ends with its process however that ends. Where it cannot be taken, on a
read-only machine for one, runs go on without it: it informs, it guards nothing.
"""

import fcntl
import os
import stat
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from kvtui.errors import KvtuiError
from kvtui.log import LOG

_NVIDIA: Final = Path("/dev/nvidiactl")
"""There where NVIDIA's driver is loaded; ``auto`` is a GPU then."""
_HOLDER_BYTES: Final = 100


class DeviceBusyError(KvtuiError):
    """Another kvtui runs an engine on the device; nothing was started."""


class DeviceLock:
    """Holds at most one device at a time."""

    def __init__(self, folder: Path | None = None) -> None:
        """Lock files live in ``folder``; None is the user's runtime folder."""
        self._folder = folder
        self._descriptor: int | None = None
        self._held = ""

    def take(self, device: str) -> str | None:
        """Hold ``device``; None when that is done, else who holds it, as part of a sentence."""
        if self._held == device:
            return None
        self.release()
        try:
            descriptor = os.open(
                _file(self._folder or _runtime_folder(), device),
                os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW,
                0o600,
            )
        except OSError as error:
            LOG.warning("no lock for %s: %s", device, error)
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _holder(os.read(descriptor, _HOLDER_BYTES))
            os.close(descriptor)
            return holder
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {datetime.now().astimezone():%H:%M:%S}".encode())
        self._descriptor, self._held = descriptor, device
        return None

    def release(self) -> None:
        """Let go of it. May be called again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._held = None, ""


def device_name(
    device: str, place: str = "", environment: Mapping[str, str] = os.environ, *,
    nvidia: Path = _NVIDIA,
) -> str:  # fmt: skip
    """One name for each device, however it was asked for: ``cpu``, ``gpu 0`` or a GPU's UUID.

    Args:
        device: as typed: auto, cpu, cuda or cuda:N.
        place: the machine, "" for this one; what ``auto`` is elsewhere is not known.
        environment: with CUDA_VISIBLE_DEVICES, which renumbers GPUs.
        nvidia: a file that is there where NVIDIA's driver is.
    """
    if place:
        return f"{device} on {place}"
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if device == "auto":
        device = "cuda" if nvidia.exists() and visible not in ("", "-1") else "cpu"
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return device
    index = int(number) if number.isdecimal() else 0
    listed = [one.strip() for one in visible.split(",")] if visible else []
    return f"gpu {listed[index] if index < len(listed) else index}"


def _file(folder: Path, device: str) -> Path:
    plain = "".join(one if one.isalnum() or one in "-." else "_" for one in device)
    return folder / f"{plain}.lock"


def _runtime_folder() -> Path:
    """A folder of this user alone; raises ``OSError`` when there is none."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = (
        Path(runtime, "kvtui") if runtime else Path(tempfile.gettempdir(), f"kvtui-{os.getuid()}")
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not a folder of this user")
    return folder


def _holder(written: bytes) -> str:
    pid, _, since = written.decode(errors="replace").partition(" ")
    if not pid.isdecimal():
        return "another kvtui"
    return f"the kvtui with pid {pid}" + (f", since {since}" if since.isprintable() else "")
