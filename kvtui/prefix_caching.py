"""What a prefix cache saves at a hit rate, and when it saves nothing.

Sequences whose first tokens are in the cache already neither compute nor store them again. Only
whole blocks are found (vLLM ``v1/core/kv_cache_utils.py`` hashes full blocks; SGLang's radix tree
does so with pages), one copy always stays, and a window keeps nothing of a prefix it has passed.
Blocks that no sequence holds stay cached until the pool needs them and are then evicted, the least
recently used first: what the workload leaves of the budget is what cached prefixes may stay in.
"""

from dataclasses import dataclass, replace

from kvtui import roofline
from kvtui.runtimes import ideal
from kvtui.sizing import budget
from kvtui.sizing.rank import fullest_rank
from kvtui.spec import RecurrentState, Scenario, Workload, uniform_workload
from kvtui.units import format_bytes, format_count, format_flops


@dataclass(frozen=True, slots=True)
class PrefixCaching:
    """The saving on the fullest rank, beside sequences that share nothing."""

    hit_rate: float
    """Share of the sequences that find the prefix; where none is typed, all but the first."""
    prefix_tokens: int
    cached_tokens: int
    """Of whole blocks: what can be found."""
    hits: int
    """Sequences of the rank that find it."""
    saves_bytes: int
    saves_blocks: int
    saves_prefill_flops: int | None
    """None where the FLOPs of a prefill are unknown."""
    saves_prefill_ms: float | None
    missed_bytes: int
    """Copies that misses hold; payload and reservations count the prefix once."""
    room_prefixes: int | None
    """Further prefixes of this size that free memory keeps before one is evicted."""
    sentence: str


def prefix_caching(scenario: Scenario) -> PrefixCaching | None:
    """What the workload's prefix saves; None where neither prefix nor hit rate was given."""
    workload = scenario.workload
    if not workload.shared_prefix and workload.hit_rate is None:
        return None
    rank = fullest_rank(scenario)
    batch, block = rank.workload.batch, scenario.storage.block
    cached = workload.shared_prefix // block * block
    if workload.hit_rate is None:
        hits, rate = batch - 1, (batch - 1) / batch
    else:
        rate = workload.hit_rate
        hits = int(rate * batch + 1e-9)
    copies = min(hits, batch - 1)
    copy = _copy_bytes(scenario, batch)
    flops = _prefill_flops(scenario, cached)
    peak = scenario.device.flop_per_s
    saved = hits * flops if flops is not None else None
    found = PrefixCaching(
        hit_rate=rate,
        prefix_tokens=workload.shared_prefix,
        cached_tokens=cached,
        hits=hits,
        saves_bytes=int(copies * copy),
        saves_blocks=copies * (cached // block) if copy else 0,
        saves_prefill_flops=saved,
        saves_prefill_ms=None if saved is None or peak is None else saved / peak * 1e3,
        missed_bytes=int((batch - 1 - copies) * copy),
        room_prefixes=_room(scenario, cached),
        sentence="",
    )
    return replace(found, sentence=_sentence(found, scenario, batch))


def _copy_bytes(scenario: Scenario, batch: int) -> float:
    """Bytes of one more copy of the prefix, as the rank's layers keep it."""
    if batch < 2:
        return 0.0
    apart = replace(scenario, workload=replace(scenario.workload, shared_prefix=0))
    return (ideal.reserved_bytes(apart) - ideal.reserved_bytes(scenario)) / (batch - 1)


def _prefill_flops(scenario: Scenario, tokens: int) -> int | None:
    """FLOPs of computing the prefix once."""
    if not tokens:
        return 0
    alone: Workload = uniform_workload(1, tokens)
    return roofline.prefill(replace(scenario, workload=alone)).flops


def _room(scenario: Scenario, tokens: int) -> int | None:
    available = budget.available_bytes(scenario)
    if available is None or not tokens:
        return None
    one = ideal.reserved_bytes(replace(scenario, workload=uniform_workload(1, tokens)))
    spare = available - ideal.reserved_bytes(scenario)
    return max(0, spare // one) if one else None


def _sentence(found: PrefixCaching, scenario: Scenario, batch: int) -> str:
    """What is saved, or the one reason why nothing is."""
    block = scenario.storage.block
    if not found.prefix_tokens:
        return "Saves nothing: no tokens are shared (--shared-prefix)."
    if not found.cached_tokens:
        return (
            f"Saves nothing: a prefix of {found.prefix_tokens:,} tokens is shorter than a block "
            f"of {block:,}, and only whole blocks are found."
        )
    if not found.hits:
        why = (
            "one sequence finds nothing to share"
            if batch == 1
            else "the hit rate is 0"
            if not found.hit_rate
            else f"a hit rate of {found.hit_rate:g} is no whole sequence of {batch:,}"
        )
        return f"Saves nothing: {why}."
    parts = [f"{found.hits:,} of {batch:,} sequences find {found.cached_tokens:,} tokens:"]
    if found.saves_bytes:
        blocks = f" ({format_count(found.saves_blocks)} blocks)" if block > 1 else ""
        parts.append(f"saves {format_bytes(found.saves_bytes)}{blocks}")
    elif batch == 1:
        parts.append("saves no bytes, since one sequence holds one copy,")
    else:
        parts.append("saves no bytes, since no layer keeps so early a token,")
    if found.saves_prefill_flops is not None:
        parts.append(f"and {format_flops(found.saves_prefill_flops)} of prefill")
    if any(isinstance(group, RecurrentState) for group in scenario.model.groups):
        parts.append("if the engine keeps a state at the prefix's end")
    text = " ".join(parts).rstrip(",") + "."
    if found.missed_bytes:
        text += f" Misses hold {format_bytes(found.missed_bytes)} more than is counted here."
    if found.room_prefixes is not None:
        text += f" Room for {format_count(found.room_prefixes)} more such prefixes, then eviction."
    return text
