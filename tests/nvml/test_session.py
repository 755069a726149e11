"""NVML read through the real choke point, over a faked library."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from kvtui.nvml import GpuNotFoundError, NvmlSession, NvmlUnavailableError, devices
from kvtui.records import GpuReading, decode_record, encode
from tests.nvml import fake
from tests.nvml.fake import FUNCTIONS, GIB, FakeNvml

EVERY_ERROR = [
    fake.NVMLError_NotSupported("Not Supported"),
    fake.NVMLError_NoPermission("Insufficient Permissions"),
    fake.NVMLError_Unknown("Unknown Error"),
    fake.NVMLError_FunctionNotFound("Function Not Found"),
    fake.NVMLError_GpuIsLost("GPU is lost"),
    fake.NVMLError_Uninitialized("Uninitialized"),
    fake.NVMLLibraryMismatchError("Unversioned function called"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
]


def session(module: FakeNvml) -> NvmlSession:
    return NvmlSession(module, process_name=lambda pid: f"process {pid}")


def gaps(reading: GpuReading) -> Iterator[str]:
    return (name for name in reading.__struct_fields__ if getattr(reading, name) is None)


def test_a_reading_has_every_figure() -> None:
    """A healthy GPU is read whole: memory v2, power in W, clocks, throttling in words."""
    reading = session(FakeNvml()).read("GPU-bbbb")
    assert (reading.index, reading.uuid, reading.pci_bus_id) == (1, "GPU-bbbb", "00000000:1B:00.0")
    assert (reading.total_bytes, reading.used_bytes) == (80 * GIB, 10 * GIB)
    assert (reading.free_bytes, reading.reserved_bytes) == (69 * GIB, 1 * GIB)
    assert (reading.power_w, reading.power_limit_w) == (650.0, 700.0)
    assert (reading.busy_percent, reading.temperature_c) == (97.0, 61.0)
    assert (reading.sm_clock_mhz, reading.memory_clock_mhz) == (1980, 2619)
    assert reading.throttle == ["power cap", "hardware thermal limit"]
    assert reading.mig is False
    assert reading.unified is False
    assert reading.missing == {}
    assert reading.processes is not None
    assert (reading.processes[0].used_bytes, reading.processes[0].name) == (9 * GIB, "process 4711")


@pytest.mark.parametrize("bits", [0x0, 0x1, 0x2, 0x1 | 0x2 | 0x10 | 0x100])
def test_idle_and_application_clocks_are_no_throttling(bits: int) -> None:
    """Idle, application, sync-boost and display clocks are information, not throttling."""
    module = FakeNvml()
    module.figures["reasons"] = bits
    assert session(module).read().throttle == []


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_any_call_may_fail(function: str, error: Exception) -> None:
    """Whichever call fails, and however: readings come, gaps have reasons, the wire takes them."""
    module = FakeNvml()
    module.broken[function] = error
    one = session(module)
    for _ in range(3):
        reading = one.read("GPU-aaaa")
        assert set(gaps(reading)) <= set(reading.missing)
        assert all(reason.endswith(".") for reason in reading.missing.values())
        assert decode_record(encode(reading)) == reading


@pytest.mark.parametrize("error", EVERY_ERROR[:5], ids=lambda error: type(error).__name__)
def test_everything_may_fail_at_once(error: Exception) -> None:
    """A device whose every figure fails still gives a reading, and each gap has its reason."""
    module = FakeNvml()
    kept = ("HandleByIndex", "HandleByUUID", "Count")
    module.broken = {name: error for name in FUNCTIONS if not name.endswith(kept)}
    one = session(module)
    for reading in (one.read(), one.read("GPU-aaaa"), *one.read_all()):
        assert set(gaps(reading)) <= set(reading.missing)
        assert reading.busy_percent is None
        assert reading.processes is None


def test_what_is_not_supported_is_asked_once() -> None:
    """A call that is not supported is remembered and not repeated."""
    module = FakeNvml()
    module.broken["nvmlDeviceGetPowerUsage"] = fake.NVMLError_NotSupported()
    one = session(module)
    for _ in range(3):
        assert one.read("GPU-aaaa").missing["power_w"] == "This device does not report it."
    assert module.calls.count("nvmlDeviceGetPowerUsage") == 1


def test_one_devices_gaps_are_not_anothers() -> None:
    """What one GPU does not support is still asked of the other."""
    module = FakeNvml()
    module.broken["nvmlDeviceGetPowerUsage@0"] = fake.NVMLError_NotSupported()
    first, second = session(module).read_all()
    assert (first.power_w, second.power_w) == (None, 650.0)


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("nvmlDeviceGetMemoryInfo/v2", "nvmlDeviceGetMemoryInfo"),
        (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
        ),
        (
            "nvmlDeviceGetComputeRunningProcesses",
            "nvmlDeviceGetComputeRunningProcesses_v2",
        ),
        ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"),
    ],
)
@pytest.mark.parametrize(
    "error",
    [
        fake.NVMLError_FunctionNotFound(),
        fake.NVMLError_ArgumentVersionMismatch(),
        fake.NVMLLibraryMismatchError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_other_form_of_a_call_is_found_once(newer: str, older: str, error: Exception) -> None:
    """A driver without one form of a call is asked for it once, and in the other form for good."""
    module = FakeNvml()
    module.broken[newer] = error
    one = session(module)
    for _ in range(3):
        reading = one.read("GPU-aaaa")
        assert set(reading.missing) <= {"reserved_bytes"}
    assert (module.calls.count(newer), module.calls.count(older)) == (1, 3)


def test_an_older_driver_reads_memory_v1() -> None:
    """Without memory v2 the older form is read, and what it cannot tell has a reason."""
    module = FakeNvml()
    module.broken["nvmlDeviceGetMemoryInfo/v2"] = fake.NVMLError_FunctionNotFound()
    reading = session(module).read("GPU-aaaa")
    assert (reading.used_bytes, reading.free_bytes) == (10 * GIB, 69 * GIB)
    assert reading.reserved_bytes is None
    assert "reserved_bytes" in reading.missing


@pytest.mark.parametrize(
    "error",
    [
        fake.NVMLError_Unknown("Unknown Error"),
        fake.NVMLError_NoPermission(),
        fake.NVMLError_FunctionNotFound(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_unreadable_memory_is_not_unified(error: Exception) -> None:
    """Only "not supported" or a total of zero means unified; any other failure is unknown."""
    module = FakeNvml()
    for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo/v2"):
        module.broken[name] = error
    reading = session(module).read("GPU-aaaa")
    assert reading.unified is False
    assert (reading.total_bytes, reading.used_bytes, reading.free_bytes) == (None, None, None)
    assert {"total_bytes", "used_bytes", "free_bytes"} <= set(reading.missing)


def test_a_lost_gpu_is_shown_as_lost_and_takes_no_other_with_it() -> None:
    """A GPU that fell off the bus keeps its row, is asked nothing more; the other reads on."""
    module = FakeNvml()
    module.broken["nvmlDeviceGetUtilizationRates@0"] = fake.NVMLError_GpuIsLost()
    one = session(module)
    first = one.read()
    assert "lost" in first.missing["busy_percent"]
    assert first.power_w is None
    assert one.is_lost(first.uuid)
    module.calls.clear()
    again = one.read()
    assert (again.uuid, again.index) == ("GPU-aaaa", 0)
    assert set(gaps(again)) <= set(again.missing)
    assert not [name for name in module.calls if name not in ("nvmlDeviceGetCount",)]
    assert one.read("GPU-bbbb").busy_percent == 97.0


def test_a_driver_that_forgot_is_initialised_again_with_new_handles() -> None:
    """Uninitialized in a reading initialises once, and every handle is fetched anew."""
    module = FakeNvml()
    one = session(module)
    one.read("GPU-aaaa")
    module.broken["nvmlDeviceGetPowerUsage"] = fake.NVMLError_Uninitialized("Uninitialized")
    reading = one.read("GPU-aaaa")
    assert module.initialised == 2
    assert module.calls.count("nvmlDeviceGetHandleByUUID") == 2
    assert reading.missing == {"power_w": "NVML says: Uninitialized."}
    del module.broken["nvmlDeviceGetPowerUsage"]
    assert one.read("GPU-aaaa").missing == {}


def test_a_driver_that_went_away_is_unavailable() -> None:
    """Uninitialized, and no initialisation any more: the sentence of the cause, no crash."""
    module = FakeNvml()
    one = session(module)
    module.broken["nvmlDeviceGetPowerUsage"] = fake.NVMLError_Uninitialized()
    module.broken["nvmlInit"] = fake.NVMLError_DriverNotLoaded()
    with pytest.raises(NvmlUnavailableError, match="not loaded"):
        one.read()


def test_a_mig_instance_has_its_own_memory_and_its_gpus_clocks() -> None:
    """A bare UUID finds the instance; utilisation is a gap; clocks are asked of the whole GPU."""
    module = FakeNvml("GPU-aaaa", "GPU-bbbb", "MIG-dddd")
    for name in ("MigMode", "UtilizationRates", "PowerUsage", "ClockInfo", "Index"):
        module.broken[f"nvmlDeviceGet{name}@2"] = fake.NVMLError_NotSupported()
    for spelled in ("dddd", "GPU-dddd", "MIG-dddd"):
        reading = session(module).read(spelled)
        assert (reading.uuid, reading.index, reading.mig) == ("MIG-dddd", 0, True)
        assert reading.busy_percent is None
        assert (reading.power_w, reading.sm_clock_mhz) == (650.0, 1980)
        assert reading.total_bytes == 80 * GIB


def test_a_mig_instance_is_never_unified() -> None:
    """Memory that an instance does not report is unknown; the machine's would be wrong."""
    module = FakeNvml("GPU-aaaa", "MIG-dddd")
    for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo/v2"):
        module.broken[name] = fake.NVMLError_NotSupported()
    reading = session(module).read("MIG-dddd")
    assert (reading.unified, reading.total_bytes) == (False, None)


@pytest.mark.parametrize(
    "spelled", ["GPU-bbbb", "bbbb", "gpu-bbbb", "GPU-BBBB", " BBBB ", "MIG-bbbb"]
)
def test_devices_are_found_by_uuid(spelled: str) -> None:
    """CUDA's bare UUID and any case find the device, whatever its index."""
    assert session(FakeNvml()).read(spelled).index == 1


def test_devices_are_found_without_a_look_up_by_uuid() -> None:
    """A driver that has no look-up by UUID is searched by index."""
    module = FakeNvml()
    module.broken["nvmlDeviceGetHandleByUUID"] = fake.NVMLError_FunctionNotFound()
    assert session(module).read("bbbb").index == 1


def test_an_unknown_device_is_named_beside_those_there_are() -> None:
    """The sentence names what was asked for and what NVML lists, with what keeps one away."""
    module = FakeNvml()
    module.broken["nvmlDeviceGetHandleByIndex@1"] = fake.NVMLError_NoPermission()
    with pytest.raises(GpuNotFoundError) as caught:
        session(module).read("GPU-cccc")
    assert str(caught.value) == (
        "NVML lists no device called GPU-cccc; it lists GPU-aaaa, #1 (No permission to read it)."
    )


def test_no_device_at_all_has_its_sentence() -> None:
    """A loaded driver that sees no GPU is told apart from a missing one."""
    module = FakeNvml()
    module.uuids = []
    with pytest.raises(GpuNotFoundError, match="sees none"):
        session(module).read()
    assert session(module).read_all() == []
    assert devices(module) == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (fake.NVMLError_LibraryNotFound(), "No NVIDIA driver library"),
        (fake.NVMLError_DriverNotLoaded(), "not loaded"),
        (fake.NVMLError_LibRmVersionMismatch(), "driver.*version mismatch"),
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
        session(module)


@pytest.mark.parametrize(
    ("there", "words"), [(None, "install nvidia-ml-py"), (SimpleNamespace(), "shadows NVIDIA's")]
)
def test_a_missing_or_foreign_binding_has_its_sentence(
    monkeypatch: pytest.MonkeyPatch, there: object, words: str
) -> None:
    """No pynvml, and a pynvml that is not NVIDIA's, each say what to install."""
    monkeypatch.setitem(__import__("sys").modules, "pynvml", there)
    with pytest.raises(NvmlUnavailableError, match=words):
        NvmlSession()


def test_closing_twice_is_quiet() -> None:
    """A library that was shut down already is no error."""
    module = FakeNvml()
    one = session(module)
    module.broken["nvmlShutdown"] = fake.NVMLError_Uninitialized()
    one.close()


def test_listing_names_every_usable_device() -> None:
    """The list for --gpu auto has index, UUID, name and memory; a lost GPU is not offered."""
    module = FakeNvml()
    assert [(one.index, one.uuid, one.total_bytes) for one in devices(module)] == [
        (0, "GPU-aaaa", 80 * GIB),
        (1, "GPU-bbbb", 80 * GIB),
    ]
    module.broken["nvmlDeviceGetHandleByIndex@0"] = fake.NVMLError_GpuIsLost()
    assert [one.index for one in devices(module)] == [1]
    assert module.calls[-1] == "nvmlShutdown"


@pytest.mark.parametrize(("counted", "shown"), [(0, 0), (3, 3), (2**64 - 1, None)])
def test_uncorrected_errors_are_counted_or_unknown(counted: int, shown: int | None) -> None:
    """ECC is on with its count of uncorrected errors; NVML's sentinel is no count."""
    module = FakeNvml("GPU-aaaa")
    module.figures["ecc"] = counted
    reading = NvmlSession(module).read()
    assert (reading.ecc, reading.ecc_uncorrected) == (True, shown)
    module.broken["nvmlDeviceGetEccMode"] = fake.NVMLError_NotSupported()
    assert NvmlSession(module).read().ecc is None
