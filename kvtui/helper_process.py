"""What both helper processes do first: keep stdout for records, and never outlive their parent.

Standard library only, so that it costs nothing before the first hello.
"""

import ctypes
import os
import signal
import sys
from typing import BinaryIO, Final

_PR_SET_PDEATHSIG: Final = 1


def take_over_stdout() -> BinaryIO:
    """A private stream to the original stdout; fd 1 then leads to stderr.

    Libraries print to fd 1 whenever they like; their text must not land between records.
    """
    records = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return records


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel for SIGKILL when the parent dies; leave at once if it already has.

    Args:
        parent: pid of the process that started this one, when it told; None takes getppid().
    """
    expected = os.getppid() if parent is None else parent
    if sys.platform.startswith("linux"):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != expected:
        raise SystemExit(0)
