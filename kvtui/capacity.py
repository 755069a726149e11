"""What a given memory for the cache holds: blocks, tokens, concurrency.

Four figures that users mix up, each with its own name: blocks of the pool, tokens that sequences of
this length find room for, sequences of this length at a time, and the longest single sequence
(``solve.limits``). Tokens and concurrency agree within a block, whatever the layers keep.
"""

from dataclasses import dataclass, replace

from kvtui.runtimes import ideal
from kvtui.sizing import budget
from kvtui.sizing.kinds import states
from kvtui.sizing.rank import block_bytes, fullest_rank
from kvtui.spec import Scenario, SequenceRun


@dataclass(frozen=True, slots=True)
class Capacity:
    """The pool of the fullest rank; None where its memory is unknown."""

    block_bytes: int | None
    """One block of tokens in all layers; None where layers do not all keep every token."""
    blocks: int | None
    """None where a state beside them takes its share of the memory."""
    blocks_per_sequence: int | None
    """Blocks of the longest sequence."""
    tokens: int | None
    """Tokens of sequences as long as the longest."""
    concurrency: float | None
    """Sequences as long as the longest, over all data-parallel groups."""
    concurrency_at_mean: float | None
    """Sequences of the workload's mean length."""
    concurrency_at_p95: float | None
    """Sequences of the length that 95 % of the workload stays within."""


def capacity(scenario: Scenario) -> Capacity:
    """What the budget of ``scenario`` holds."""
    available = budget.available_bytes(scenario)
    workload, parallel = scenario.workload, scenario.parallel
    size, block = block_bytes(scenario), scenario.storage.block
    longest = workload.longest
    mine = -(-longest // parallel.dcp)
    per_sequence = -(-mine // block) if size else None
    if available is None or available < 0:
        return Capacity(size, None, per_sequence, None, None, None, None)
    at_once = _concurrency(scenario, longest, available)
    stateless = not any(states(group) for group in scenario.model.groups)
    blocks = available // size if size and stateless else None
    return Capacity(
        block_bytes=size,
        blocks=blocks,
        blocks_per_sequence=per_sequence,
        tokens=int(at_once * longest) if blocks is None else blocks * block * parallel.dcp,
        concurrency=at_once,
        concurrency_at_mean=_concurrency(
            scenario, max(1, round(workload.tokens / workload.batch)), available
        ),
        concurrency_at_p95=_concurrency(scenario, percentile_tokens(scenario, 95), available),
    )


def percentile_tokens(scenario: Scenario, percent: float) -> int:
    """Length within which ``percent`` of the sequences stay."""
    needed = scenario.workload.batch * percent / 100
    for run in sorted(scenario.workload.runs, key=lambda one: one.tokens):
        needed -= run.count
        if needed <= 0:
            return run.tokens
    return scenario.workload.longest


def _concurrency(scenario: Scenario, tokens: int, available: int) -> float:
    """Sequences of ``tokens`` that fit ``available`` bytes on each data-parallel group."""
    one = replace(scenario.workload, runs=(SequenceRun(tokens, 1),), shared_prefix=0)
    alone = replace(scenario, workload=one, parallel=replace(scenario.parallel, dp_attention=1))
    rank = fullest_rank(scenario)
    held = ideal.reserved_bytes(replace(alone, parallel=replace(alone.parallel, tp=rank.tp)))
    return available / held * scenario.parallel.dp_attention if held else 0.0
