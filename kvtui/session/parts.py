"""The parts of a sizing answer, as ``size --json`` prints them; units are in the names.

Meanings are the published interface. Nothing here computes.
"""

from typing import Literal

import msgspec

from kvtui.runtimes import Difference
from kvtui.sizing.budget import Verdict


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


class DifferencePart(Struct, frozen=True, kw_only=True):
    """One rule by which a runtime departs from the ideal; the bytes add up to ``more_bytes``."""

    what: str
    bytes: int

    @property
    def text(self) -> str:
        """Words, then signed bytes."""
        return str(Difference(self.what, self.bytes))


class PoolPart(Struct, frozen=True, kw_only=True):
    """What a runtime's pool holds in the memory it would give the cache."""

    bytes: int | None
    block_tokens: int | None
    block_bytes: int | None
    blocks: int | None
    tokens: int | None
    concurrency: float | None
    concurrency_at_mean: float | None
    log: list[str]
    """Lines that the engine would print."""


class ReservationPart(Struct, frozen=True, kw_only=True):
    """What one runtime would take, on the fullest rank."""

    runtime: str
    version: str
    source: str
    bytes: int
    more_bytes: int
    share_of: str
    """What its share of memory is a share of."""
    fits: bool | None
    """The workload fits that share; None where the memory is unknown."""
    pool: PoolPart
    differences: list[DifferencePart]
    notes: list[str]


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


class PrefixCachingPart(Struct, frozen=True, kw_only=True):
    """What a prefix cache saves on one rank, beside sequences that share nothing."""

    hit_rate: float
    prefix_tokens: int
    cached_tokens: int
    """Of whole blocks."""
    hits: int
    saves_bytes: int
    saves_blocks: int
    saves_prefill_flops: int | None
    saves_prefill_ms: float | None
    missed_bytes: int
    """Copies that misses hold; the payload counts the prefix once."""
    room_prefixes: int | None
    sentence: str


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
