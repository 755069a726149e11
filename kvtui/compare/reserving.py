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


def available_bytes(scenario: Scenario, runtime: str) -> int | None:
    """Memory for the cache on one rank, by the runtime's own meaning of its share."""
    return runtimes.runtime(runtime).available_bytes(scenario)


def departures(scenario: Scenario, runtime: str) -> str:
    """Why ``runtime`` takes other than the ideal, and of what memory, in words."""
    asked = runtimes.runtime(runtime, field="runtimes")
    if runtime == ideal.NAME:
        return ""
    words = [str(one) for one in asked.differences(scenario)] or ["takes what the ideal does"]
    if scenario.device.memory_bytes is not None:
        words.append(asked.share_of(scenario))
    return "; ".join(words)
