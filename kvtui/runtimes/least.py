"""The two runtimes that no engine's rule is needed for: the ideal, and transformers.

Their byte rules are in ``ideal`` and ``transformers``; here they answer as the engines do.
"""

from collections.abc import Iterator

from kvtui.runtimes import ideal, transformers
from kvtui.runtimes.base import Runtime, rest_bytes
from kvtui.spec import Scenario


class Ideal(Runtime):
    """Payload in whole pages and states."""

    name = ideal.NAME

    def reserved_bytes(self, scenario: Scenario) -> int:
        """As ``ideal`` has it."""
        return ideal.reserved_bytes(scenario)

    def rungs(self, scenario: Scenario) -> Iterator[tuple[str, int]]:
        """None: it is what the others are compared with."""
        yield "as asked", self.reserved_bytes(scenario)

    def share(self, scenario: Scenario) -> float:
        """As typed."""
        return scenario.budget.utilization

    def share_of(self, scenario: Scenario) -> str:
        """Of all memory of the device."""
        return f"{self.share(scenario):g} of total memory"

    def memory_left(self, scenario: Scenario, memory_bytes: int) -> int:
        """Share of the total less everything else."""
        return int(memory_bytes * self.share(scenario)) - rest_bytes(scenario)


class Transformers(Runtime):
    """Hugging Face transformers' dynamic cache."""

    name = transformers.NAME
    version = transformers.VERSION
    source = "the cache it leaves when each model is run on tensors without storage"

    def reserved_bytes(self, scenario: Scenario) -> int:
        """As ``transformers`` has it."""
        return transformers.reserved_bytes(scenario)

    def rungs(self, scenario: Scenario) -> Iterator[tuple[str, int]]:
        """All at once: the geometry, and pages that are not there."""
        words = list(transformers.departures(scenario.model))
        if scenario.storage.block > 1:
            words.append("no pages: lengths are not rounded to blocks")
        if scenario.workload.lookahead or scenario.workload.in_flight or scenario.draft:
            words.append("no slots ahead, prompts in flight or draft model")
        yield "; ".join(words) or "other geometry", self.reserved_bytes(scenario)

    def share(self, scenario: Scenario) -> float:
        """As typed; it keeps no share itself."""
        return scenario.budget.utilization

    def share_of(self, scenario: Scenario) -> str:
        """It has no such setting: tensors grow until memory ends."""
        return f"no share of its own; {self.share(scenario):g} of total memory as asked"

    def memory_left(self, scenario: Scenario, memory_bytes: int) -> int:
        """What the rest leaves, of the share that was typed."""
        return int(memory_bytes * self.share(scenario)) - rest_bytes(scenario)
