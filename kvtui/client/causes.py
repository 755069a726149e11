"""Why a helper process is gone or could not be started, each in one sentence.

Pure text: from an exit status and the last words on stderr to what a user reads.
"""

import re
import signal
from collections.abc import Sequence
from typing import Final

_MEANINGS: Final = {
    signal.SIGKILL: "often the kernel's out-of-memory killer",
    signal.SIGSEGV: "a crash in native code, such as a driver or a kernel",
    signal.SIGABRT: "native code gave up",
    signal.SIGBUS: "memory it was given is not there; often a full /dev/shm",
}
_MISSING_MODULE: Final = re.compile(r"No module named '?([A-Za-z_][\w.]*)'?")
_DISTRIBUTIONS: Final = {"pynvml": "nvidia-ml-py"}
_EXCEPTION: Final = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b")
_WIDTH: Final = 300


def why_gone(who: str, status: int | None, words: str) -> str:
    """Why the helper ended unasked.

    Args:
        who: which helper, such as ``worker`` or ``worker on gpu-box``.
        status: its exit status; negative is a signal, None means that it does not end.
        words: what it said last (``last_words``), or "".
    """
    missing = _MISSING_MODULE.search(words)
    if missing is not None and status is not None and status > 0:
        module = missing[1].split(".")[0]
        install = _DISTRIBUTIONS.get(module, module)
        return (
            f"The {who} cannot run (status {status}): its Python has no module {missing[1]}; "
            f"install {install} there."
        )
    reason = _reason(who, status)
    words = words.strip()[:_WIDTH]
    if not words:
        return f"{reason}."
    return f"{reason}: {words}" + ("" if words.endswith((".", "!", "?")) else ".")


def why_not_started(who: str, command: Sequence[str], error: OSError) -> str:
    """Why the operating system did not start the helper at all."""
    what = error.strerror or str(error)
    return f"The {who} cannot be started: {command[0]}: {what}."


def last_words(lines: Sequence[str]) -> str:
    """The line of a stderr tail that says most: the last exception, else the last that speaks."""
    spoken = [line for line in lines if line.strip() and "Warning: " not in line]
    for line in reversed(spoken):
        if _EXCEPTION.match(line):
            return line.strip()
    flush = [line for line in spoken if not line.startswith(" ")]
    return (flush or spoken or [""])[-1].strip()


def _reason(who: str, status: int | None) -> str:
    if status is None:
        return f"The {who} does not end, even when it is killed; it waits inside the kernel"
    if status < 0 or status == 128 + signal.SIGTERM:
        number = -status if status < 0 else signal.SIGTERM
        meaning = _MEANINGS.get(signal.Signals(number)) if number in _SIGNALS else None
        name = signal.Signals(number).name if number in _SIGNALS else f"signal {number}"
        return f"The {who} was killed by {name}" + (f"; {meaning}" if meaning else "")
    return f"The {who} ended with status {status}"


_SIGNALS: Final = frozenset(int(one) for one in signal.Signals)
