"""The device and memory of a run as records."""

import torch

from kvtui import host
from kvtui.engine import memory
from kvtui.engine.run import Run
from kvtui.records import EngineDevice, EngineMemory


def engine_device(run: Run) -> EngineDevice:
    """The device ``run`` really uses, as torch and the driver name it."""
    if run.device.type != "cuda":
        return EngineDevice(
            kind="cpu",
            name=host.cpu_name(),
            uuid=None,
            pci_bus_id=None,
            total_bytes=memory.total_bytes(run.device),
            available_bytes=memory.available_bytes(run.device),
            cache_bytes=host.last_level_cache_bytes(),
            multiprocessors=host.cores(),
            torch_version=str(torch.__version__),
            threads=run.threads,
        )
    found = torch.cuda.get_device_properties(run.device)
    # Present at run time, absent from torch's stubs.
    domain, bus, slot = (
        int(getattr(found, f"pci_{part}_id")) for part in ("domain", "bus", "device")
    )
    return EngineDevice(
        kind="cuda",
        name=found.name,
        uuid=nvml_uuid(str(found.uuid)),
        pci_bus_id=f"{domain:08x}:{bus:02x}:{slot:02x}.0",
        total_bytes=memory.total_bytes(run.device),
        available_bytes=memory.available_bytes(run.device),
        cache_bytes=int(found.L2_cache_size) or None,
        multiprocessors=found.multi_processor_count,
        torch_version=str(torch.__version__),
        threads=run.threads,
    )


def nvml_uuid(uuid: str) -> str:
    """A CUDA device's UUID as NVML spells it; torch leaves the prefix out."""
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


def engine_memory(run: Run, number: int) -> EngineMemory:
    """Where the bytes of ``run`` are now."""
    found = memory.readout(run.device)
    tensors_bytes, cache_bytes = run.tensors_bytes()
    return EngineMemory(
        run=number,
        tensors_bytes=tensors_bytes,
        cache_tensor_bytes=cache_bytes,
        requested_bytes=found.requested_bytes,
        allocated_bytes=found.allocated_bytes,
        active_bytes=found.active_bytes,
        reserved_bytes=found.reserved_bytes,
        peak_allocated_bytes=found.peak_allocated_bytes,
        peak_reserved_bytes=found.peak_reserved_bytes,
        device_total_bytes=found.device_total_bytes,
        device_free_bytes=found.device_free_bytes,
        resident_bytes=found.resident_bytes,
    )
