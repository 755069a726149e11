"""NVML, read in one place: every call through one query, every gap a value with its reason.

``pynvml`` (from nvidia-ml-py) is imported when a session starts, never when this package is.
"""

from kvtui.nvml.devices import GpuNotFoundError
from kvtui.nvml.library import NvmlUnavailableError
from kvtui.nvml.listing import GpuName, devices
from kvtui.nvml.session import NvmlSession

__all__ = ["GpuName", "GpuNotFoundError", "NvmlSession", "NvmlUnavailableError", "devices"]
