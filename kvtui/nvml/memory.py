"""Memory of a device: v2 of the call first, v1 where the driver has no other.

In v1 ``used`` contains what the driver reserves, in v2 it does not; so free is taken as reported
and never computed as total minus used. A GPU that shares the machine's memory says "not supported"
or reports a total of zero; then the machine's figures are given and labelled unified. Any other
error is unknown, never unified.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kvtui.host import HostMemory
from kvtui.nvml.devices import Found
from kvtui.nvml.query import Query, Trouble, Way

_FIELDS: Final = ("total_bytes", "used_bytes", "free_bytes", "reserved_bytes")


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes; None where NVML does not tell."""

    total: int | None = None
    used: int | None = None
    free: int | None = None
    reserved: int | None = None
    """Held by the driver, outside ``used``."""
    unified: bool = False
    """The figures are the machine's."""


def device_memory(query: Query, found: Found, machine: Callable[[], HostMemory]) -> DeviceMemory:
    """Memory of ``found`` (of the instance, where it is MIG); ``machine`` tells the host's."""
    version = getattr(query.module, "nvmlMemory_v2", None)
    first = Way("nvmlDeviceGetMemoryInfo", found.handle)
    if version is not None:
        newer = Way("nvmlDeviceGetMemoryInfo", found.handle, version=version)
        info = query.call("memory", found.key, newer, first)
    else:
        info = query.call("memory", found.key, first)
    reason = query.missing.pop("memory", None)
    unsupported = query.trouble("memory", found.key) is Trouble.UNSUPPORTED
    if not found.mig and (unsupported or (info is not None and not info.total)):
        return _unified(query, machine())
    if info is None:
        query.missing.update(dict.fromkeys(_FIELDS, reason or Trouble.EMPTY.value))
        return DeviceMemory()
    reserved = getattr(info, "reserved", None)
    if reserved is None:
        query.missing["reserved_bytes"] = "This driver counts it as used."
    return DeviceMemory(_whole(info.total), _whole(info.used), _whole(info.free), _whole(reserved))


def _unified(query: Query, machine: HostMemory) -> DeviceMemory:
    query.missing["reserved_bytes"] = (
        "The GPU has no memory of its own; total, used and free are the machine's."
    )
    used = machine.total_bytes - machine.available_bytes
    return DeviceMemory(machine.total_bytes, used, machine.available_bytes, unified=True)


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
