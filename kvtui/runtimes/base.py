"""What every runtime answers, and the type that one is.

A runtime lays the cache down by its own rules. It says what it would take, which rule moves it away
from the ideal and by how many bytes, what its share of memory is a share of, and what its pool
holds. Nothing is measured here, and nothing of another runtime is known.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from kvtui.runtimes import ideal
from kvtui.sizing import budget
from kvtui.spec import Scenario, uniform_workload
from kvtui.units import COUNT_MAX, format_bytes


@dataclass(frozen=True, slots=True)
class Difference:
    """One rule by which a runtime departs from the ideal, and what it takes or saves."""

    what: str
    bytes: int
    """Over (or under, negative) what the rules before it come to."""

    def __str__(self) -> str:
        """Words, then signed bytes."""
        if not self.bytes:
            return self.what
        return f"{self.what} ({'+' if self.bytes > 0 else '−'}{format_bytes(abs(self.bytes))})"


@dataclass(frozen=True, slots=True)
class Pool:
    """What a runtime makes of the memory it would give the cache, on the fullest rank."""

    bytes: int | None
    """Memory for the cache by the runtime's own meaning of its share; None where unknown."""
    block_tokens: int | None = None
    """Tokens of one block, page or pad; None where the cache is not paged."""
    block_bytes: int | None = None
    """Bytes that one block of the pool takes; None where it has several pools or none."""
    blocks: int | None = None
    tokens: int | None = None
    """Tokens of sequences as long as the longest, over all ranks that share a sequence."""
    concurrency: float | None = None
    """Sequences as long as the longest, over all data-parallel groups."""
    concurrency_at_mean: float | None = None
    """Sequences of the workload's mean length."""
    log: tuple[str, ...] = ()
    """Lines that the engine itself would print of this pool."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """One runtime's answer, on the fullest rank."""

    runtime: str
    version: str
    """Of the runtime, as its rule was read; empty for the ideal."""
    source: str
    """Where the rule was read."""
    bytes: int
    """What the runtime takes for the workload."""
    more_bytes: int
    """Over (or under) the ideal: the sum of the differences."""
    differences: tuple[Difference, ...]
    share_of: str
    """What "0.9 of memory" means to the runtime, with the share used here."""
    pool: Pool
    notes: tuple[str, ...]
    """What a reader should know that takes no bytes."""

    @property
    def fits(self) -> bool | None:
        """Whether the workload fits the memory the runtime would give it; None if unknown."""
        return None if self.pool.bytes is None else self.bytes <= self.pool.bytes


class Runtime(ABC):
    """One way to lay a cache down."""

    name: ClassVar[str]
    version: ClassVar[str] = ""
    source: ClassVar[str] = ""
    formats: ClassVar[tuple[str, ...]] = ()
    """Element formats its cache can have; empty where any will do."""

    @abstractmethod
    def reserved_bytes(self, scenario: Scenario) -> int:
        """Bytes for the whole workload on the fullest rank; never falls as T or B grow."""

    @abstractmethod
    def rungs(self, scenario: Scenario) -> Iterator[tuple[str, int]]:
        """Bytes after each rule, from the ideal's to ``reserved_bytes``, with the rule's words."""

    @abstractmethod
    def share(self, scenario: Scenario) -> float:
        """The share of memory that the runtime would use: typed, else its own default."""

    @abstractmethod
    def share_of(self, scenario: Scenario) -> str:
        """What that share is a share of, in words."""

    @abstractmethod
    def memory_left(self, scenario: Scenario, memory_bytes: int) -> int:
        """What of ``memory_bytes`` on one device is the cache's, by the runtime's own rule."""

    def pool(self, scenario: Scenario) -> Pool:
        """What the budget holds; here for a cache that is not a pool of blocks."""
        available = self.available_bytes(scenario)
        at_once = sequences_held(self, scenario, available)
        return Pool(bytes=available, tokens=tokens_held(scenario, at_once), concurrency=at_once)

    def notes(self, scenario: Scenario) -> tuple[str, ...]:
        """What a reader should know that takes no bytes."""
        if self.formats and scenario.storage.kv.name not in self.formats:
            given, known = scenario.storage.kv.name, ", ".join(self.formats)
            return (f"{given} is none of its cache formats ({known}): counted as if it were",)
        return ()

    def differences(self, scenario: Scenario) -> tuple[Difference, ...]:
        """The rules that move the runtime from the ideal, each with its bytes."""
        before, found = ideal.reserved_bytes(scenario), []
        for what, reached in self.rungs(scenario):
            if reached != before:
                found.append(Difference(what, reached - before))
            before = reached
        return tuple(found)

    def available_bytes(self, scenario: Scenario) -> int | None:
        """Memory for the cache on one rank; a typed one is the same for all runtimes."""
        terms, total = scenario.budget, scenario.device.memory_bytes
        if terms.kv_blocks is not None or terms.kv_bytes is not None:
            return budget.available_bytes(scenario)
        return None if total is None else self.memory_left(scenario, total)

    def _pool_and_mean(self, scenario: Scenario) -> Pool:
        """A model that caches nothing fills no pool: what it holds is bounded by nothing here."""
        if not self.reserved_bytes(scenario):
            return Pool(bytes=self.available_bytes(scenario))
        found, workload = self.pool(scenario), scenario.workload
        if workload.uniform:
            return replace(found, concurrency_at_mean=found.concurrency)
        mean = uniform_workload(1, max(1, round(workload.tokens / workload.batch)))
        alike = replace(scenario, workload=replace(mean, lookahead=workload.lookahead))
        return replace(found, concurrency_at_mean=self.pool(alike).concurrency)

    def reservation(self, scenario: Scenario) -> Reservation:
        """Everything together."""
        taken = self.reserved_bytes(scenario)
        return Reservation(
            runtime=self.name,
            version=self.version,
            source=self.source,
            bytes=taken,
            more_bytes=taken - ideal.reserved_bytes(scenario),
            differences=self.differences(scenario),
            share_of=self.share_of(scenario),
            pool=self._pool_and_mean(scenario),
            notes=self.notes(scenario),
        )


def typed_share(scenario: Scenario, default: float) -> float:
    """``utilization`` where one below 1 was typed, else the runtime's ``default``."""
    typed = scenario.budget.utilization
    return typed if typed < 1 else default


def rest_bytes(scenario: Scenario) -> int:
    """Weights, expected activations and overhead, and the reserve of one rank."""
    terms = scenario.budget
    overhead = terms.activations + terms.overhead
    return (budget.weights_bytes(scenario) or 0) + overhead.expected + terms.reserve_bytes


def with_sequences(scenario: Scenario, count: int) -> Scenario:
    """``count`` sequences on one data-parallel group, each as long as the longest."""
    longest = scenario.workload.longest
    parallel = scenario.parallel
    return replace(
        scenario,
        workload=replace(uniform_workload(count, longest), lookahead=scenario.workload.lookahead),
        parallel=replace(parallel, tp=parallel.attention_tp, dp_attention=1),
    )


def tokens_held(scenario: Scenario, sequences: float | None) -> int | None:
    """Tokens of ``sequences`` as long as the longest, on one data-parallel group."""
    if sequences is None:
        return None
    return int(sequences / scenario.parallel.dp_attention * scenario.workload.longest)


def sequences_held(runtime: Runtime, scenario: Scenario, available: int | None) -> float | None:
    """Sequences as long as the longest that ``available`` bytes hold, over all groups.

    The part that does not grow with the sequences is taken off once; the rest is divided.
    """
    if available is None:
        return None
    one, two = (runtime.reserved_bytes(with_sequences(scenario, count)) for count in (1, 2))
    each, fixed = two - one, 2 * one - two
    if not each:
        return 0.0
    return max(0.0, (available - fixed) / each) * scenario.parallel.dp_attention


def whole_sequences_held(
    runtime: Runtime, scenario: Scenario, available: int | None
) -> float | None:
    """The same in whole sequences, searched where a cache does not grow evenly with them."""
    if available is None:
        return None

    def held(count: int) -> bool:
        return runtime.reserved_bytes(with_sequences(scenario, count)) <= available

    low, high = 0, 1
    while high < COUNT_MAX and held(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if held(middle) else (low, middle)
    return float(low * scenario.parallel.dp_attention)
