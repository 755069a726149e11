"""What the bench runs on, and what NVML says of the GPU beside it."""

import platform
from importlib.metadata import PackageNotFoundError, version

import torch

from kvtui import __version__, host
from kvtui.bench.results import Machine, Versions
from kvtui.engine import memory
from kvtui.nvml import GpuNotFoundError, NvmlSession, NvmlUnavailableError
from kvtui.records import GpuReading
from kvtui.sources import presets
from kvtui.worker.readouts import nvml_uuid


def machine(device: torch.device, threads: int) -> Machine:
    """The device, the host around it, and the tabled peak where the board is known."""
    on_cuda = device.type == "cuda"
    properties = torch.cuda.get_device_properties(device) if on_cuda else None
    total = memory.total_bytes(device)
    board = presets.device_by_nvml_name(properties.name, total) if properties else None
    return Machine(
        device=properties.name if properties else host.cpu_name(),
        kind=device.type,
        cpu=host.cpu_name(),
        cores=host.cores(),
        threads=threads,
        memory_bytes=total,
        cache_bytes=int(properties.L2_cache_size) if properties else host.last_level_cache_bytes(),
        multiprocessors=int(properties.multi_processor_count) if properties else None,
        load_average=host.load_average(),
        peak_bytes_per_s=board.bandwidth_bytes_per_s if board else None,
        peak_flop_per_s=board.flop_per_s if board else None,
        peak_source=board.source if board else None,
    )


def versions() -> Versions:
    """Those a figure depends on."""
    return Versions(
        kvtui=__version__,
        torch=str(torch.__version__),
        python=platform.python_version(),
        cuda=torch.version.cuda,
        numba=_version("numba"),
    )


class Watch:
    """NVML readings of the bench's own GPU; nothing on a CPU or where NVML is not there."""

    def __init__(self, device: torch.device) -> None:
        """Open NVML for a GPU; ``why`` says why there is none."""
        self._session: NvmlSession | None = None
        self._uuid: str | None = None
        self.why = ""
        if device.type != "cuda":
            return
        try:
            self._session = NvmlSession()
        except NvmlUnavailableError as error:
            self.why = str(error)
            return
        self._uuid = nvml_uuid(str(torch.cuda.get_device_properties(device).uuid))

    def reading(self) -> GpuReading | None:
        """One reading now; None where none can be had, which the bench survives."""
        if self._session is None:
            return None
        try:
            return self._session.read(self._uuid)
        except (GpuNotFoundError, NvmlUnavailableError) as error:
            self.why = str(error)
            return None

    def close(self) -> None:
        """Shut NVML down."""
        if self._session is not None:
            self._session.close()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
