"""The GPUs NVML lists, by index and UUID."""

from dataclasses import dataclass

from kvtui.nvml.library import Module, Query, load, text


@dataclass(frozen=True, slots=True)
class GpuName:
    """One GPU as NVML lists it."""

    index: int
    uuid: str
    name: str | None
    total_bytes: int | None


def listed(query: Query) -> list[GpuName]:
    """Every GPU that NVML gives a handle for."""
    found = []
    for index in range(query.call("count", "", "nvmlDeviceGetCount") or 0):
        handle = query.call("handle", f"#{index}", "nvmlDeviceGetHandleByIndex", index)
        if handle is None:
            continue
        key = f"#{index}"
        memory = query.call("total_bytes", key, "nvmlDeviceGetMemoryInfo", handle)
        found.append(
            GpuName(
                index=index,
                uuid=text(query.call("uuid", key, "nvmlDeviceGetUUID", handle)) or key,
                name=text(query.call("name", key, "nvmlDeviceGetName", handle)),
                total_bytes=int(memory.total) if memory is not None and memory.total else None,
            )
        )
    return found


def devices(module: Module | None = None) -> list[GpuName]:
    """The GPUs of this machine.

    Raises:
        NvmlUnavailableError: NVML cannot be used here.
    """
    query = Query(module if module is not None else load())
    try:
        return listed(query)
    finally:
        query.close()
