"""Every number of an answer opens its formula: rule, values substituted, source.

Names are the keys of ``size --json``. Nothing is computed here that is not already in the parts
it is given.
"""

from kvtui import roofline, solve
from kvtui.capacity import Capacity
from kvtui.sizing import weights
from kvtui.sizing.budget import Budget, budget_formula
from kvtui.sizing.formula import Formula
from kvtui.sizing.payload import SEED, Payload, payload_formula
from kvtui.spec import Scenario
from kvtui.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_exact,
    format_flops,
    format_ms,
    format_per_s,
)

_SEARCH = "search on the monotone reservation curve: it fits, one step more does not"
_RANKS = "vLLM and SGLang: max(1, Hkv / tp) heads a rank; latent and index rows on every rank"
_STATE = "vLLM mamba_utils.py: (kernel - 1) conv columns and heads x rows x columns a sequence"


def explanations(
    scenario: Scenario,
    whole: Payload,
    found: Budget,
    step: roofline.Step,
    prefill: roofline.Prefill,
    limits: solve.Limits,
    pool: Capacity,
) -> list[Formula]:
    """What stands behind each number; the first is the payload's own formula."""
    return [
        payload_formula(scenario.model, scenario.workload, scenario.storage, whole.bytes),
        *_of_payload(scenario, whole),
        *_of_budget(scenario, found),
        *_of_limits(scenario, limits, pool),
        *_of_step(scenario, step, prefill),
    ]


def _of_payload(scenario: Scenario, whole: Payload) -> list[Formula]:
    longest, batch = scenario.workload.longest, scenario.workload.batch
    return [
        Formula(
            "payload.bytes_per_token",
            "payload(T+1) − payload(T), one sequence",
            f"at T = {longest:,}: {whole.bytes_per_token:,} B",
            SEED,
        ),
        Formula(
            "payload.bytes_per_step",
            "Σ over sequences of bytes per token",
            f"{batch:,} sequences: {whole.bytes_per_step:,} B",
            SEED,
        ),
        Formula(
            "payload.state_bytes",
            "L·B·(conv + state), and cross-attention entries",
            f"{batch:,} sequences: {whole.state_bytes:,} B",
            _STATE,
        ),
        Formula(
            "payload.scale_bytes",
            "scales of each row x rows",
            f"{scenario.storage.kv.name}: {whole.scale_bytes:,} B of {whole.bytes:,} B",
            scenario.storage.kv.source,
        ),
    ]


def _of_budget(scenario: Scenario, found: Budget) -> list[Formula]:
    parallel = scenario.parallel
    spread = f"tp {parallel.tp}, pp {parallel.pp}, dcp {parallel.dcp}, block "
    return [
        Formula(
            "per_rank.reserved_bytes",
            "whole blocks and states of the fullest rank",
            f"{spread}{scenario.storage.block}: {format_exact(found.reservation_bytes)}",
            _RANKS,
        ),
        Formula(
            "budget.weights_bytes",
            weights.STORED_RULE,
            f"{format_exact(found.weights_bytes)} on each of {parallel.ranks} ranks",
            scenario.model.source,
        ),
        Formula(
            "budget.overhead_bytes",
            "activations + graphs, context and communication, as a band",
            f"{format_bytes(found.overhead.low)} to {format_bytes(found.overhead.high)}, "
            f"{format_bytes(found.overhead.expected)} expected",
            found.overhead.source,
        ),
        budget_formula(found, scenario.device.source),
        Formula(
            "budget.spare_bytes",
            "available − reserved by the cache, per rank",
            f"{format_bytes(found.available_bytes)} − {format_bytes(found.reservation_bytes)} = "
            f"{format_bytes(found.spare_bytes)}",
            "support-desk lesson 0 and 5.4",
        ),
    ]


def _of_limits(scenario: Scenario, limits: solve.Limits, pool: Capacity) -> list[Formula]:
    longest, batch = scenario.workload.longest, scenario.workload.batch
    at_once = NOT_AVAILABLE if pool.concurrency is None else f"{pool.concurrency:,.2f}"
    return [
        Formula(
            "limits.max_batch",
            "largest B with reserved(B, T) ≤ available",
            f"B = {format_count(limits.max_batch)} at T = {longest:,}",
            _SEARCH,
        ),
        Formula(
            "limits.max_context",
            "largest T with reserved(B, T) ≤ available",
            f"T = {format_count(limits.max_context)} at B = {batch:,}",
            _SEARCH,
        ),
        Formula(
            "limits.longest_sequence",
            "largest T with reserved(1, T) ≤ available",
            f"T = {format_count(limits.longest_sequence)} alone",
            _SEARCH,
        ),
        Formula(
            "limits.min_tp",
            "fewest of 1, 2, 4, 8, 16 ranks with reserved ≤ available on each",
            f"tp = {format_count(limits.min_tp)}",
            _RANKS,
        ),
        Formula(
            "capacity.tokens",
            "blocks x block, or concurrency x T where layers hold a state or a window",
            f"{format_count(pool.blocks)} blocks of {scenario.storage.block} tokens and "
            f"{format_bytes(pool.block_bytes)}: {format_count(pool.tokens)} tokens",
            "vLLM kv_cache_utils.py: blocks = available // block bytes",
        ),
        Formula(
            "capacity.concurrency",
            "available / reserved by one sequence",
            f"{at_once} sequences of {longest:,} tokens",
            "vLLM kv_cache_utils.py: max_concurrency x max_model_len = tokens",
        ),
    ]


def _of_step(scenario: Scenario, step: roofline.Step, prefill: roofline.Prefill) -> list[Formula]:
    batch = scenario.workload.batch
    intensity = NOT_AVAILABLE if step.intensity is None else f"{step.intensity:.4g}"
    return [
        Formula(
            "step.kv_read_bytes",
            "entries each sequence attends to, read once; replicas read theirs",
            format_exact(step.kv_read_bytes),
            roofline.STEP_SOURCE,
        ),
        Formula(
            "step.kv_write_bytes",
            "one entry a sequence and layer, and the state anew",
            format_exact(step.kv_write_bytes),
            roofline.STEP_SOURCE,
        ),
        Formula(
            "step.weight_read_bytes",
            f"{weights.READ_RULE}; {weights.EXPERTS_RULE}",
            f"B = {batch:,}: {format_exact(step.weight_read_bytes)}",
            roofline.STEP_SOURCE,
        ),
        Formula(
            "step.flops",
            "2 x weights multiplied x B + attention",
            f"{format_flops(step.flops)}, of which attention {format_flops(step.attention_flops)}",
            "support-desk lesson 1.1: 4·T·d·L·B for attention",
        ),
        Formula(
            "step.intensity",
            "all FLOPs / all bytes",
            f"{format_flops(step.flops)} / {format_bytes(step.total_bytes)} = {intensity}",
            "support-desk lesson 1.1",
        ),
        roofline.step_formula(step, scenario),
        Formula(
            "step.tokens_per_s",
            "B / step floor, stages one after another",
            f"{batch:,} / {format_ms(step.floor_ms)} = {format_per_s(step.tokens_per_s)}",
            roofline.STEP_SOURCE,
        ),
        Formula(
            "prefill.floor_ms",
            "max(FLOPs / peak, (weights + KV written) / bandwidth)",
            f"{format_flops(prefill.flops)}, {format_bytes(prefill.bytes)}: "
            f"{format_ms(prefill.floor_ms)}",
            "KV cache tutorial, prefill and decode apart; causal attention sees T/2 on average",
        ),
    ]
