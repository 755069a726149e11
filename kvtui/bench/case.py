"""What a case is made of: the set-up it runs under, shapes, and candidates that race each other.

A candidate is one way to take a decode step through all layers of a shape. Candidates of one group
are alive together and timed sweep by sweep in turn; groups of a case follow each other, so that a
case needs memory for one group only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from kvtui.engine.limits import Probe

if TYPE_CHECKING:  # importing it imports numba
    from kvtui.engine.kernels.cpu import CpuKernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Where and how large."""

    device: torch.device
    dtype: str
    """Format of the cases that do not compare formats: fp32, bf16 or fp16."""
    threads: int
    sweep_bytes: int
    """Most cache bytes of one candidate."""
    room_bytes: int
    """Most cache bytes of all candidates of a group."""
    seconds: float
    """Time to measure one group of candidates."""
    probe: Probe
    """Reads and copies at the device's limit."""
    kernel: "CpuKernel | None" = None
    """The CPU decode kernel, compiled."""
    kernel_why: str = "it is for CPUs"
    """Why there is no kernel."""

    @property
    def on_cuda(self) -> bool:
        """Whether the device is a GPU."""
        return self.device.type == "cuda"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Layers and what each attends to."""

    layers: int
    batch: int
    q_heads: int
    kv_heads: int
    k_width: int
    v_width: int
    tokens: int
    """Per sequence, the one just appended included."""

    @property
    def work(self) -> float:
        """Cached tokens that one step attends to, over all layers: what ratios are taken of."""
        return float(self.layers * self.batch * self.tokens)

    @property
    def flops(self) -> int:
        """Multiplications and additions of scores and weighted values in one step."""
        width = self.k_width + self.v_width
        return 2 * self.layers * self.batch * self.q_heads * width * self.tokens

    def fitted(self, token_bytes: int, most_bytes: int, *, least_batch: int = 1) -> "Shape":
        """This shape cut to ``most_bytes``: fewer layers, then sequences, then tokens.

        Args:
            token_bytes: bytes that one token of one sequence takes in one layer.
            most_bytes: what all layers may take.
            least_batch: sequences to keep while tokens can still be cut.
        """
        batch = max(least_batch, min(self.batch, most_bytes // (token_bytes * self.tokens)))
        tokens = max(2, min(self.tokens, most_bytes // (token_bytes * batch)))
        layers = max(1, min(self.layers, most_bytes // (token_bytes * batch * tokens)))
        return replace(self, batch=batch, tokens=tokens, layers=layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One layer's output and what it is computed from, compared once before anything is timed."""

    output: Callable[[], Tensor]
    """``[B, Hq, 1, Dv]``."""
    q: Tensor
    """``[B, Hq, 1, Dk]``."""
    truth: Callable[[], tuple[Tensor, Tensor]]
    """K ``[B, Hkv, t, Dk]`` and V ``[B, Hkv, t, Dv]`` that were attended to."""
    scale: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to take the step."""

    name: str
    """Unique in its group; the row's ``backend`` and the name in another's ``against``."""
    shape: Shape | None
    """None for a probe, which has no tokens."""
    dtype: str
    sweep: Callable[[], object]
    """One decode step through all layers."""
    bytes: int
    """Algorithmic: cache entries read once, and the append; never what is wasted."""
    check: Check | None = None
    against: tuple[str, ...] = ()
    """Candidates of the group that this one's tokens/s are divided by."""
    threads: int | None = None
    """Where they are not those of the set-up."""
    work: float | None = None
    """In a unit common to the group, where that is not cached tokens times layers."""
    copies: str = ""
    """How K and V are copied or repeated before they are read; empty where they are not."""
    read_tokens: int | None = None
    """Tokens read per sequence, where that is more than ``shape.tokens``."""
    attended: int | None = None
    """Tokens attended to per sequence, where that is less than ``shape.tokens``."""
    over_time: bool = False
    """Its last quarter is set beside its first."""
    kernel: Callable[[], str | None] | None = None
    """Names what ran, where the profiler cannot; None asks the profiler."""
    graph: bool = False
    """Replays a CUDA graph, so that launches cost the host nothing."""
    done: Callable[[], int] | None = None
    """Steps taken so far, where a sweep may be more or less than one."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A candidate that cannot run here."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Group:
    """Candidates alive together."""

    candidates: tuple[Candidate, ...]
    skipped: tuple[Skip, ...] = ()
    least_rounds: int = 6
    """With six the range of the samples is the 95 % interval of their median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A named comparison."""

    name: str
    shows: str
    groups: Callable[[Setup], Iterator[Group]]
    only: str = ""
    """The device type it is for; any when empty."""
    asked: bool = False
    """Runs only when named."""
    seconds: float | None = None
    """Time to measure, where it is the point of the case."""
