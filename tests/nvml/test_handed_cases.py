"""Real NVML trouble as users reported it: each stub is read; what must be right is the case's.

Cases of the same kind that are not about reading NVML are listed by id.
"""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvtui.host import HostMemory
from kvtui.nvml import NvmlSession, NvmlUnavailableError
from kvtui.records import GpuReading, decode_record, encode
from kvtui.units import MIB
from tests.nvml import fake
from tests.nvml.fake import FakeNvml

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in json.loads((Path(__file__).parents[1] / "data" / "handed.json").read_text())
    if case["kind"] == "telemetry"
}
ELSEWHERE = {
    "TL-23": "the allocator's cache", "TL-24": "an out-of-memory message",
    "TL-27": "an out-of-memory message",
}  # fmt: skip
HERE = {
    "TL-01", "TL-03", "TL-04", "TL-05", "TL-06", "TL-08", "TL-11", "TL-13", "TL-16", "TL-17",
    "TL-20",
}  # fmt: skip
UNSUPPORTED = fake.NVMLError_NotSupported("Not Supported")


def stub(case: str) -> Any:
    return CASES[case]["input"]["nvml_stub"]


def memory(**given: int) -> SimpleNamespace:
    return SimpleNamespace(**{"reserved": 0, **given})


def reading(module: FakeNvml, uuid: str | None = None) -> GpuReading:
    found = NvmlSession(module, process_name=lambda _: None).read(uuid)
    assert decode_record(encode(found)) == found
    return found


def test_every_case_has_its_place() -> None:
    """A case of this kind is tested here, or is listed as another part's."""
    assert set(CASES) == HERE | set(ELSEWHERE)


def test_the_marker_for_not_available_is_not_16_eib() -> None:
    """TL-01: None and all ones are both unknown, and the device's share is right."""
    device = stub("TL-01")["devices"][0]
    module = FakeNvml()
    module.memory = memory(**device["memory"])
    module.processes = [SimpleNamespace(**row) for row in device["processes"]]
    found = reading(module)
    assert found.processes is not None
    assert [(one.pid, one.used_bytes) for one in found.processes] == [(79, None), (80, None)]
    assert found.used_bytes is not None
    assert found.total_bytes is not None
    share = 100 * found.used_bytes / found.total_bytes
    assert share == pytest.approx(CASES["TL-01"]["right"]["device_used_percent"], abs=0.1)


def test_unknown_is_null_and_idle_is_zero() -> None:
    """TL-03: utilisation that is not supported is null; a measured 0 is 0."""
    module = FakeNvml("GPU-aaaa", "GPU-bbbb")
    module.broken["nvmlDeviceGetUtilizationRates@0"] = UNSUPPORTED
    module.figures["gpu"] = stub("TL-03")["samples"][-1]["util"]
    session = NvmlSession(module)
    found = [session.read(uuid).busy_percent for uuid in ("aaaa", "aaaa", "bbbb")]
    assert found == CASES["TL-03"]["right"]["json"]


def test_one_unsupported_call_stops_nothing() -> None:
    """TL-04: memory is read where utilisation, power and processes are not supported."""
    module = FakeNvml()
    module.memory = memory(**stub("TL-04")["devices"][0]["memory"])
    for name in ("UtilizationRates", "PowerUsage", "ComputeRunningProcesses"):
        module.broken[f"nvmlDeviceGet{name}"] = UNSUPPORTED
    module.broken["nvmlDeviceGetComputeRunningProcesses_v2"] = UNSUPPORTED
    found = reading(module)
    assert found.used_bytes is not None
    right = CASES["TL-04"]["right"]["used_mib"]
    assert found.used_bytes / MIB == pytest.approx(right, abs=0.01)
    assert (found.busy_percent, found.power_w, found.processes) == (None, None, None)
    assert {"busy_percent", "power_w", "processes"} <= set(found.missing)


def test_one_lost_gpu_hides_no_other() -> None:
    """TL-05: three rows in ten looks, the lost one named, its handle asked for at most twice."""
    module = FakeNvml("GPU-aaaa", "GPU-bbbb", "GPU-cccc")
    module.broken["nvmlDeviceGetHandleByIndex@1"] = fake.NVMLError_GpuIsLost("GPU is lost")
    session = NvmlSession(module)
    for _ in range(stub("TL-05")["ticks"]):
        rows = session.read_all()
        assert [one.busy_percent for one in rows] == [97, None, 97]
        assert "lost" in rows[1].missing["used_bytes"]
        assert session.is_lost(rows[1].uuid)
    asked = module.calls.count("nvmlDeviceGetHandleByIndex") - 2
    assert asked <= CASES["TL-05"]["right"]["handle_calls_for_index_1_max"]


def test_a_version_mismatch_is_said() -> None:
    """TL-06: the sentence has the words that lead to the cure."""
    module = FakeNvml()
    module.broken["nvmlInit"] = fake.NVMLError_LibRmVersionMismatch("Driver/library mismatch")
    with pytest.raises(NvmlUnavailableError) as caught:
        NvmlSession(module)
    assert all(word in str(caught.value) for word in CASES["TL-06"]["right"]["stderr_mentions"])


@pytest.mark.parametrize("how", ["not supported", "zeros"])
def test_a_gpu_without_memory_of_its_own_shows_the_machines(how: str) -> None:
    """TL-08: total and used of the machine, labelled unified, power still the GPU's."""
    given, right = CASES["TL-08"]["input"], CASES["TL-08"]["right"]
    module = FakeNvml()
    module.figures["power"] = stub("TL-08")["devices"][0]["power_mw"]
    if how == "zeros":
        module.memory = memory(total=0, used=0, free=0)
    else:
        for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo/v2"):
            module.broken[name] = UNSUPPORTED
    system = {name: kib * 1024 for name, kib in given["system"].items()}
    machine = HostMemory(system["MemTotal_kB"], system["MemAvailable_kB"])
    found = NvmlSession(module, machine=lambda: machine).read()
    assert found.unified
    assert found.total_bytes is not None
    assert found.used_bytes is not None
    assert found.total_bytes / 2**30 == pytest.approx(right["total_gib"], abs=0.01)
    assert found.used_bytes / 2**30 == pytest.approx(right["used_gib"], abs=0.01)
    assert found.power_w == pytest.approx(right["power_w"])


def test_free_is_as_reported() -> None:
    """TL-11: free is not total minus used; the driver's part stands apart."""
    device = stub("TL-11")["devices"][0]
    module = FakeNvml()
    module.memory = memory(
        **{name.removesuffix("_mib"): size * MIB for name, size in device.items()}
    )
    found = reading(module)
    assert found.free_bytes == CASES["TL-11"]["right"]["free_mib"] * MIB
    assert found.reserved_bytes == device["reserved_mib"] * MIB


def test_a_device_is_matched_by_uuid_and_not_by_index() -> None:
    """TL-13: torch's device 0 is NVML's index 1 here."""
    given = CASES["TL-13"]["input"]
    module = FakeNvml(*(one["uuid"] for one in given["nvml_order"]))
    live = given["torch_order"][given["live_device"]]["uuid"]
    for spelled in (live, live.removeprefix("GPU-")):
        found = reading(module, spelled)
        assert found.index == CASES["TL-13"]["right"]["nvml_index_for_live_device"]


def test_bytes_and_str_are_one_name() -> None:
    """TL-16: an old binding's bytes and a new one's str give the same text on the wire."""
    for variant in stub("TL-16")["variants"]:
        module = FakeNvml()
        value = variant["value"]
        module.figures["name"] = value.encode() if variant["name_type"] == "bytes" else value
        assert reading(module).name == CASES["TL-16"]["right"]["name_both"]


def test_a_process_of_another_namespace_keeps_its_pid_and_memory() -> None:
    """TL-17: the row stays, its name is unknown with a reason."""
    row = stub("TL-17")["devices"][0]["processes"][0]
    module = FakeNvml()
    used = row["usedGpuMemory_mib"] * MIB
    module.processes = [SimpleNamespace(pid=row["pid"], usedGpuMemory=used)]
    found = reading(module)
    assert found.processes is not None
    (one,) = found.processes
    assert (one.pid, one.used_bytes, one.name) == (row["pid"], used, None)
    assert "namespace" in found.missing["processes.name"]


def test_values_that_are_not_there_are_gaps() -> None:
    """TL-20: null power, limit and clocks are gaps with reasons; the rest is read."""
    device = stub("TL-20")["devices"][0]
    module = FakeNvml()
    module.figures |= {
        "power": device["power_mw"], "cap": device["power_limit_mw"], "gpu": None,
        "temperature": device["temperature"], "clocks": {1: device["sm_clock"], 2: None},
        "reasons": None,
    }  # fmt: skip
    module.memory = memory(
        **{name.removesuffix("_mib"): size * MIB for name, size in device["memory"].items()}
    )
    found = reading(module)
    assert (found.power_w, found.power_limit_w, found.sm_clock_mhz) == (None, None, None)
    assert found.throttle is None
    assert found.temperature_c == CASES["TL-20"]["right"]["temperature"]
    assert found.used_bytes == 4 * MIB
    assert {"power_w", "power_limit_w", "sm_clock_mhz", "throttle"} <= set(found.missing)
