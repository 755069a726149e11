"""What a device leaves for the cache, and the verdict.

available = total x utilization - weights - expected overhead - reserve, per rank. Overheads are a
band, since peers' constants differ tenfold: a cache that fits only below its high end is tight.
"""

from dataclasses import dataclass
from typing import Literal

from kvtui.dtypes import ElementFormat, element_format
from kvtui.sizing import weights
from kvtui.sizing.formula import Formula
from kvtui.sizing.rank import block_bytes, stage_layers
from kvtui.spec import Band, Scenario
from kvtui.units import format_gib

Verdict = Literal["fits", "tight", "over"]


@dataclass(frozen=True, slots=True)
class Budget:
    """Memory of one rank, bytes; None where the device's memory is unknown."""

    total_bytes: int | None
    utilization: float
    weights_bytes: int | None
    """None where the weights are unknown; they then count as nothing, with a warning."""
    overhead: Band
    """Activations, graphs, context and communication buffers together."""
    reserve_bytes: int
    available_bytes: int | None
    reservation_bytes: int
    """What the cache takes on this rank."""

    @property
    def usable_bytes(self) -> int | None:
        """What may be used at all: total x utilization."""
        return None if self.total_bytes is None else int(self.total_bytes * self.utilization)

    @property
    def spare_bytes(self) -> int | None:
        """Left over when the cache is in; negative when it does not fit."""
        if self.available_bytes is None:
            return None
        return self.available_bytes - self.reservation_bytes

    @property
    def verdict(self) -> Verdict | None:
        """``tight`` when it fits the expected overhead and not the high end of the band."""
        spare = self.spare_bytes
        if spare is None:
            return None
        if spare < 0:
            return "over"
        return "tight" if spare < self.overhead.high - self.overhead.expected else "fits"


def weight_format(scenario: Scenario) -> ElementFormat:
    """Element format of the weights: typed, else the one the checkpoint is published in."""
    return scenario.budget.weights_format or element_format(
        "weights dtype", scenario.model.weights_format
    )


def weights_bytes(scenario: Scenario) -> int | None:
    """Weights of the fullest rank, a draft model's included; None where they are unknown."""
    own = _own_weights_bytes(scenario)
    draft = scenario.draft
    if draft is None or own is None:
        return own
    tp = scenario.parallel.tp
    if draft.stored_weights_bytes is not None:
        return own + -(-draft.stored_weights_bytes // tp)
    drafted = weights.stored_bytes(
        draft, element_format("weights dtype", draft.weights_format), tp=tp
    )
    return own + drafted


def _own_weights_bytes(scenario: Scenario) -> int | None:
    """Weights of the model itself: typed, stored in the file, or from the architecture.

    Typed and stored figures are of the whole model and divided over all ranks; pipeline stages
    are taken to hold equal shares by layers.
    """
    parallel, model = scenario.parallel, scenario.model
    typed = scenario.budget.weights_bytes
    whole = typed if typed is not None else model.stored_weights_bytes
    if whole is not None:
        return -(-whole // parallel.ranks)
    if not model.parameters:
        return None
    stored = weights.stored_bytes(
        model,
        weight_format(scenario),
        tp=parallel.tp,
        attention_tp=parallel.attention_tp,
        ep=parallel.ep,
    )
    return -(-stored * max(stage_layers(scenario), default=0) // max(1, model.layers))


def available_bytes(scenario: Scenario) -> int | None:
    """What one rank has for its cache: given directly, or what its memory leaves.

    None where neither is known.
    """
    terms = scenario.budget
    if terms.kv_blocks is not None:
        size = block_bytes(scenario)
        return None if size is None else terms.kv_blocks * size
    if terms.kv_bytes is not None:
        return terms.kv_bytes
    total = scenario.device.memory_bytes
    if total is None:
        return None
    usable = int(total * terms.utilization)
    overhead = terms.activations + terms.overhead
    return usable - (weights_bytes(scenario) or 0) - overhead.expected - terms.reserve_bytes


def budget(scenario: Scenario, reservation_bytes: int) -> Budget:
    """The budget of one rank with ``reservation_bytes`` of cache set against it."""
    terms = scenario.budget
    return Budget(
        total_bytes=scenario.device.memory_bytes,
        utilization=terms.utilization,
        weights_bytes=weights_bytes(scenario),
        overhead=terms.activations + terms.overhead,
        reserve_bytes=terms.reserve_bytes,
        available_bytes=available_bytes(scenario),
        reservation_bytes=reservation_bytes,
    )


def budget_formula(found: Budget, device: str) -> Formula:
    """How the available bytes come about."""
    return Formula(
        "budget.available_bytes",
        "total × utilization − weights − overhead − reserve",
        f"{format_gib(found.total_bytes)} × {found.utilization:g} − "
        f"{format_gib(found.weights_bytes)} − {format_gib(found.overhead.expected)} − "
        f"{format_gib(found.reserve_bytes)} = {format_gib(found.available_bytes)}",
        f"{device}; overhead: {found.overhead.source}",
    )
