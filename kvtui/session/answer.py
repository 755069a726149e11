"""The sizing answer: every number of one scenario, as ``size --json`` prints it.

Keys and meanings are the published interface (schema ``kvtui.size/1``); units are in the names.
``compose`` is the only place that gathers them, for the text report, the JSON and the screen.
"""

from typing import Final

from kvtui import levers, roofline, solve
from kvtui.capacity import capacity
from kvtui.prefix_caching import prefix_caching
from kvtui.runtimes import ideal, reservations
from kvtui.session.explanations import explanations
from kvtui.session.parts import (
    BandPart,
    BudgetPart,
    CapacityPart,
    DifferencePart,
    FormulaPart,
    GroupPart,
    LeverPart,
    LimitsPart,
    PayloadPart,
    PoolPart,
    PrefillPart,
    PrefixCachingPart,
    RankPart,
    ReservationPart,
    StagePart,
    StepPart,
    StripPart,
    Struct,
)
from kvtui.sizing.budget import budget
from kvtui.sizing.payload import payload
from kvtui.sizing.rank import fullest_rank, stage_layers, stage_model
from kvtui.spec import FullAttention, LatentAttention, Scenario
from kvtui.units import format_bytes

SIZE_SCHEMA: Final = "kvtui.size/1"


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
    prefix_caching: PrefixCachingPart | None
    """None where neither a shared prefix nor a hit rate was given."""
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
    singles = levers.levers(scenario)
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
                source=one.source,
                bytes=one.bytes,
                more_bytes=one.more_bytes,
                share_of=one.share_of,
                fits=one.fits,
                pool=PoolPart(
                    bytes=one.pool.bytes,
                    block_tokens=one.pool.block_tokens,
                    block_bytes=one.pool.block_bytes,
                    blocks=one.pool.blocks,
                    tokens=one.pool.tokens,
                    concurrency=one.pool.concurrency,
                    concurrency_at_mean=one.pool.concurrency_at_mean,
                    log=list(one.pool.log),
                ),
                differences=[
                    DifferencePart(what=two.what, bytes=two.bytes) for two in one.differences
                ],
                notes=list(one.notes),
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
        prefix_caching=_prefix_caching(scenario),
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
            for lever in (*singles, *levers.lever_pairs(scenario, singles))
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


def _prefix_caching(scenario: Scenario) -> PrefixCachingPart | None:
    found = prefix_caching(scenario)
    if found is None:
        return None
    return PrefixCachingPart(
        hit_rate=found.hit_rate,
        prefix_tokens=found.prefix_tokens,
        cached_tokens=found.cached_tokens,
        hits=found.hits,
        saves_bytes=found.saves_bytes,
        saves_blocks=found.saves_blocks,
        saves_prefill_flops=found.saves_prefill_flops,
        saves_prefill_ms=found.saves_prefill_ms,
        missed_bytes=found.missed_bytes,
        room_prefixes=found.room_prefixes,
        sentence=found.sentence,
    )


def _rank_kv_heads(scenario: Scenario) -> int | None:
    heads = {
        -(-group.kv_heads // scenario.parallel.attention_tp)
        if isinstance(group, FullAttention)
        else 1
        for group in scenario.model.groups
        if isinstance(group, FullAttention | LatentAttention)
    }
    return heads.pop() if len(heads) == 1 else None
