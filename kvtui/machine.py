"""The devices a name stands for on this machine: ``auto`` (the GPU NVML finds) and ``host``."""

from kvtui.errors import InputError, UnavailableError
from kvtui.spec import Device
from kvtui.units import format_bytes


def detect(name: str) -> Device:
    """The device called ``name`` here.

    Raises:
        UnavailableError: ``auto``, and NVML finds no GPU.
        InputError: another name.
    """
    if name == "host":
        return host_device()
    if name == "auto":
        return first_gpu()
    raise InputError("gpu", name, "auto or host to look at this machine")


def host_device() -> Device:
    """This machine's own memory, as far as it is available now."""
    from kvtui import host

    memory = host.memory()
    return Device(
        name="this machine",
        memory_bytes=memory.available_bytes,
        source=f"memory available now, of {format_bytes(memory.total_bytes)} in all",
        host=True,
    )


def first_gpu() -> Device:
    """The first GPU in NVML's order: its memory as NVML says, its speed from a preset."""
    from kvtui.nvml import devices
    from kvtui.sources import presets

    found = devices()
    if not found:
        raise UnavailableError("gpu auto: NVML finds no GPU on this machine.")
    gpu = found[0]
    known = presets.device_by_nvml_name(gpu.name or "", gpu.total_bytes or 0)
    return Device(
        name=gpu.name or f"GPU {gpu.index}",
        memory_bytes=gpu.total_bytes,
        bandwidth_bytes_per_s=known.bandwidth_bytes_per_s if known else None,
        flop_per_s=known.flop_per_s if known else None,
        source="NVML" + (f"; speed: {known.source}" if known else "; speed unknown"),
    )
