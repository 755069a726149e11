"""The exception tree and the exit codes, both public API.

Every expected failure is one sentence. ``InputError`` names the field, the value and the
allowed range, and is raised before anything is allocated. Nothing here may import another
module of the package.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a kvtui process returns to its caller."""

    DONE = 0
    RUN_FAILED = 1
    USAGE = 2
    UNAVAILABLE = 3
    DOES_NOT_FIT = 4
    INTERRUPTED = 130
    TERMINATED = 143


class KvtuiError(Exception):
    """An expected failure; its text is the sentence a user reads."""

    exit_code: ExitCode = ExitCode.RUN_FAILED


class InputError(KvtuiError):
    """A value from outside that cannot be used."""

    exit_code = ExitCode.USAGE

    def __init__(self, field: str, value: object, allowed: str) -> None:
        """Name the ``field``, the offending ``value`` (None: missing) and what is ``allowed``."""
        shown = repr(value) if isinstance(value, str) else str(value)
        if value is None:
            shown = "missing"
        if len(shown) > 120:
            shown = shown[:117] + "..."
        super().__init__(f"{field} is {shown}; it must be {allowed}.")
        self.field = field
        self.value = value
        self.allowed = allowed


class SourceError(KvtuiError):
    """A file or preset that cannot be read as what it should be."""

    exit_code = ExitCode.USAGE


class UnavailableError(KvtuiError):
    """A device, driver or helper process that is not there."""

    exit_code = ExitCode.UNAVAILABLE


class RefusedError(KvtuiError):
    """A run that was not started because it would not fit; nothing was allocated."""

    def __init__(self, sentence: str, *, need_bytes: int, available_bytes: int) -> None:
        """Keep the shortfall as numbers beside the sentence."""
        super().__init__(sentence)
        self.need_bytes = need_bytes
        self.available_bytes = available_bytes
