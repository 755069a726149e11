"""Every preset by its name in the command palette; listed only once something is searched for."""

from collections.abc import Callable
from functools import partial
from typing import Final

from textual.command import Hit, Hits, Provider

from kvtui.tui import lists

KINDS: Final = {"models": "model", "devices": "gpu", "workloads": "workload"}
"""Lists of presets, and what one of each is called."""


class PresetCommands(Provider):
    """Searches models, devices and workloads."""

    async def startup(self) -> None:
        """Read the names once for as long as the palette is open."""
        self._names = [(kind, name) for kind in KINDS for name in lists.names(kind)]

    async def search(self, query: str) -> Hits:
        """Names that match, best first."""
        matcher = self.matcher(query)
        choose: Callable[[str, str], None] | None = getattr(self.app, "choose", None)
        if choose is None:
            return
        for kind, name in self._names:
            title = f"{KINDS[kind]} {name}"
            if (score := matcher.match(title)) > 0:
                yield Hit(score, matcher.highlight(title), partial(choose, kind, name), text=title)
