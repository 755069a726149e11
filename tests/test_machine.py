"""What ``--gpu auto`` and ``--gpu host`` stand for on another machine."""

from pathlib import Path

import pytest

from kvtui import __version__
from kvtui.errors import InputError, UnavailableError
from kvtui.machine import FarMachine
from kvtui.records import (
    RECORDS_SCHEMA,
    GpuReading,
    Hello,
    HostReading,
    Notice,
    Record,
    encode,
)
from tests.client.far import FakeSsh, far_kvtui, far_python

HELLO = Hello(schema=RECORDS_SCHEMA, role="monitor", version=__version__, pid=1)
GPU = GpuReading(
    index=0, uuid="GPU-1", name="NVIDIA H200", pci_bus_id=None, total_bytes=150_754_820_096,
    used_bytes=0, free_bytes=None, reserved_bytes=None, unified=False, busy_percent=None,
    power_w=None, power_limit_w=None, temperature_c=None, sm_clock_mhz=None,
    memory_clock_mhz=None, max_memory_clock_mhz=None, throttle=None, mig=None, processes=None,
    missing={},
)  # fmt: skip
MEMORY = HostReading(
    total_bytes=2**36, available_bytes=2**35, cpu_percent=None, load_average=None,
    worker_resident_bytes=None,
)  # fmt: skip


@pytest.fixture(autouse=True)
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    return FakeSsh(tmp_path / "bin", monkeypatch)


def far(folder: Path, *records: Record) -> FarMachine:
    """A machine whose monitor says ``records``."""
    said = b"".join(encode(record) for record in (HELLO, *records)).decode()
    (folder / "said").write_text(said)
    return FarMachine(far_python(folder, f"cat {folder / 'said'}"))


def test_auto_is_the_first_gpu_there(tmp_path: Path, ssh: FakeSsh) -> None:
    """Its memory as the far NVML says, its speed from the preset; asked once for both names."""
    machine = far(tmp_path, GPU, MEMORY)
    found = machine.detect("auto")
    assert (found.name, found.memory_bytes) == ("NVIDIA H200", 150_754_820_096)
    assert found.bandwidth_bytes_per_s == 4.8e12
    host = machine.detect("host")
    assert (host.name, host.memory_bytes, host.host) == ("gpu-box", 2**35, True)
    assert len(ssh.calls.read_text().splitlines()) == 1


def test_a_machine_without_a_gpu_says_why(tmp_path: Path) -> None:
    """The far monitor's own notice is the reason; exit 3 as for this machine."""
    notice = Notice(topic="nvml", severity="warning", sentence="No NVIDIA driver library.")
    with pytest.raises(UnavailableError, match="gpu auto on gpu-box: No NVIDIA driver library"):
        far(tmp_path, notice, MEMORY).detect("auto")
    with pytest.raises(UnavailableError, match="does not tell its memory"):
        far(tmp_path, GPU).detect("host")
    with pytest.raises(InputError, match="auto or host to look at gpu-box"):
        far(tmp_path).detect("h200")


def test_another_schema_there_is_said(tmp_path: Path) -> None:
    """A monitor that cannot be read is refused with both versions."""
    foreign = Hello(schema="kvtui.records/9", role="monitor", version="9", pid=1)
    (tmp_path / "said").write_bytes(encode(foreign))
    machine = FarMachine(far_python(tmp_path, f"cat {tmp_path / 'said'}"))
    with pytest.raises(UnavailableError, match=r"speaks kvtui\.records/9, this kvtui"):
        machine.detect("auto")


def test_the_real_monitor_answers(tmp_path: Path) -> None:
    """Memory of this machine, read by its monitor through the fake ssh."""
    assert (FarMachine(far_kvtui(tmp_path)).detect("host").memory_bytes or 0) > 2**20
