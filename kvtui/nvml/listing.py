"""The GPUs of this machine by index, UUID, name and memory, for ``--gpu auto``."""

from collections.abc import Callable
from dataclasses import dataclass

from kvtui import host
from kvtui.nvml.devices import Devices
from kvtui.nvml.library import Module, load, text
from kvtui.nvml.memory import device_memory
from kvtui.nvml.query import NvmlRestartedError, Query, Way


@dataclass(frozen=True, slots=True)
class GpuName:
    """One GPU as NVML lists it."""

    index: int
    uuid: str
    name: str | None
    total_bytes: int | None
    unified: bool = False
    """``total_bytes`` is the machine's memory, which the GPU shares."""


def listed(
    query: Query, found: Devices, machine: Callable[[], host.HostMemory] = host.memory
) -> list[GpuName]:
    """Every GPU that can be used: those NVML gives a handle for and that are not lost."""
    names = []
    for gpu in found.all():
        if gpu.handle is None or query.is_lost(gpu.key):
            continue
        name = text(query.call("name", gpu.key, Way("nvmlDeviceGetName", gpu.handle)))
        memory = device_memory(query, gpu, machine)
        names.append(GpuName(gpu.index, gpu.key, name, memory.total, memory.unified))
    return names


def devices(module: Module | None = None) -> list[GpuName]:
    """The GPUs of this machine; empty when NVML sees none.

    Raises:
        NvmlUnavailableError: NVML cannot be used here.
        GpuNotFoundError: it does not say how many there are.
    """
    query = Query(module if module is not None else load())
    try:
        try:
            return listed(query, Devices(query))
        except NvmlRestartedError:
            query.begin(restarted=True)
            return listed(query, Devices(query))
    finally:
        query.close()
