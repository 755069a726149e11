"""What a runtime takes, by its name: the one place of ``compare`` that knows the runtimes."""

from typing import Final

from kvtui.errors import InputError
from kvtui.runtimes import Reservation, ideal, reservations, transformers
from kvtui.spec import Scenario

ALL: Final = "all"
"""Stands for every runtime there is."""
_ALONE: Final = {
    ideal.NAME: ideal.reserved_bytes,
    transformers.NAME: transformers.reserved_bytes,
}
"""Runtimes that can be asked alone: searches ask hundreds of times."""


def runtime_names(scenario: Scenario) -> tuple[str, ...]:
    """The runtimes that answer for ``scenario``."""
    return tuple(one.runtime for one in reservations(scenario))


def reserved_bytes(scenario: Scenario, runtime: str) -> int:
    """Bytes on the fullest rank."""
    alone = _ALONE.get(runtime)
    return _reservation(scenario, runtime).bytes if alone is None else alone(scenario)


def departures(scenario: Scenario, runtime: str) -> str:
    """Why ``runtime`` takes other than the ideal, in words; empty where it does not."""
    found = _reservation(scenario, runtime)
    return "; ".join(found.differences) or ("" if runtime == ideal.NAME else "as the ideal")


def _reservation(scenario: Scenario, runtime: str) -> Reservation:
    found = reservations(scenario)
    for one in found:
        if one.runtime == runtime:
            return one
    raise InputError("runtimes", runtime, "one of " + ", ".join((ALL, *runtime_names(scenario))))
