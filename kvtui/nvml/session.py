"""Readings of one GPU, found by the UUID the worker reports.

CUDA and NVML order devices differently, so an index is never carried from one to the other. A
figure that NVML does not give is None, with its reason in ``missing``.
"""

from dataclasses import dataclass
from typing import Any, Final

from kvtui import host
from kvtui.nvml.devices import GpuName, listed
from kvtui.nvml.library import Module, Query, load, text
from kvtui.records import GpuProcess, GpuReading

_ALL_ONES: Final = 2**64 - 1
"""NVML_VALUE_NOT_AVAILABLE: what Windows drivers report for a process's memory."""
_THROTTLE: Final = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal limit",
    0x40: "hardware thermal limit",
    0x80: "power brake",
}
"""Clock event reasons that slow a device down. Idle (0x1), application clocks (0x2), sync boost
(0x10) and display clocks (0x100) are information, not throttling (nvml.h)."""
_GPU_TEMPERATURE: Final = 0
_CLOCK_SM: Final = 1
_CLOCK_MEMORY: Final = 2


@dataclass(frozen=True, slots=True)
class _Memory:
    total: int | None
    used: int | None
    free: int | None
    reserved: int | None
    unified: bool


class NvmlSession:
    """An initialised NVML; reads one device at a time."""

    def __init__(self, module: Module | None = None) -> None:
        """Load and initialise; raises ``NvmlUnavailableError`` with the reason when it cannot."""
        self._module = module if module is not None else load()
        self._query = Query(self._module)

    def close(self) -> None:
        """Shut NVML down."""
        self._query.close()

    def devices(self) -> list[GpuName]:
        """Every GPU NVML lists."""
        return listed(self._query)

    def read(self, uuid: str | None = None) -> GpuReading | None:
        """One reading of the device with ``uuid``, or of the first; None when there is none."""
        self._query.missing = {}
        found = self._handle(uuid)
        if found is None:
            return None
        handle, key, index = found
        call = self._query.call
        memory = self._memory(handle, key)
        busy = call("busy_percent", key, "nvmlDeviceGetUtilizationRates", handle)
        power = call("power_w", key, "nvmlDeviceGetPowerUsage", handle)
        cap = call("power_limit_w", key, "nvmlDeviceGetEnforcedPowerLimit", handle)
        pci = call("pci_bus_id", key, "nvmlDeviceGetPciInfo", handle)
        return GpuReading(
            index=index,
            uuid=key,
            name=text(call("name", key, "nvmlDeviceGetName", handle)),
            pci_bus_id=None if pci is None else text(pci.busId),
            total_bytes=memory.total,
            used_bytes=memory.used,
            free_bytes=memory.free,
            reserved_bytes=memory.reserved,
            unified=memory.unified,
            busy_percent=None if busy is None else float(busy.gpu),
            power_w=None if power is None else power / 1e3,
            power_limit_w=None if cap is None else cap / 1e3,
            temperature_c=_number(
                call("temperature_c", key, "nvmlDeviceGetTemperature", handle, _GPU_TEMPERATURE)
            ),
            sm_clock_mhz=_count(
                call("sm_clock_mhz", key, "nvmlDeviceGetClockInfo", handle, _CLOCK_SM)
            ),
            memory_clock_mhz=_count(
                call("memory_clock_mhz", key, "nvmlDeviceGetClockInfo", handle, _CLOCK_MEMORY)
            ),
            max_memory_clock_mhz=_count(
                call(
                    "max_memory_clock_mhz", key, "nvmlDeviceGetMaxClockInfo", handle, _CLOCK_MEMORY
                )
            ),
            throttle=self._throttle(handle, key),
            mig=self._mig(handle, key),
            processes=self._processes(handle, key),
            missing=dict(self._query.missing),
        )

    def _handle(self, uuid: str | None) -> tuple[Any, str, int] | None:
        """Handle, UUID and index of the device; a MIG instance has its own handle."""
        call = self._query.call
        if uuid is None:
            handle = call("handle", "", "nvmlDeviceGetHandleByIndex", 0)
            if handle is None:
                return None
            key = text(call("uuid", "#0", "nvmlDeviceGetUUID", handle)) or "#0"
            return handle, key, 0
        for spelled in _spellings(uuid):
            handle = call("handle", spelled, "nvmlDeviceGetHandleByUUID", spelled)
            if handle is not None:
                index = call("index", spelled, "nvmlDeviceGetIndex", handle)
                return handle, spelled, -1 if index is None else int(index)
        return None

    def _memory(self, handle: Any, key: str) -> _Memory:
        """Memory v2 (reserved apart) where the driver has it, else v1; the host's when unified."""
        call = self._query.call

        def version_1() -> object:
            return call("used_bytes", key, "nvmlDeviceGetMemoryInfo", handle)

        version_2 = getattr(self._module, "nvmlMemory_v2", None)
        if version_2 is None:
            found: Any = version_1()
        else:
            found = call(
                "used_bytes",
                key,
                "nvmlDeviceGetMemoryInfo",
                handle,
                version=version_2,
                fallback=version_1,
            )
        if found is None and self._query.is_lost(key):
            return _Memory(None, None, None, None, unified=False)
        if found is None or not found.total:
            shared = host.memory()
            self._query.missing["used_bytes"] = (
                "The GPU reports no memory of its own; these are the machine's figures."
            )
            used = shared.total_bytes - shared.available_bytes
            return _Memory(
                shared.total_bytes, used, shared.available_bytes, reserved=None, unified=True
            )
        reserved = getattr(found, "reserved", None)
        if reserved is None:
            self._query.missing["reserved_bytes"] = "This driver counts it as used."
        return _Memory(
            int(found.total),
            int(found.used),
            int(found.free),
            None if reserved is None else int(reserved),
            unified=False,
        )

    def _throttle(self, handle: Any, key: str) -> list[str] | None:
        call = self._query.call

        def older() -> object:
            return call("throttle", key, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)

        bits = call(
            "throttle", key, "nvmlDeviceGetCurrentClocksEventReasons", handle, fallback=older
        )
        if bits is None:
            return None
        return [word for bit, word in _THROTTLE.items() if int(bits) & bit]

    def _mig(self, handle: Any, key: str) -> bool | None:
        mode = self._query.call("mig", key, "nvmlDeviceGetMigMode", handle)
        if mode is None:
            return True if key.startswith("MIG-") else None
        return bool(mode[0])

    def _processes(self, handle: Any, key: str) -> list[GpuProcess] | None:
        found = self._query.call("processes", key, "nvmlDeviceGetComputeRunningProcesses", handle)
        if found is None:
            return None
        return [
            GpuProcess(
                pid=int(process.pid),
                used_bytes=_process_bytes(process.usedGpuMemory),
                name=host.process_name(int(process.pid)),
            )
            for process in found
        ]


def _spellings(uuid: str) -> tuple[str, ...]:
    """NVML wants a prefix; CUDA's own form has none."""
    if uuid.upper().startswith(("GPU-", "MIG-")):
        return (uuid[:4].upper() + uuid[4:],)
    return (f"GPU-{uuid}", f"MIG-{uuid}")


def _process_bytes(value: Any) -> int | None:
    """A process's memory; None and all ones both mean that the driver does not say."""
    return None if value is None or int(value) == _ALL_ONES else int(value)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _count(value: Any) -> int | None:
    return None if value is None else int(value)
