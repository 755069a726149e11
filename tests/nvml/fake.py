"""NVML faked at its library boundary: a module with pynvml's names, errors and structures."""

from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """Base of the driver's errors."""


class NVMLError_NotSupported(NVMLError): ...


class NVMLError_FunctionNotFound(NVMLError): ...


class NVMLError_ArgumentVersionMismatch(NVMLError): ...


class NVMLError_GpuIsLost(NVMLError): ...


class NVMLError_NoPermission(NVMLError): ...


class NVMLError_Uninitialized(NVMLError): ...


class NVMLError_LibraryNotFound(NVMLError): ...


class NVMLError_DriverNotLoaded(NVMLError): ...


class NVMLError_LibRmVersionMismatch(NVMLError): ...


class NVMLError_Unknown(NVMLError): ...


class NVMLError_NotFound(NVMLError): ...


class NVMLLibraryMismatchError(Exception):
    """The binding's own, outside its tree of errors."""


GIB = 2**30
ERRORS = (
    NVMLError, NVMLError_NotSupported, NVMLError_FunctionNotFound, NVMLError_GpuIsLost,
    NVMLError_NoPermission, NVMLError_Uninitialized, NVMLError_LibraryNotFound,
    NVMLError_DriverNotLoaded, NVMLError_LibRmVersionMismatch, NVMLError_Unknown,
    NVMLError_ArgumentVersionMismatch, NVMLError_NotFound, NVMLLibraryMismatchError,
)  # fmt: skip


class FakeNvml:
    """GPUs by UUID; ``broken`` maps a function's name to what it raises, for all or for one GPU.

    A MIG instance is a further UUID whose parent is the GPU at index 0.
    """

    nvmlMemory_v2 = 0x2000028
    _nvmlGetFunctionPointer = None

    def __init__(self, *uuids: str) -> None:
        self.broken: dict[str, Exception] = {}
        """Keys: a function's name, or "name@index" for one GPU."""
        self.calls: list[str] = []
        self.initialised = 0
        self.uuids = list(uuids or ("GPU-aaaa", "GPU-bbbb"))
        self.figures: dict[str, Any] = {
            "name": "NVIDIA H100 80GB HBM3", "gpu": 97, "power": 650_000, "cap": 700_000,
            "temperature": 61, "clocks": {1: 1980, 2: 2619}, "reasons": 0x1 | 0x4 | 0x40,
            "ecc": 0,
        }  # fmt: skip
        self.memory: Any = SimpleNamespace(
            total=80 * GIB, used=10 * GIB, free=69 * GIB, reserved=1 * GIB
        )
        self.processes: Any = [SimpleNamespace(pid=4711, usedGpuMemory=9 * GIB)]
        for error in ERRORS:
            setattr(self, error.__name__, error)

    def _enter(self, name: str, handle: int | None = None) -> None:
        self.calls.append(name)
        for key in (name, f"{name}@{handle}"):
            if key in self.broken:
                raise self.broken[key]

    def nvmlInit(self) -> None:
        self._enter("nvmlInit")
        self.initialised += 1

    def nvmlShutdown(self) -> None:
        self._enter("nvmlShutdown")

    def nvmlDeviceGetCount(self) -> int:
        self._enter("nvmlDeviceGetCount")
        return sum(uuid.startswith("GPU-") for uuid in self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._enter("nvmlDeviceGetHandleByIndex", index)
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        self._enter("nvmlDeviceGetHandleByUUID")
        if uuid not in self.uuids:
            raise NVMLError_NotFound("Not Found")
        return self.uuids.index(uuid)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: int) -> int:
        self._enter("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
        return 0

    def nvmlDeviceGetIndex(self, handle: int) -> int:
        self._enter("nvmlDeviceGetIndex", handle)
        return handle

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        self._enter("nvmlDeviceGetUUID", handle)
        return self.uuids[handle].encode()

    def nvmlDeviceGetName(self, handle: int) -> str | bytes:
        self._enter("nvmlDeviceGetName", handle)
        found: str | bytes = self.figures["name"]
        return found

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int | None = None) -> Any:
        name = "nvmlDeviceGetMemoryInfo"
        self._enter(f"{name}/v2" if version else name, handle)
        if version:
            return self.memory
        return SimpleNamespace(
            total=self.memory.total, used=self.memory.used, free=self.memory.free
        )

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        self._enter("nvmlDeviceGetUtilizationRates", handle)
        return SimpleNamespace(gpu=self.figures["gpu"], memory=60)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> Any:
        self._enter("nvmlDeviceGetPowerUsage", handle)
        return self.figures["power"]

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> Any:
        self._enter("nvmlDeviceGetEnforcedPowerLimit", handle)
        return self.figures["cap"]

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        self._enter("nvmlDeviceGetPciInfo", handle)
        return SimpleNamespace(busId=b"00000000:1B:00.0")

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> Any:
        self._enter("nvmlDeviceGetTemperature", handle)
        return self.figures["temperature"]

    def nvmlDeviceGetTemperatureV(self, handle: int, sensor: int) -> Any:
        self._enter("nvmlDeviceGetTemperatureV", handle)
        return self.figures["temperature"]

    def nvmlDeviceGetClockInfo(self, handle: int, clock: int) -> Any:
        self._enter("nvmlDeviceGetClockInfo", handle)
        return self.figures["clocks"][clock]

    def nvmlDeviceGetMaxClockInfo(self, handle: int, clock: int) -> int:
        self._enter("nvmlDeviceGetMaxClockInfo", handle)
        return 2619

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> Any:
        self._enter("nvmlDeviceGetCurrentClocksEventReasons", handle)
        return self.figures["reasons"]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
        self._enter("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return 0x1 | 0x2

    def nvmlDeviceGetEccMode(self, handle: int) -> list[int]:
        self._enter("nvmlDeviceGetEccMode", handle)
        return [1, 1]

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, counter: int) -> Any:
        self._enter("nvmlDeviceGetTotalEccErrors", handle)
        return self.figures["ecc"] if (kind, counter) == (1, 0) else 99

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:
        self._enter("nvmlDeviceGetMigMode", handle)
        return [0, 0]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> Any:
        self._enter("nvmlDeviceGetComputeRunningProcesses", handle)
        return self.processes

    def nvmlDeviceGetComputeRunningProcesses_v2(self, handle: int) -> Any:
        self._enter("nvmlDeviceGetComputeRunningProcesses_v2", handle)
        return self.processes


FUNCTIONS = tuple(
    name for name in (*dir(FakeNvml), "nvmlDeviceGetMemoryInfo/v2") if name.startswith("nvmlDevice")
)
"""Every function that a reading or a listing may call."""
