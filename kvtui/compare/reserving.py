"""What a runtime takes, by its name: the one place of ``compare`` that knows the runtimes."""

from typing import Final

from kvtui import runtimes
from kvtui.runtimes import ideal
from kvtui.spec import Scenario

ALL: Final = runtimes.ALL
"""Stands for every runtime there is."""


def runtime_names() -> tuple[str, ...]:
    """The runtimes that can be asked."""
    return runtimes.runtime_names()


def reserved_bytes(scenario: Scenario, runtime: str) -> int:
    """Bytes on the fullest rank."""
    return runtimes.reserved_bytes(runtime, scenario)


def departures(scenario: Scenario, runtime: str) -> str:
    """Why ``runtime`` takes other than the ideal, in words; empty where it does not."""
    found = runtimes.runtime(runtime, field="runtimes").differences(scenario)
    return "; ".join(map(str, found)) or ("" if runtime == ideal.NAME else "as the ideal")
