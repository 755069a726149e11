"""What a runtime takes, by its name: the one place of ``compare`` that knows the runtimes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kvtui.errors import InputError
from kvtui.runtimes import ideal, transformers
from kvtui.spec import Scenario


@dataclass(frozen=True, slots=True)
class Reserving:
    """How one runtime answers."""

    reserved_bytes: Callable[[Scenario], int]
    """On the fullest rank."""
    price: Callable[[Scenario], str]
    """Why it differs from the ideal, in words."""


def _departures(scenario: Scenario) -> str:
    return "; ".join(transformers.departures(scenario.model)) or "one tensor a layer, grown by copy"


_RUNTIMES: Final = {
    ideal.NAME: Reserving(ideal.reserved_bytes, lambda _scenario: ""),
    transformers.NAME: Reserving(transformers.reserved_bytes, _departures),
}
RUNTIMES: Final = tuple(_RUNTIMES)


def reserving(name: str) -> Reserving:
    """The runtime called ``name``."""
    found = _RUNTIMES.get(name)
    if found is None:
        raise InputError("runtimes", name, "one of " + ", ".join(RUNTIMES))
    return found
