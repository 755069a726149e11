"""The contract of a source: a local helper, one over ssh, a recording."""

from collections.abc import AsyncIterator
from typing import Protocol

from kvtui.records import AnyRecord, Command


class Source(Protocol):
    """Yields records, takes commands, can be stopped."""

    def records(self) -> AsyncIterator[AnyRecord]:
        """Every record from the hello on; the last is exactly one ``Gone``."""
        ...

    async def send(self, command: Command) -> bool:
        """Pass a command on; False when nobody is there to take it. Never raises."""
        ...

    async def stop(self) -> None:
        """End the source; returns once nothing of it is left. May be called again."""
        ...

    def kill_now(self) -> None:
        """End it at once, from wherever (a crash, an exit handler)."""
        ...
