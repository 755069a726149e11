"""NVML faked at its library boundary: a module with pynvml's names, errors and structures."""

from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """Base of the driver's errors."""


class NVMLError_NotSupported(NVMLError): ...


class NVMLError_FunctionNotFound(NVMLError): ...


class NVMLError_GpuIsLost(NVMLError): ...


class NVMLError_NoPermission(NVMLError): ...


class NVMLError_Uninitialized(NVMLError): ...


class NVMLError_LibraryNotFound(NVMLError): ...


class NVMLError_DriverNotLoaded(NVMLError): ...


class NVMLError_LibRmVersionMismatch(NVMLError): ...


class NVMLError_Unknown(NVMLError): ...


class NVMLError_NotFound(NVMLError): ...


GIB = 2**30


class FakeNvml:
    """Two GPUs; ``broken`` maps a function's name to what it raises."""

    nvmlMemory_v2 = 0x2000028
    _nvmlGetFunctionPointer = None

    def __init__(self) -> None:
        self.broken: dict[str, Exception] = {}
        self.calls: list[str] = []
        self.initialised = 0
        self.uuids = ["GPU-aaaa", "GPU-bbbb"]
        self.memory: Any = SimpleNamespace(
            total=80 * GIB, used=10 * GIB, free=69 * GIB, reserved=1 * GIB
        )
        self.processes: Any = [SimpleNamespace(pid=4711, usedGpuMemory=9 * GIB)]
        for error in (
            NVMLError, NVMLError_NotSupported, NVMLError_FunctionNotFound, NVMLError_GpuIsLost,
            NVMLError_NoPermission, NVMLError_Uninitialized, NVMLError_LibraryNotFound,
            NVMLError_DriverNotLoaded, NVMLError_LibRmVersionMismatch, NVMLError_Unknown,
        ):  # fmt: skip
            setattr(self, error.__name__, error)

    def _enter(self, name: str) -> None:
        self.calls.append(name)
        if name in self.broken:
            raise self.broken[name]

    def nvmlInit(self) -> None:
        self._enter("nvmlInit")
        self.initialised += 1

    def nvmlShutdown(self) -> None:
        self._enter("nvmlShutdown")

    def nvmlDeviceGetCount(self) -> int:
        self._enter("nvmlDeviceGetCount")
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._enter("nvmlDeviceGetHandleByIndex")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        self._enter("nvmlDeviceGetHandleByUUID")
        if uuid not in self.uuids:
            raise NVMLError_NotFound("Not Found")
        return self.uuids.index(uuid)

    def nvmlDeviceGetIndex(self, handle: int) -> int:
        self._enter("nvmlDeviceGetIndex")
        return handle

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        self._enter("nvmlDeviceGetUUID")
        return self.uuids[handle].encode()

    def nvmlDeviceGetName(self, handle: int) -> str:
        self._enter("nvmlDeviceGetName")
        return f"NVIDIA H100 80GB HBM3 #{handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int | None = None) -> Any:
        self._enter("nvmlDeviceGetMemoryInfo/v2" if version else "nvmlDeviceGetMemoryInfo")
        if version:
            return self.memory
        return SimpleNamespace(
            total=self.memory.total, used=self.memory.used, free=self.memory.free
        )

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        self._enter("nvmlDeviceGetUtilizationRates")
        return SimpleNamespace(gpu=97, memory=60)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        self._enter("nvmlDeviceGetPowerUsage")
        return 650_000

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        self._enter("nvmlDeviceGetEnforcedPowerLimit")
        return 700_000

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        self._enter("nvmlDeviceGetPciInfo")
        return SimpleNamespace(busId=b"00000000:1B:00.0")

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        self._enter("nvmlDeviceGetTemperature")
        return 61

    def nvmlDeviceGetClockInfo(self, handle: int, clock: int) -> int:
        self._enter("nvmlDeviceGetClockInfo")
        return {1: 1980, 2: 2619}[clock]

    def nvmlDeviceGetMaxClockInfo(self, handle: int, clock: int) -> int:
        self._enter("nvmlDeviceGetMaxClockInfo")
        return 2619

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        self._enter("nvmlDeviceGetCurrentClocksEventReasons")
        return 0x1 | 0x4 | 0x40

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
        self._enter("nvmlDeviceGetCurrentClocksThrottleReasons")
        return 0x1

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:
        self._enter("nvmlDeviceGetMigMode")
        return [0, 0]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> Any:
        self._enter("nvmlDeviceGetComputeRunningProcesses")
        return self.processes


READERS = tuple(
    name
    for name in dir(FakeNvml)
    if name.startswith("nvmlDeviceGet") and "Handle" not in name and "Count" not in name
)
"""Every function a reading calls."""
