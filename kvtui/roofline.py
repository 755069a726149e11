"""What a decode step and a prefill must at least move and compute, and the time that takes.

A step reads the active weights once, the resident cache once, and writes one entry per
sequence; its floor is the larger of bytes over bandwidth and FLOPs over peak. The two phases
are apart because they meet different bounds (KV cache tutorial, prefill and decode;
support-desk lesson 4.4). All figures are of one rank.
"""

from dataclasses import dataclass
from typing import Literal

from kvtui.sizing import budget, weights
from kvtui.sizing.formula import Formula
from kvtui.sizing.kinds import attention_flops
from kvtui.sizing.payload import held_bytes, read_bytes_per_step, write_bytes_per_step
from kvtui.sizing.rank import fullest_rank, stage_layers
from kvtui.spec import Scenario
from kvtui.units import format_bytes, format_ms, format_rate

Bound = Literal["bandwidth", "compute"]

STEP_SOURCE = (
    "support-desk lesson 5.4: the batch's cache and the weights are read once per step; "
    "tokens/s = B / step"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One decode step of the whole batch on one rank. None is unknown."""

    kv_read_bytes: int
    kv_write_bytes: int
    weight_read_bytes: int | None
    flops: int | None
    attention_flops: int | None
    floor_ms: float | None
    bound: Bound | None
    batch: int
    """Sequences of all ranks."""
    stages: int = 1
    """Pipeline stages a token passes one after another."""

    @property
    def total_bytes(self) -> int:
        """Everything moved; unknown weights count as nothing."""
        return self.kv_read_bytes + self.kv_write_bytes + (self.weight_read_bytes or 0)

    @property
    def intensity(self) -> float | None:
        """All FLOPs over all bytes, FLOP/byte."""
        return self.flops / self.total_bytes if self.flops is not None else None

    @property
    def attention_intensity(self) -> float | None:
        """Attention FLOPs over cache bytes read: 1 FLOP/byte for 16-bit MHA."""
        if self.attention_flops is None or not self.kv_read_bytes:
            return None
        return self.attention_flops / self.kv_read_bytes

    @property
    def tokens_per_s(self) -> float | None:
        """Upper bound on tokens per second, all sequences together."""
        return self.batch * 1e3 / (self.floor_ms * self.stages) if self.floor_ms else None

    @property
    def tokens_per_s_per_sequence(self) -> float | None:
        """Upper bound on tokens per second of one sequence."""
        return 1e3 / (self.floor_ms * self.stages) if self.floor_ms else None


@dataclass(frozen=True, slots=True)
class Prefill:
    """Processing every sequence's tokens once on one rank. None is unknown."""

    flops: int | None
    bytes: int
    floor_ms: float | None
    bound: Bound | None


def step(scenario: Scenario) -> Step:
    """Bytes, FLOPs and floor time of one decode step at these lengths."""
    rank = fullest_rank(scenario)
    parts = (rank.model, rank.workload, scenario.storage)
    read = read_bytes_per_step(*parts, tp=rank.tp, dcp=rank.dcp)
    write = write_bytes_per_step(*parts, tp=rank.tp)
    weight_read = weight_read_bytes(scenario)
    attention = _attention_flops(scenario)
    linear = _linear_flops_per_token(scenario)
    batch = scenario.workload.batch
    flops = None if attention is None or linear is None else attention + linear * batch
    moved = read + write + (weight_read or 0)
    floor_ms, bound = _floor(scenario, moved, flops)
    stages = scenario.parallel.pp
    return Step(read, write, weight_read, flops, attention, floor_ms, bound, batch, stages)


def prefill(scenario: Scenario) -> Prefill:
    """FLOPs, bytes and floor time of filling the cache from nothing.

    Causal attention over T tokens sees T/2 keys on average. Bytes are the weights once (a batch
    large enough to fill the device passes them once) and the cache written.
    """
    rank, workload = fullest_rank(scenario), scenario.workload
    linear = _linear_flops_per_token(scenario)
    flops = None
    if linear is not None and _attention_flops(scenario) is not None:
        attention = sum(
            _sequence_flops(scenario, max(1, run.tokens // 2)) * run.tokens * run.count
            for run in rank.workload.runs
        )
        flops = attention + linear * workload.tokens
    written = held_bytes(rank.model, rank.workload, scenario.storage, tp=rank.tp, dcp=rank.dcp)
    moved = written + (budget.weights_bytes(scenario) or 0)
    if scenario.device.flop_per_s is None:
        # Prefill is all arithmetic: without a peak its bytes alone would promise too much.
        return Prefill(flops, moved, None, None)
    floor_ms, bound = _floor(scenario, moved, flops)
    return Prefill(flops, moved, floor_ms, bound)


def weight_read_bytes(scenario: Scenario) -> int | None:
    """Weight bytes one step reads on one rank: active experts only, one embedding row a token.

    Typed weights say nothing of their parts and are read whole.
    """
    parallel, model = scenario.parallel, scenario.model
    if scenario.budget.weights_bytes is not None or not model.parameters:
        return budget.weights_bytes(scenario)
    read = weights.read_bytes_per_step(
        model,
        budget.weight_format(scenario),
        scenario.workload.batch,
        tp=parallel.tp,
        attention_tp=parallel.attention_tp,
        ep=parallel.ep,
    )
    return -(-read * max(stage_layers(scenario), default=0) // max(1, model.layers))


def step_formula(found: Step, scenario: Scenario) -> Formula:
    """How the floor of a step comes about."""
    rate = format_rate(scenario.device.bandwidth_bytes_per_s)
    return Formula(
        "step.floor_ms",
        "max((weights + KV read + KV written) / bandwidth, FLOPs / peak)",
        f"({format_bytes(found.weight_read_bytes)} + {format_bytes(found.kv_read_bytes)} + "
        f"{format_bytes(found.kv_write_bytes)}) / {rate} = {format_ms(found.floor_ms)}",
        STEP_SOURCE,
    )


def _linear_flops_per_token(scenario: Scenario) -> int | None:
    """2 FLOPs a weight that a token is multiplied with, on one rank.

    Typed weights are turned into a parameter count by their format's element size.
    """
    if scenario.budget.weights_bytes is None and scenario.model.parameters:
        return 2 * weights.multiplied_parameters(scenario.model) // scenario.parallel.ranks
    held = budget.weights_bytes(scenario)
    if held is None:
        return None
    return int(2 * held * 8 / budget.weight_format(scenario).bits_per_value)


def _sequence_flops(scenario: Scenario, tokens: int) -> int:
    """Attention FLOPs of one sequence's new token over ``tokens`` cached ones, on one rank."""
    rank = fullest_rank(scenario)
    return sum(
        (attention_flops(group, tokens) or 0) * group.layers // (rank.tp * rank.dcp)
        for group in rank.model.groups
    )


def _attention_flops(scenario: Scenario) -> int | None:
    """Attention FLOPs of one step of the batch; None where query heads are unknown."""
    if any(attention_flops(group, 1) is None for group in scenario.model.groups):
        return None
    runs = fullest_rank(scenario).workload.runs
    return sum(_sequence_flops(scenario, run.tokens) * run.count for run in runs)


def _floor(scenario: Scenario, moved: int, flops: int | None) -> tuple[float | None, Bound | None]:
    """Floor time in ms and what sets it; None without a bandwidth."""
    bandwidth, peak = scenario.device.bandwidth_bytes_per_s, scenario.device.flop_per_s
    if bandwidth is None:
        return None, None
    moving_ms = moved / bandwidth * 1e3
    computing_ms = flops / peak * 1e3 if flops is not None and peak is not None else 0.0
    if computing_ms > moving_ms:
        return computing_ms, "compute"
    return moving_ms, "bandwidth"
