"""The devices a name stands for: ``auto`` (the GPU NVML finds) and ``host``, here or over ssh."""

from typing import TYPE_CHECKING

from kvtui.errors import InputError, UnavailableError
from kvtui.spec import Device
from kvtui.units import format_bytes

if TYPE_CHECKING:  # importing them would cost whoever looks at this machine alone
    from kvtui.client.ssh import RemoteHost
    from kvtui.records import AnyRecord


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

    found = devices()
    if not found:
        raise UnavailableError("gpu auto: NVML finds no GPU on this machine.")
    return _gpu(found[0].name, found[0].index, found[0].total_bytes)


class FarMachine:
    """The devices of another machine, asked once."""

    def __init__(self, host: "RemoteHost") -> None:
        """Ask ``host`` when something is asked of this."""
        self._host = host
        self._readings: list[AnyRecord] | None = None

    def detect(self, name: str) -> Device:
        """The device called ``name`` there.

        Raises:
            UnavailableError: it cannot be asked, or it finds no GPU.
            InputError: another name.
        """
        if name not in ("host", "auto"):
            raise InputError("gpu", name, f"auto or host to look at {self._host.name}")
        if self._readings is None:
            from kvtui.client.ssh import readings_of

            self._readings = readings_of(self._host)
        return self._memory(self._readings) if name == "host" else self._first_gpu(self._readings)

    def _memory(self, readings: "list[AnyRecord]") -> Device:
        from kvtui.records import HostReading

        memory = next((one for one in readings if isinstance(one, HostReading)), None)
        if memory is None:
            raise UnavailableError(f"gpu host: {self._host.name} does not tell its memory.")
        return Device(
            name=self._host.name,
            memory_bytes=memory.available_bytes,
            source=f"memory available there now, of {format_bytes(memory.total_bytes)} in all",
            host=True,
        )

    def _first_gpu(self, readings: "list[AnyRecord]") -> Device:
        from kvtui.records import GpuReading, Notice

        gpu = next((one for one in readings if isinstance(one, GpuReading)), None)
        if gpu is None:
            said = [one.sentence for one in readings if isinstance(one, Notice)]
            reason = said[-1] if said else "NVML finds no GPU."
            raise UnavailableError(f"gpu auto on {self._host.name}: {reason}")
        return _gpu(gpu.name, gpu.index, gpu.total_bytes)


def _gpu(name: str | None, index: int, total_bytes: int | None) -> Device:
    from kvtui.sources import presets

    known = presets.device_by_nvml_name(name or "", total_bytes or 0)
    return Device(
        name=name or f"GPU {index}",
        memory_bytes=total_bytes,
        bandwidth_bytes_per_s=known.bandwidth_bytes_per_s if known else None,
        flop_per_s=known.flop_per_s if known else None,
        source="NVML" + (f"; speed: {known.source}" if known else "; speed unknown"),
    )
