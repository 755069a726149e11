"""Which handle belongs to a device: found by UUID, never by an index from elsewhere.

CUDA orders devices by speed and NVML by bus, so an index is never carried from one to the other.
CUDA spells UUIDs without the prefix, and gives a MIG instance's the same way as a whole GPU's.
"""

from dataclasses import dataclass
from typing import Any, Final

from kvtui.errors import UnavailableError
from kvtui.nvml.library import text
from kvtui.nvml.query import Query, Trouble, Way

_PREFIXES: Final = ("GPU-", "MIG-")


class GpuNotFoundError(UnavailableError):
    """NVML works but has no such device; the text says what it has."""


@dataclass(frozen=True, slots=True)
class Found:
    """One device NVML gave a handle for, or the reason why it gave none."""

    key: str
    """Its UUID, or "#index" where NVML does not tell."""
    index: int
    """NVML's; -1 where it does not tell."""
    handle: Any
    """None when NVML gave none."""
    physical: Any
    """Handle of the whole GPU: that of a MIG instance's parent, else ``handle``."""
    reason: str | None = None
    """Why there is no handle."""

    @property
    def mig(self) -> bool:
        """It is a part of a GPU."""
        return self.key.startswith("MIG-")


class Devices:
    """Handles of one initialised NVML, asked for once and kept."""

    def __init__(self, query: Query) -> None:
        """Ask through ``query``."""
        self._query = query
        self._by_index: dict[int, Found] = {}
        self._by_name: dict[str, Found] = {}
        self._first: Found | None = None

    def forget(self) -> None:
        """NVML was initialised again: every handle is void."""
        self._by_index.clear()
        self._by_name.clear()
        self._first = None

    def all(self) -> list[Found]:
        """Every whole GPU in NVML's order, also those it gives no handle for.

        Raises:
            GpuNotFoundError: NVML does not even say how many there are.
        """
        count = self._query.call("count", "", Way("nvmlDeviceGetCount"))
        if count is None:
            reason = self._query.missing.pop("count")
            raise GpuNotFoundError(f"NVML does not say how many GPUs there are: {reason}")
        return [self._at(index) for index in range(count)]

    def find(self, uuid: str | None) -> Found:
        """The device with ``uuid`` in any spelling, or the first one.

        Raises:
            GpuNotFoundError: there is none.
        """
        if uuid is not None:
            if uuid in self._by_name:
                return self._by_name[uuid]
            found = self._spelled(uuid)
            if found is not None:
                self._by_name[uuid] = found
                return found
        gpus = self.all()
        if not gpus:
            raise GpuNotFoundError("NVML lists no GPU: the driver is loaded, but sees none here.")
        if uuid is None:
            # Once chosen it stays the first: a GPU that is lost later is shown as lost.
            usable = (gpu for gpu in gpus if self._usable(gpu))
            self._first = self._first or next(usable, None)
            return self._first or gpus[0]
        for gpu in gpus:
            if _bare(gpu.key) == _bare(uuid):
                return gpu
        listed = ", ".join(_described(gpu) for gpu in gpus)
        raise GpuNotFoundError(f"NVML lists no device called {uuid}; it lists {listed}.")

    def _usable(self, gpu: Found) -> bool:
        return gpu.handle is not None and not self._query.is_lost(gpu.key)

    def _at(self, index: int) -> Found:
        if index in self._by_index:
            return self._by_index[index]
        key = f"#{index}"
        handle = self._query.call("handle", key, Way("nvmlDeviceGetHandleByIndex", index))
        if handle is None:
            return Found(key, index, None, None, self._query.missing.pop("handle"))
        name = text(self._query.call("uuid", key, Way("nvmlDeviceGetUUID", handle)))
        self._query.missing.pop("uuid", None)
        found = Found(name or key, index, handle, handle)
        if name is not None or self._query.trouble("uuid", key) is not Trouble.OTHER:
            self._by_index[index] = found
        return found

    def _spelled(self, uuid: str) -> Found | None:
        for name in _spellings(uuid):
            handle = self._query.call("handle", name, Way("nvmlDeviceGetHandleByUUID", name))
            self._query.missing.pop("handle", None)
            if handle is not None:
                return self._named(name, handle)
        return None

    def _named(self, name: str, handle: Any) -> Found:
        query = self._query
        key = text(query.call("uuid", name, Way("nvmlDeviceGetUUID", handle))) or name
        physical = handle
        if key.startswith("MIG-"):
            way = Way("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
            parent = query.call("parent", key, way)
            physical = handle if parent is None else parent
        index = query.call("index", key, Way("nvmlDeviceGetIndex", physical))
        for field in ("uuid", "parent", "index"):
            query.missing.pop(field, None)
        return Found(key, -1 if index is None else int(index), handle, physical)


def _spellings(uuid: str) -> tuple[str, ...]:
    """What NVML may call it: its prefix first, then the other one; lower case, then as given."""
    given = uuid.strip()
    body = given[4:] if given.upper().startswith(_PREFIXES) else given
    first = given[:4].upper() if body != given else _PREFIXES[0]
    prefixes = (first, *(one for one in _PREFIXES if one != first))
    return tuple(
        dict.fromkeys(prefix + form for prefix in prefixes for form in (body.lower(), body))
    )


def _bare(uuid: str) -> str:
    given = uuid.strip().casefold()
    return given[4:] if given.upper().startswith(_PREFIXES) else given


def _described(gpu: Found) -> str:
    return gpu.key if gpu.reason is None else f"{gpu.key} ({gpu.reason.rstrip('.')})"
