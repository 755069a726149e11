"""The choke point: one function through which every NVML call goes.

A call that this device or driver does not have is remembered and not asked again, and the next way
of asking is used from then on; a lost GPU loses its own figures and no other's; a library that
forgot its initialisation is initialised again once. Errors become reasons in words.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from kvtui.nvml.library import Module, initialise, is_a

_NOT_AVAILABLE: Final = (2**64 - 1, 2**32 - 1)
"""NVML_VALUE_NOT_AVAILABLE in its two widths (nvml.h)."""
LOST: Final = "The GPU is lost: it fell off the bus."


class Trouble(Enum):
    """Why a figure is missing, as far as the program must tell it apart."""

    ABSENT = "This driver or nvidia-ml-py has no such call."
    UNSUPPORTED = "This device does not report it."
    DENIED = "No permission to read it."
    GARBLED = "The driver's text is not UTF-8."
    LOST = LOST
    OTHER = "NVML gave an error."
    EMPTY = "NVML gave no value."


_FOREVER: Final = (Trouble.ABSENT, Trouble.UNSUPPORTED, Trouble.DENIED, Trouble.GARBLED)
_CLASSES: Final = (
    # The last is no NVMLError: the binding raises it for an unversioned call on an older driver.
    (
        Trouble.ABSENT,
        (
            "NVMLError_FunctionNotFound",
            "NVMLError_ArgumentVersionMismatch",
            "NVMLLibraryMismatchError",
        ),
    ),
    (Trouble.UNSUPPORTED, ("NVMLError_NotSupported",)),
    (Trouble.DENIED, ("NVMLError_NoPermission",)),
    (Trouble.LOST, ("NVMLError_GpuIsLost",)),
)


def known(value: int | None) -> int | None:
    """``value``, or None where it is NVML's "not available"."""
    return None if value is None or value in _NOT_AVAILABLE else int(value)


class NvmlRestartedError(Exception):
    """NVML was initialised again in the middle of a reading: old handles lead nowhere."""


class Way:
    """One way of asking: a function of pynvml with its arguments."""

    __slots__ = ("arguments", "keywords", "name")

    def __init__(self, name: str, *arguments: object, **keywords: object) -> None:
        """Call ``name`` with the rest."""
        self.name, self.arguments, self.keywords = name, arguments, keywords


class Query:
    """Calls into one initialised NVML."""

    def __init__(self, module: Module) -> None:
        """Initialise NVML; raises ``NvmlUnavailableError`` with the reason when that fails."""
        self.module = module
        self.missing: dict[str, str] = {}
        """Reasons of the present reading: field to sentence."""
        self._given_up: dict[tuple[str, str, int], Trouble] = {}
        self._lost: set[str] = set()
        self._trouble: dict[tuple[str, str], Trouble] = {}
        self._may_restart = True
        mismatch = getattr(module, "NVMLLibraryMismatchError", None)
        self._errors: tuple[type[Exception], ...] = (
            *(UnicodeDecodeError, TypeError, AttributeError, module.NVMLError),
            *(() if mismatch is None else (mismatch,)),
        )
        initialise(module)

    def begin(self, *, restarted: bool = False) -> None:
        """A new reading: reasons start anew, and so does the right to one restart."""
        self.missing = {}
        self._trouble = {}
        self._may_restart = not restarted

    def close(self) -> None:
        """Shut NVML down; quiet when it already is."""
        try:
            self.module.nvmlShutdown()
        except self.module.NVMLError:
            return

    def is_lost(self, device: str) -> bool:
        """The GPU fell off the bus during this session."""
        return device in self._lost

    def trouble(self, field: str, device: str) -> Trouble | None:
        """What kept ``field`` away in the present reading; None when it came."""
        return self._trouble.get((field, device))

    def call(
        self, field: str, device: str, *ways: Way, pick: Callable[[Any], Any] | None = None
    ) -> Any:
        """The first value that one of ``ways`` gives, or None with the reason under ``field``.

        Args:
            field: the figure asked for; key of the reason.
            device: whose it is, to remember what this device does not have.
            ways: tried in order; a later one only where an earlier is not to be had at all.
            pick: takes the value out of the structure; NVML's "not available" becomes None.

        Raises:
            NvmlRestartedError: at most once a reading; ask again with new handles.
            NvmlUnavailableError: NVML went away and does not initialise again.
        """
        trouble, reason = Trouble.LOST, LOST
        for number, way in enumerate(ways):
            if device in self._lost:
                break
            known = self._given_up.get((device, field, number))
            if known is not None:
                trouble, reason = known, known.value
                continue
            try:
                found = getattr(self.module, way.name)(*way.arguments, **way.keywords)
                value = found if pick is None else pick(found)
            except self._errors as error:
                trouble, reason = self._judge(error)
                if trouble is Trouble.LOST:
                    self._lost.add(device)
                if trouble not in _FOREVER:
                    break
                self._given_up[device, field, number] = trouble
                continue
            if value is not None and value not in _NOT_AVAILABLE:
                return value
            trouble, reason = Trouble.EMPTY, Trouble.EMPTY.value
            break
        self._trouble[field, device] = trouble
        self.missing[field] = reason
        return None

    def _judge(self, error: Exception) -> tuple[Trouble, str]:
        """What ``error`` means, and its sentence."""
        if isinstance(error, UnicodeDecodeError):
            return Trouble.GARBLED, Trouble.GARBLED.value
        if isinstance(error, TypeError | AttributeError):
            return Trouble.ABSENT, Trouble.ABSENT.value
        for trouble, names in _CLASSES:
            if is_a(self.module, error, *names):
                return trouble, trouble.value
        if self._may_restart and is_a(self.module, error, "NVMLError_Uninitialized"):
            self._may_restart = False
            initialise(self.module)
            raise NvmlRestartedError from None
        return Trouble.OTHER, f"NVML says: {error}."
