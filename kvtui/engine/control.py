"""How another thread holds, resumes and stops a run; the loop asks at every boundary.

No torch here, so that a worker can take commands while torch is still being loaded.
"""

from collections.abc import Callable
from threading import Event


def _untold(_paused: bool) -> None:
    """Nobody listens."""


class Control:
    """Shared by the loop, which asks, and whoever commands it."""

    def __init__(self, told: Callable[[bool], None] = _untold) -> None:
        """Free to run; ``told`` hears from the loop when it really pauses and goes on."""
        self._go, self._stop = Event(), Event()
        self._go.set()
        self._told = told

    def hold(self) -> None:
        """Pause at the next boundary."""
        self._go.clear()

    def resume(self) -> None:
        """Go on."""
        self._go.set()

    def stop(self) -> None:
        """End at the next boundary, held or not."""
        self._stop.set()
        self._go.set()

    @property
    def stopped(self) -> bool:
        """A stop was asked for."""
        return self._stop.is_set()

    @property
    def held(self) -> bool:
        """A pause was asked for."""
        return not (self._go.is_set() or self._stop.is_set())

    def wait(self) -> None:
        """Pause here; returns once the run may go on or must stop."""
        self._told(True)
        self._go.wait()
        self._told(False)
