"""What a live run is asked for: the shapes the engine builds, how they are kept, how far it goes.

Geometry only, like ``spec``: the engine that reads it may not know a byte formula.
"""

from dataclasses import dataclass
from typing import Final, Literal

from kvtui.spec import FullAttention, LatentAttention, LayerGroup

EndReason = Literal["target", "stopped", "oom", "nan", "refused", "lost"]
"""Why a live run ended."""

Work = Literal["attention", "layer", "block"]
CacheName = Literal["contiguous", "paged", "concat", "offload", "expanded"]
Backend = Literal["auto", "kernel", "torch"]
"""auto takes our kernel where there is one; the others insist."""
DEFAULT_HOT: Final = 1024
MLA_HEAD_WIDTH: Final = 128
"""Unrotated K and V of a DeepSeek-V2 or V3 head."""
GATHERING_BACKEND: Final = "blocks gathered"
"""How a run's backend begins where pages are copied before attention reads them."""
IN_PLACE_TOKENS: Final = 256
"""Pages this long are attended to where they lie on a CPU: an operator costs less than a copy."""
KERNEL_BACKEND: Final = "CPU decode kernel"
"""How a run's backend begins where our kernel attends."""


def expanded(group: LatentAttention) -> FullAttention:
    """MLA as the model is written: each head's own K and V, as caches kept them before absorption.

    Head widths that are not given are those of DeepSeek-V2 and V3 (arXiv:2405.04434).
    """
    heads = group.q_heads or 1
    return FullAttention(
        layers=group.layers,
        kv_heads=heads,
        q_heads=heads,
        k_width=(group.nope_dim or MLA_HEAD_WIDTH) + group.rope_dim,
        v_width=group.v_head_dim or MLA_HEAD_WIDTH,
    )


@dataclass(frozen=True, kw_only=True)
class DecodeRun:
    """One live run: the shapes the engine builds and how far it decodes."""

    groups: tuple[LayerGroup, ...]
    batch: int
    start: int
    """Tokens prefilled per sequence, T0."""
    target: int
    """Cache length per sequence at which the run ends, T."""
    dtype: str = "fp32"
    hidden_size: int | None = None
    """Residual width; None takes Hq x D of the first attention group."""
    cache: CacheName = "contiguous"
    block: int = 16
    """Tokens of one block of a paged cache."""
    lengths: tuple[int, ...] = ()
    """Target of each sequence where they differ, ``[B]``; the longest is ``target``."""
    shared_prefix: int = 0
    """First tokens that all sequences share, in whole blocks of a paged cache."""
    hot: int = DEFAULT_HOT
    """Tokens a sequence that an offloaded cache keeps on the device."""
    work: Work = "layer"
    backend: Backend = "auto"
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    threads: int | None = None
    """CPU threads of the engine; None leaves one core to the screen."""
    margin_bytes: int | None = None
    """Memory that must stay free; None takes the device's default."""
    time_limit_s: float | None = None
    probe_bytes: int | None = None
    """Size of the read probe that measures the limit; None takes the rule, 0 skips it."""
    seed: int = 7

    @property
    def stored_groups(self) -> tuple[LayerGroup, ...]:
        """What the caches keep: with ``expanded``, K and V of every head, no latent row."""
        if self.cache != "expanded":
            return self.groups
        return tuple(
            expanded(group) if isinstance(group, LatentAttention) else group
            for group in self.groups
        )

    @property
    def behind(self) -> tuple[int, ...]:
        """Tokens that each sequence is shorter than the longest; empty where all are alike."""
        short = tuple(self.target - one for one in self.lengths)
        return short if any(short) else ()

    @property
    def whole_block_prefix(self) -> int:
        """Tokens of the shared prefix that fill whole blocks, which alone are shared."""
        return self.shared_prefix // self.block * self.block
