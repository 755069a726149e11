"""The sizing answer: every number of one scenario, as ``size --json`` prints it.

Keys and meanings are the published interface (schema ``kvtui.size/1``); units are in the names.
``compose`` is the only place that gathers them, for the text report, the JSON and the screen.
"""

from typing import Final, Literal

import msgspec

from kvtui import roofline, solve
from kvtui.capacity import capacity
from kvtui.runtimes import ideal, reservations
from kvtui.session.explanations import explanations
from kvtui.sizing.budget import Verdict, budget
from kvtui.sizing.payload import payload
from kvtui.sizing.rank import fullest_rank, stage_layers, stage_model
from kvtui.spec import FullAttention, LatentAttention, Scenario
from kvtui.units import format_bytes

SIZE_SCHEMA: Final = "kvtui.size/1"


class Struct(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the answer."""


class GroupPart(Struct, frozen=True, kw_only=True):
    """One layer group's share of the payload."""

    kind: str
    layers: int
    bytes: int
    state_bytes: int
    bytes_per_token: int


class PayloadPart(Struct, frozen=True, kw_only=True):
    """Ideal storage of the whole model for the whole workload, no block rounding."""

    bytes: int
    state_bytes: int
    bytes_per_token: int
    bytes_per_step: int
    per_sequence_bytes: int
    """The longest sequence alone, its state included."""
    k_bytes: int
    v_bytes: int
    latent_bytes: int
    index_bytes: int
    scale_bytes: int
    groups: list[GroupPart]


class RankPart(Struct, frozen=True, kw_only=True):
    """The fullest tensor-parallel rank, replicated heads included."""

    tp: int
    kv_heads: int | None
    """None where layers differ or there are no KV heads; 1 for a latent cache."""
    bytes: int
    state_bytes: int
    reserved_bytes: int
    """In whole blocks, state included: what is set against the budget."""


class StripPart(Struct, frozen=True, kw_only=True):
    """The cache over another number of tensor-parallel ranks."""

    tp: int
    rank_bytes: int
    """Reserved on the fullest rank."""
    total_bytes: int
    """Over all ranks, replicas included."""
    fits: bool | None


class ReservationPart(Struct, frozen=True, kw_only=True):
    """What one runtime would take, on the fullest rank."""

    runtime: str
    version: str
    bytes: int
    more_bytes: int
    differences: list[str]


class CapacityPart(Struct, frozen=True, kw_only=True):
    """What the memory for the cache holds on one rank."""

    block_bytes: int | None
    blocks: int | None
    blocks_per_sequence: int | None
    tokens: int | None
    concurrency: float | None
    concurrency_at_mean: float | None
    concurrency_at_p95: float | None


class StagePart(Struct, frozen=True, kw_only=True):
    """One pipeline stage."""

    layers: int
    bytes_per_token: int
    bytes: int


class BandPart(Struct, frozen=True, kw_only=True):
    """Low, expected and high end, bytes."""

    low: int
    expected: int
    high: int
    source: str


class BudgetPart(Struct, frozen=True, kw_only=True):
    """Memory of one rank."""

    device: str
    device_source: str
    total_bytes: int | None
    utilization: float
    usable_bytes: int | None
    """total x utilization."""
    weights_bytes: int | None
    overhead_bytes: BandPart
    reserve_bytes: int
    available_bytes: int | None
    spare_bytes: int | None
    verdict: Verdict | None


class LimitsPart(Struct, frozen=True, kw_only=True):
    """Largest workload that fits, per rank; not capped at the trained maximum."""

    max_batch: int | Literal["unlimited"] | None
    max_context: int | Literal["unlimited"] | None
    longest_sequence: int | Literal["unlimited"] | None
    """Longest single sequence."""
    min_tp: int | None
    """Fewest tensor-parallel ranks that fit; None where none does or memory is unknown."""
    largest_dtype: str | None
    """Widest element format that fits."""
    max_window: int | Literal["unlimited"] | None
    """Largest window that fits if full layers had one; "unlimited" where they fit without."""
    token_slack: int | None
    """Tokens each sequence may still grow before its next block."""


class StepPart(Struct, frozen=True, kw_only=True):
    """One decode step of the batch on one rank."""

    kv_read_bytes: int
    kv_write_bytes: int
    weight_read_bytes: int | None
    flops: int | None
    attention_flops: int | None
    intensity: float | None
    attention_intensity: float | None
    floor_ms: float | None
    bound: Literal["bandwidth", "compute"] | None
    tokens_per_s: float | None
    tokens_per_s_per_sequence: float | None


class PrefillPart(Struct, frozen=True, kw_only=True):
    """Filling the cache from nothing, on one rank."""

    flops: int | None
    bytes: int
    floor_ms: float | None
    bound: Literal["bandwidth", "compute"] | None


class LeverPart(Struct, frozen=True, kw_only=True):
    """One move: the smallest of its kind that fits."""

    name: str
    change: str
    fields: dict[str, str]
    """The typed fields that make the move."""
    saves_bytes: int
    fits: bool | None
    step_ms: float | None
    price: str


class FormulaPart(Struct, frozen=True, kw_only=True):
    """What stands behind one number."""

    name: str
    rule: str
    values: str
    source: str

    @property
    def line(self) -> str:
        """One line: rule = values."""
        return f"{self.rule} = {self.values}" if self.rule else self.values


class Answer(Struct, frozen=True, kw_only=True):
    """Everything ``kvtui size`` knows about one scenario."""

    schema: str = SIZE_SCHEMA
    model: str
    model_source: str
    workload: str
    layers: int
    batch: int
    context: int
    """The longest sequence."""
    dtype: str
    block: int
    payload: PayloadPart
    per_rank: RankPart
    stages: list[StagePart]
    """Pipeline stages; empty for one."""
    tp_strip: list[StripPart]
    capacity: CapacityPart
    reservations: list[ReservationPart]
    budget: BudgetPart
    limits: LimitsPart
    step: StepPart
    prefill: PrefillPart
    levers: list[LeverPart]
    formula: str
    explain: list[FormulaPart]
    warnings: list[str]

    def explanation(self, name: str) -> FormulaPart | None:
        """The formula of the number called ``name``; None where none is kept."""
        return next((one for one in self.explain if one.name == name), None)

    @property
    def sentence(self) -> str:
        """The verdict as a sentence, with what to move first when it does not fit."""
        spare = self.budget.spare_bytes
        if spare is None:
            return "No memory figure given: bytes only, no verdict."
        if self.budget.verdict == "over":
            moves = [lever for lever in self.levers if lever.fits]
            first = f" Move first: {moves[0].change}." if moves else " No single move fits."
            return f"Over by {format_bytes(-spare)}.{first}"
        if self.budget.verdict == "tight":
            band = self.budget.overhead_bytes
            return (
                f"Tight: {format_bytes(spare)} left, and the overhead may grow by another "
                f"{format_bytes(band.high - band.expected)}."
            )
        return f"Fits with {format_bytes(spare)} left."


def compose(scenario: Scenario) -> Answer:
    """Every number of ``scenario``."""
    tp = scenario.parallel.tp
    whole = payload(scenario.model, scenario.workload, scenario.storage)
    fullest = fullest_rank(scenario)
    rank = payload(
        fullest.model, fullest.workload, scenario.storage, tp=fullest.tp, dcp=fullest.dcp
    )
    reserved = ideal.reserved_bytes(scenario)
    found = budget(scenario, reserved)
    step = roofline.step(scenario)
    filling = roofline.prefill(scenario)
    limits = solve.limits(scenario)
    pool = capacity(scenario)
    singles = solve.levers(scenario)
    formulas = explanations(scenario, whole, found, step, filling, limits, pool)
    return Answer(
        model=scenario.model.name,
        model_source=scenario.model.source,
        workload=scenario.workload.name,
        layers=scenario.model.layers,
        batch=scenario.workload.batch,
        context=scenario.workload.longest,
        dtype=scenario.storage.kv.name,
        block=scenario.storage.block,
        payload=PayloadPart(
            bytes=whole.bytes,
            state_bytes=whole.state_bytes,
            bytes_per_token=whole.bytes_per_token,
            bytes_per_step=whole.bytes_per_step,
            per_sequence_bytes=whole.per_sequence_bytes,
            k_bytes=whole.k_bytes,
            v_bytes=whole.v_bytes,
            latent_bytes=whole.latent_bytes,
            index_bytes=whole.index_bytes,
            scale_bytes=whole.scale_bytes,
            groups=[
                GroupPart(
                    kind=one.kind,
                    layers=one.layers,
                    bytes=one.bytes,
                    state_bytes=one.state_bytes,
                    bytes_per_token=one.bytes_per_token,
                )
                for one in whole.groups
            ],
        ),
        per_rank=RankPart(
            tp=tp,
            kv_heads=_rank_kv_heads(scenario),
            bytes=rank.bytes,
            state_bytes=rank.state_bytes,
            reserved_bytes=reserved,
        ),
        stages=_stages(scenario),
        tp_strip=[
            StripPart(
                tp=one.tp, rank_bytes=one.rank_bytes, total_bytes=one.total_bytes, fits=one.fits
            )
            for one in solve.tp_strip(scenario)
        ],
        capacity=CapacityPart(
            block_bytes=pool.block_bytes,
            blocks=pool.blocks,
            blocks_per_sequence=pool.blocks_per_sequence,
            tokens=pool.tokens,
            concurrency=pool.concurrency,
            concurrency_at_mean=pool.concurrency_at_mean,
            concurrency_at_p95=pool.concurrency_at_p95,
        ),
        reservations=[
            ReservationPart(
                runtime=one.runtime,
                version=one.version,
                bytes=one.bytes,
                more_bytes=one.more_bytes,
                differences=list(one.differences),
            )
            for one in reservations(scenario)
        ],
        budget=BudgetPart(
            device=scenario.device.name,
            device_source=scenario.device.source,
            total_bytes=found.total_bytes,
            utilization=found.utilization,
            usable_bytes=found.usable_bytes,
            weights_bytes=found.weights_bytes,
            overhead_bytes=BandPart(
                low=found.overhead.low,
                expected=found.overhead.expected,
                high=found.overhead.high,
                source=found.overhead.source,
            ),
            reserve_bytes=found.reserve_bytes,
            available_bytes=found.available_bytes,
            spare_bytes=found.spare_bytes,
            verdict=found.verdict,
        ),
        limits=LimitsPart(
            max_batch=limits.max_batch,
            max_context=limits.max_context,
            longest_sequence=limits.longest_sequence,
            min_tp=limits.min_tp,
            largest_dtype=limits.largest_dtype,
            max_window=limits.max_window,
            token_slack=limits.token_slack,
        ),
        step=StepPart(
            kv_read_bytes=step.kv_read_bytes,
            kv_write_bytes=step.kv_write_bytes,
            weight_read_bytes=step.weight_read_bytes,
            flops=step.flops,
            attention_flops=step.attention_flops,
            intensity=step.intensity,
            attention_intensity=step.attention_intensity,
            floor_ms=step.floor_ms,
            bound=step.bound,
            tokens_per_s=step.tokens_per_s,
            tokens_per_s_per_sequence=step.tokens_per_s_per_sequence,
        ),
        prefill=PrefillPart(
            flops=filling.flops,
            bytes=filling.bytes,
            floor_ms=filling.floor_ms,
            bound=filling.bound,
        ),
        levers=[
            LeverPart(
                name=lever.name,
                change=lever.change,
                fields=dict(lever.fields),
                saves_bytes=lever.saves_bytes,
                fits=lever.fits,
                step_ms=lever.step_ms,
                price=lever.price,
            )
            for lever in (*singles, *solve.lever_pairs(scenario, singles))
        ],
        formula=str(formulas[0]),
        explain=[
            FormulaPart(name=one.name, rule=one.rule, values=one.values, source=one.source)
            for one in formulas
        ],
        warnings=list(scenario.warnings),
    )


def _stages(scenario: Scenario) -> list[StagePart]:
    if scenario.parallel.pp == 1:
        return []
    found = []
    for layers in stage_layers(scenario):
        model = stage_model(scenario.model, layers)
        part = payload(
            model, scenario.workload, scenario.storage, tp=scenario.parallel.attention_tp
        )
        found.append(
            StagePart(layers=layers, bytes_per_token=part.bytes_per_token, bytes=part.bytes)
        )
    return found


def _rank_kv_heads(scenario: Scenario) -> int | None:
    heads = {
        -(-group.kv_heads // scenario.parallel.attention_tp)
        if isinstance(group, FullAttention)
        else 1
        for group in scenario.model.groups
        if isinstance(group, FullAttention | LatentAttention)
    }
    return heads.pop() if len(heads) == 1 else None
