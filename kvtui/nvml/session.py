"""Readings of one GPU or of all: every figure its own call, so that one gap is one gap.

A figure that NVML does not give is None, with its reason in ``missing``. A MIG instance has its own
memory, processes and name; clocks, power and temperature are those of the GPU it is part of.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from kvtui import host
from kvtui.nvml.devices import Devices, Found
from kvtui.nvml.library import Module, load, text
from kvtui.nvml.listing import GpuName, listed
from kvtui.nvml.memory import device_memory
from kvtui.nvml.query import LOST, NvmlRestartedError, Query, Way, known
from kvtui.records import GpuProcess, GpuReading

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
T = TypeVar("T")
_UNCORRECTED: Final = 1
_VOLATILE: Final = 0
"""ECC errors that could not be corrected, counted since the driver was loaded (nvml.h)."""
_TOLD_APART: Final = ("at_ms", "index", "uuid", "unified", "missing", "followed")


class NvmlSession:
    """An initialised NVML; reads devices until it is closed."""

    def __init__(
        self,
        module: Module | None = None,
        *,
        machine: Callable[[], host.HostMemory] = host.memory,
        process_name: Callable[[int], str | None] = host.process_name,
    ) -> None:
        """Load and initialise; raises ``NvmlUnavailableError`` with the reason when it cannot.

        Args:
            module: pynvml or a fake of it; None imports it.
            machine: the host's memory, for GPUs that share it.
            process_name: the name of a process, None when it is not visible from here.
        """
        self._query = Query(module if module is not None else load())
        self._devices = Devices(self._query)
        self._machine, self._process_name = machine, process_name

    def close(self) -> None:
        """Shut NVML down."""
        self._query.close()

    def devices(self) -> list[GpuName]:
        """Every GPU that can be used."""
        return self._asked(lambda: listed(self._query, self._devices, self._machine))

    def read(self, uuid: str | None = None) -> GpuReading:
        """One reading of the device with ``uuid``, or of the first.

        Raises:
            GpuNotFoundError: NVML has no such device; the sentence says what it has.
            NvmlUnavailableError: NVML went away.
        """
        return self._asked(lambda: self._reading(self._devices.find(uuid)))

    def read_all(self) -> list[GpuReading]:
        """One reading of every GPU in NVML's order; a lost one is there too, with its reason."""
        return self._asked(lambda: [self._reading(one) for one in self._devices.all()])

    def is_lost(self, uuid: str) -> bool:
        """The GPU that a reading calls ``uuid`` fell off the bus."""
        return self._query.is_lost(uuid)

    def _asked(self, ask: Callable[[], T]) -> T:
        """The answer; asked again, with new handles, when NVML had to be initialised again."""
        self._query.begin()
        try:
            return ask()
        except NvmlRestartedError:
            self._devices.forget()
            self._query.begin(restarted=True)
            return ask()

    def _reading(self, found: Found) -> GpuReading:
        query, key, whole = self._query, found.key, found.physical
        query.missing = {}
        if found.handle is None or query.is_lost(key):
            return _unreadable(found, found.reason or LOST)

        def ask(field: str, *ways: Way, pick: Callable[[Any], Any] | None = None) -> Any:
            return query.call(field, key, *ways, pick=pick)

        memory = device_memory(query, found, self._machine)
        return GpuReading(
            index=found.index,
            uuid=key,
            name=text(ask("name", Way("nvmlDeviceGetName", found.handle))),
            pci_bus_id=text(
                ask("pci_bus_id", Way("nvmlDeviceGetPciInfo", whole), pick=lambda pci: pci.busId)
            ),
            total_bytes=memory.total,
            used_bytes=memory.used,
            free_bytes=memory.free,
            reserved_bytes=memory.reserved,
            unified=memory.unified,
            busy_percent=ask(
                "busy_percent",
                Way("nvmlDeviceGetUtilizationRates", found.handle),
                pick=lambda rates: rates.gpu,
            ),
            power_w=_watts(ask("power_w", Way("nvmlDeviceGetPowerUsage", whole))),
            power_limit_w=_watts(
                ask("power_limit_w", Way("nvmlDeviceGetEnforcedPowerLimit", whole))
            ),
            temperature_c=ask(
                "temperature_c",
                Way("nvmlDeviceGetTemperature", whole, _GPU_TEMPERATURE),
                # The successor of the call above, which CUDA 14 is said to remove.
                Way("nvmlDeviceGetTemperatureV", whole, _GPU_TEMPERATURE),
            ),
            sm_clock_mhz=ask("sm_clock_mhz", Way("nvmlDeviceGetClockInfo", whole, _CLOCK_SM)),
            memory_clock_mhz=ask(
                "memory_clock_mhz", Way("nvmlDeviceGetClockInfo", whole, _CLOCK_MEMORY)
            ),
            max_memory_clock_mhz=ask(
                "max_memory_clock_mhz", Way("nvmlDeviceGetMaxClockInfo", whole, _CLOCK_MEMORY)
            ),
            throttle=_words(
                ask(
                    "throttle",
                    Way("nvmlDeviceGetCurrentClocksEventReasons", whole),
                    Way("nvmlDeviceGetCurrentClocksThrottleReasons", whole),
                )
            ),
            ecc=_flag(ask("ecc", Way("nvmlDeviceGetEccMode", whole), pick=lambda modes: modes[0])),
            ecc_uncorrected=ask(
                "ecc_uncorrected",
                Way("nvmlDeviceGetTotalEccErrors", whole, _UNCORRECTED, _VOLATILE),
            ),
            mig=self._mig(found),
            processes=self._processes(found),
            missing=dict(query.missing),
        )

    def _mig(self, found: Found) -> bool | None:
        if found.mig:
            return True
        way = Way("nvmlDeviceGetMigMode", found.handle)
        mode = self._query.call("mig", found.key, way, pick=lambda modes: modes[0])
        return _flag(mode)

    def _processes(self, found: Found) -> list[GpuProcess] | None:
        rows = self._query.call(
            "processes",
            found.key,
            Way("nvmlDeviceGetComputeRunningProcesses", found.handle),
            Way("nvmlDeviceGetComputeRunningProcesses_v2", found.handle),
        )
        if rows is None:
            return None
        processes = [
            GpuProcess(
                pid=int(row.pid),
                used_bytes=known(row.usedGpuMemory),
                name=self._process_name(int(row.pid)),
            )
            for row in rows
        ]
        if any(one.used_bytes is None for one in processes):
            self._query.missing["processes.used_bytes"] = "The driver does not say it per process."
        if any(one.name is None for one in processes):
            self._query.missing["processes.name"] = (
                "The process is not visible from here: another pid namespace, or gone."
            )
        return processes


def _unreadable(found: Found, reason: str) -> GpuReading:
    """The reading of a device that answers nothing."""
    fields = [name for name in GpuReading.__struct_fields__ if name not in _TOLD_APART]
    nothing: dict[str, Any] = dict.fromkeys(fields)
    return GpuReading(
        index=found.index,
        uuid=found.key,
        unified=False,
        missing=dict.fromkeys(fields, reason),
        **nothing,
    )


def _flag(mode: int | None) -> bool | None:
    return None if mode is None else bool(mode)


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1e3


def _words(bits: int | None) -> list[str] | None:
    return None if bits is None else [word for bit, word in _THROTTLE.items() if bits & bit]
