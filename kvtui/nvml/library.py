"""The choke point: one function through which every NVML call goes.

A call that is not supported is remembered and not asked again; a missing symbol falls back once;
a lost GPU loses its own figures and no other's. Errors become reasons in words.
"""

from collections.abc import Callable
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
        "NVIDIA driver and library differ in version: reboot, or reload the driver.",
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


def init_sentence(module: Module, error: Exception) -> str:
    """Why initialisation failed, in a sentence."""
    for name, sentence in _INIT_SENTENCES:
        known = getattr(module, name, None)
        if known is not None and isinstance(error, known):
            return sentence
    return f"NVML cannot be initialised ({error}): no GPU readings."


class Query:
    """Calls into one initialised NVML."""

    def __init__(self, module: Module) -> None:
        """Initialise NVML; raises ``NvmlUnavailableError`` with the reason when that fails."""
        self._module = module
        self._unsupported: dict[tuple[str, str], str] = {}
        self._lost: set[str] = set()
        self.missing: dict[str, str] = {}
        """Reasons of the last reading: field to sentence. Cleared by the caller."""
        self._init()

    def _init(self) -> None:
        try:
            self._module.nvmlInit()
        except Exception as error:
            if not isinstance(error, self._module.NVMLError):
                raise
            raise NvmlUnavailableError(init_sentence(self._module, error)) from None

    def close(self) -> None:
        """Shut NVML down; quiet when it already is."""
        try:
            self._module.nvmlShutdown()
        except self._module.NVMLError:
            return

    def is_lost(self, device: str) -> bool:
        """The GPU fell off the bus during this session."""
        return device in self._lost

    def call(
        self,
        field: str,
        device: str,
        name: str,
        *arguments: object,
        fallback: Callable[[], object] | None = None,
        **keywords: object,
    ) -> Any:
        """The result of NVML function ``name``, or None with the reason under ``field``.

        Args:
            field: the figure asked for; key of the reason.
            device: whose it is, to remember what this device does not support.
            name: the function in pynvml.
            arguments: passed on.
            fallback: tried when the function does not exist in this driver.
            keywords: passed on.
        """
        key = (device, f"{name}/{field}")
        if device in self._lost:
            self.missing[field] = "The GPU is lost: it fell off the bus."
            return None
        if key in self._unsupported:
            self.missing[field] = self._unsupported[key]
            return None
        module = self._module
        function = getattr(module, name, None)
        if function is None:
            return self._without(field, key, fallback, "This nvidia-ml-py has no such call.")
        for attempt in (1, 2):
            try:
                return function(*arguments, **keywords)
            except UnicodeDecodeError:
                return self._remember(field, key, "The driver's text is not UTF-8.")
            except (TypeError, AttributeError) as error:
                return self._without(field, key, fallback, f"This nvidia-ml-py cannot: {error}.")
            except module.NVMLError as error:
                if _is(module, error, "NVMLError_Uninitialized") and attempt == 1:
                    self._init()
                    continue
                return self._failed(field, key, error, fallback)
        return None

    def _failed(
        self,
        field: str,
        key: tuple[str, str],
        error: Exception,
        fallback: Callable[[], object] | None,
    ) -> Any:
        module = self._module
        if _is(module, error, "NVMLError_FunctionNotFound"):
            return self._without(field, key, fallback, "This driver is too old for it.")
        if _is(module, error, "NVMLError_NotSupported"):
            return self._without(field, key, fallback, "This device does not report it.")
        if _is(module, error, "NVMLError_GpuIsLost"):
            self._lost.add(key[0])
            self.missing[field] = "The GPU is lost: it fell off the bus."
            return None
        if _is(module, error, "NVMLError_NoPermission"):
            return self._remember(field, key, "No permission to read it.")
        self.missing[field] = f"NVML says: {error}."
        return None

    def _without(
        self,
        field: str,
        key: tuple[str, str],
        fallback: Callable[[], object] | None,
        reason: str,
    ) -> Any:
        if fallback is not None:
            return fallback()
        return self._remember(field, key, reason)

    def _remember(self, field: str, key: tuple[str, str], reason: str) -> None:
        self._unsupported[key] = self.missing[field] = reason


def text(value: object) -> str | None:
    """A driver's string, whether it came as bytes or str."""
    if value is None:
        return None
    shown = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)
    return shown.strip() or None


def _is(module: Module, error: Exception, name: str) -> bool:
    known = getattr(module, name, None)
    return known is not None and isinstance(error, known)
