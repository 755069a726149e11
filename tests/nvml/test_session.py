"""NVML read through the real choke point, over a faked library."""

from types import SimpleNamespace

import pytest

from kvtui import host
from kvtui.nvml import NvmlSession, NvmlUnavailableError, devices
from tests.nvml import fake
from tests.nvml.fake import GIB, READERS, FakeNvml


def test_a_reading_has_every_figure() -> None:
    """A healthy GPU is read whole: memory v2, power in W, clocks, throttling in words."""
    reading = NvmlSession(FakeNvml()).read("GPU-bbbb")
    assert reading is not None
    assert (reading.index, reading.uuid, reading.pci_bus_id) == (1, "GPU-bbbb", "00000000:1B:00.0")
    assert (reading.total_bytes, reading.used_bytes) == (80 * GIB, 10 * GIB)
    assert (reading.free_bytes, reading.reserved_bytes) == (69 * GIB, 1 * GIB)
    assert (reading.power_w, reading.power_limit_w) == (650.0, 700.0)
    assert (reading.busy_percent, reading.temperature_c) == (97.0, 61.0)
    assert reading.throttle == ["power cap", "hardware thermal limit"]
    assert reading.mig is False
    assert reading.unified is False
    assert reading.missing == {}
    assert reading.processes is not None
    assert reading.processes[0].used_bytes == 9 * GIB


def test_idle_clocks_are_no_throttling() -> None:
    """Idle and application clocks are information; nothing is called throttled."""
    module = FakeNvml()
    module.broken["nvmlDeviceGetCurrentClocksEventReasons"] = fake.NVMLError_FunctionNotFound()
    reading = NvmlSession(module).read()
    assert reading is not None
    assert reading.throttle == []


@pytest.mark.parametrize(
    "error",
    [
        fake.NVMLError_NotSupported("Not Supported"),
        fake.NVMLError_NoPermission("Insufficient Permissions"),
        fake.NVMLError_Unknown("Unknown Error"),
        fake.NVMLError_FunctionNotFound("Function Not Found"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("function", READERS)
def test_any_call_may_fail(function: str, error: Exception) -> None:
    """Whichever single call fails, the reading comes, and what is missing has its reason."""
    module = FakeNvml()
    module.broken[function] = error
    if function == "nvmlDeviceGetMemoryInfo":
        module.broken[f"{function}/v2"] = error
    session = NvmlSession(module)
    for _ in range(2):
        reading = session.read("GPU-aaaa")
        assert reading is not None
        replaced = function in (
            "nvmlDeviceGetUUID", "nvmlDeviceGetIndex", "nvmlDeviceGetCurrentClocksThrottleReasons",
        ) or (
            function == "nvmlDeviceGetCurrentClocksEventReasons"
            and isinstance(error, fake.NVMLError_NotSupported | fake.NVMLError_FunctionNotFound)
        )  # fmt: skip
        assert replaced or reading.missing
        assert all(reason.endswith(".") for reason in reading.missing.values())


def test_what_is_not_supported_is_asked_once() -> None:
    """A call that is not supported is remembered and not repeated."""
    module = FakeNvml()
    module.broken["nvmlDeviceGetPowerUsage"] = fake.NVMLError_NotSupported()
    session = NvmlSession(module)
    for _ in range(3):
        reading = session.read("GPU-aaaa")
        assert reading is not None
        assert reading.missing["power_w"] == "This device does not report it."
    assert module.calls.count("nvmlDeviceGetPowerUsage") == 1


def test_a_lost_gpu_takes_no_other_with_it() -> None:
    """A GPU that fell off the bus is named as lost; the other one reads on."""
    module = FakeNvml()
    module.broken["nvmlDeviceGetUtilizationRates"] = fake.NVMLError_GpuIsLost()
    session = NvmlSession(module)
    lost = session.read("GPU-aaaa")
    assert lost is not None
    assert "lost" in lost.missing["busy_percent"]
    assert lost.power_w is None
    del module.broken["nvmlDeviceGetUtilizationRates"]
    other = session.read("GPU-bbbb")
    assert other is not None
    assert other.busy_percent == 97.0


def test_an_older_driver_reads_memory_v1() -> None:
    """Without memory v2 the older form is read, and what it cannot tell has a reason."""
    module = FakeNvml()
    module.broken["nvmlDeviceGetMemoryInfo/v2"] = fake.NVMLError_FunctionNotFound()
    reading = NvmlSession(module).read("GPU-aaaa")
    assert reading is not None
    assert reading.used_bytes == 10 * GIB
    assert reading.reserved_bytes is None
    assert "reserved_bytes" in reading.missing


@pytest.mark.parametrize("how", ["not supported", "zero"])
def test_unified_memory_is_the_machines(how: str) -> None:
    """A GPU without memory of its own shows the host's figures, labelled unified."""
    module = FakeNvml()
    if how == "zero":
        module.memory = SimpleNamespace(total=0, used=0, free=0, reserved=0)
    else:
        for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo/v2"):
            module.broken[name] = fake.NVMLError_NotSupported()
    reading = NvmlSession(module).read("GPU-aaaa")
    assert reading is not None
    assert reading.unified
    assert reading.total_bytes == host.memory().total_bytes


@pytest.mark.parametrize("value", [None, 2**64 - 1])
def test_sentinels_are_unknown(value: int | None) -> None:
    """A process whose memory the driver does not tell is unknown, never 16 EiB."""
    module = FakeNvml()
    module.processes = [SimpleNamespace(pid=1, usedGpuMemory=value)]
    reading = NvmlSession(module).read("GPU-aaaa")
    assert reading is not None
    assert reading.processes is not None
    assert reading.processes[0].used_bytes is None


@pytest.mark.parametrize("spelled", ["GPU-bbbb", "bbbb", "gpu-bbbb"])
def test_devices_are_found_by_uuid(spelled: str) -> None:
    """CUDA's bare UUID and any case of the prefix find the device, whatever its index."""
    reading = NvmlSession(FakeNvml()).read(spelled)
    assert reading is not None
    assert reading.index == 1
    assert NvmlSession(FakeNvml()).read("GPU-cccc") is None


def test_a_mig_instance_is_called_partial() -> None:
    """A MIG handle reads its own memory and is known as MIG even where the mode is not told."""
    module = FakeNvml()
    module.uuids.append("MIG-dddd")
    module.broken["nvmlDeviceGetMigMode"] = fake.NVMLError_NotSupported()
    module.broken["nvmlDeviceGetUtilizationRates"] = fake.NVMLError_NotSupported()
    reading = NvmlSession(module).read("dddd")
    assert reading is not None
    assert reading.mig is True
    assert reading.busy_percent is None


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (fake.NVMLError_LibraryNotFound(), "No NVIDIA driver library"),
        (fake.NVMLError_DriverNotLoaded(), "not loaded"),
        (fake.NVMLError_LibRmVersionMismatch(), "differ in version"),
        (fake.NVMLError_NoPermission(), "No permission"),
        (fake.NVMLError_Unknown("Unknown Error"), "Unknown Error"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_each_failure_to_start_has_its_sentence(error: Exception, words: str) -> None:
    """Library, driver, version and permission are told apart."""
    module = FakeNvml()
    module.broken["nvmlInit"] = error
    with pytest.raises(NvmlUnavailableError, match=words):
        NvmlSession(module)


def test_a_driver_that_forgot_is_initialised_again() -> None:
    """Uninitialized in the middle of a session initialises once more and reads on."""
    module = FakeNvml()
    session = NvmlSession(module)
    module.broken["nvmlDeviceGetPowerUsage"] = fake.NVMLError_Uninitialized()
    reading = session.read("GPU-aaaa")
    assert reading is not None
    assert module.initialised == 2
    assert "power_w" in reading.missing


def test_listing_names_every_device() -> None:
    """The list for --gpu auto has index, UUID, name and memory of each GPU."""
    found = devices(FakeNvml())
    assert [(one.index, one.uuid, one.total_bytes) for one in found] == [
        (0, "GPU-aaaa", 80 * GIB),
        (1, "GPU-bbbb", 80 * GIB),
    ]
