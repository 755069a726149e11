"""What each runtime would reserve for the same question; one file a runtime, one line here."""

from dataclasses import dataclass

from kvtui.runtimes import ideal, transformers
from kvtui.spec import Scenario


@dataclass(frozen=True, slots=True)
class Reservation:
    """One runtime's answer, on the fullest rank."""

    runtime: str
    version: str
    """Of the runtime, as its rule was read; empty for the ideal."""
    bytes: int
    more_bytes: int
    """Over (or under) the ideal."""
    differences: tuple[str, ...]
    """Why, in words."""


def reservations(scenario: Scenario) -> tuple[Reservation, ...]:
    """Every runtime side by side."""
    least = ideal.reserved_bytes(scenario)
    theirs = transformers.reserved_bytes(scenario)
    paged = ("no pages: lengths are not rounded to blocks",) if scenario.storage.block > 1 else ()
    return (
        Reservation(ideal.NAME, "", least, 0, ()),
        Reservation(
            transformers.NAME,
            transformers.VERSION,
            theirs,
            theirs - least,
            transformers.departures(scenario.model) + paged,
        ),
    )
