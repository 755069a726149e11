"""The NVML library itself: loaded late, initialised, and a sentence for each way that can fail.

Nothing here asks about a device.
"""

from typing import Any, Final

from kvtui.errors import UnavailableError

Module = Any
"""The ``pynvml`` module, or a fake of it: it ships no types."""


class NvmlUnavailableError(UnavailableError):
    """NVML cannot be used here; the text says why and what to do."""


_INIT_SENTENCES: Final = (
    (
        "NVMLError_LibraryNotFound",
        "No NVIDIA driver library (libnvidia-ml) on this machine: no GPU readings.",
    ),
    (
        "NVMLError_DriverNotLoaded",
        "The NVIDIA driver is not loaded (nvidia-smi fails too): no GPU readings.",
    ),
    (
        "NVMLError_LibRmVersionMismatch",
        "NVIDIA driver and library: version mismatch after an update; reboot or reload the driver.",
    ),
    (
        "NVMLError_NoPermission",
        "No permission to read NVML: add this user to the group that may use the GPU.",
    ),
)


def load() -> Module:
    """The pynvml module; raises ``NvmlUnavailableError`` when it is missing or another's."""
    try:
        import pynvml
    except ImportError as error:
        raise NvmlUnavailableError(
            f"The Python module pynvml cannot be loaded ({error}): install nvidia-ml-py."
        ) from None
    if not hasattr(pynvml, "_nvmlGetFunctionPointer"):
        raise NvmlUnavailableError(
            "Another distribution called pynvml shadows NVIDIA's: uninstall pynvml and "
            "reinstall nvidia-ml-py."
        )
    return pynvml


def initialise(module: Module) -> None:
    """Initialise NVML; raises ``NvmlUnavailableError`` with the reason when that fails."""
    try:
        module.nvmlInit()
    except module.NVMLError as error:
        raise NvmlUnavailableError(_init_sentence(module, error)) from None


def is_a(module: Module, error: Exception, *names: str) -> bool:
    """``error`` is one of the classes that ``module`` has under ``names``."""
    known = tuple(found for name in names if (found := getattr(module, name, None)) is not None)
    return isinstance(error, known)


def text(value: object) -> str | None:
    """A driver's string, whether it came as bytes or str; None when it is empty."""
    if value is None:
        return None
    shown = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)
    return shown.strip("\0 \t\n") or None


def _init_sentence(module: Module, error: Exception) -> str:
    for name, sentence in _INIT_SENTENCES:
        if is_a(module, error, name):
            return sentence
    return f"NVML cannot be initialised ({error}): no GPU readings."
