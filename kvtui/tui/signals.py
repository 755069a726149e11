"""Signals from outside: the same way out as a key, and a short one when the terminal is gone.

A hangup is sent with the terminal already dead, and followed by SIGCONT, on which Textual starts
its application mode again: its writer then dies and whoever writes next waits for ever. There is
nothing left to restore, so the helpers are killed and the process ends on the spot. The handlers
are Python's own and not the loop's, so that they also run while the loop is blocked.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def end_on_signals(
    loop: asyncio.AbstractEventLoop, leave: Callable[[int], None], kill_now: Callable[[], None]
) -> None:
    """Call ``leave(128 + number)`` in ``loop``; where that cannot work, kill and exit."""

    def end(number: int, _: FrameType | None) -> None:
        if loop.is_closed() or not _terminal_is_there():
            kill_now()
            os._exit(128 + number)
        loop.call_soon_threadsafe(leave, 128 + number)

    for number in _ENDING:
        signal.signal(number, end)


def _terminal_is_there() -> bool:
    """Textual draws on stderr; a terminal that hung up is none any more."""
    return sys.__stderr__ is not None and os.isatty(sys.__stderr__.fileno())
