"""The contract of a layer kind: which rows it keeps, for how long, and which a step reads.

A kind answers in *entries* (one row set per kept token and layer); bytes follow from the element
format in ``sizing.payload``. Kept and read are two different answers: a window keeps what it
reads, a sparse indexer keeps all and reads a few. Kinds register with ``streams``, ``states``
and ``attention_flops``; adding one is a new file here and one line in the package root.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Literal

from kvtui.spec import LayerGroup, SequenceRun

Part = Literal["k", "v", "latent", "index", "state"]


@dataclass(frozen=True, slots=True)
class Row:
    """What one entry holds of one part: ``heads`` vectors of ``width``."""

    part: Part
    heads: int
    width: int
    sharded: bool
    """Heads are split over tensor-parallel ranks; otherwise every rank holds them all."""
    tail: int = 0
    """Last columns that some formats keep apart (the rotary part of a latent row)."""

    def heads_per_rank(self, tp: int) -> int:
        """Heads of the fullest of ``tp`` ranks; at least one (vLLM: max(1, Hkv // tp))."""
        return -(-self.heads // tp) if self.sharded else self.heads


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows that are kept and read together in every layer of a group."""

    rows: tuple[Row, ...]
    kept: Callable[[int], tuple[range, ...]]
    """Token positions whose entry is still held when a sequence has that many tokens."""
    read: Callable[[int], int]
    """Entries that one decode step reads at that length."""
    tokens_per_entry: int = 1
    """Tokens that share one entry (compressed caches)."""
    constant: bool = False
    """Set once per sequence and independent of its length."""
    splits: bool = False
    """Tokens may be split over context-parallel ranks (vLLM asserts dcp 1 for windows)."""

    def entries(self, tokens: int) -> int:
        """Entries held at that length."""
        return sum(len(part) for part in self.kept(tokens)) // self.tokens_per_entry


@dataclass(frozen=True, slots=True)
class StateTensor:
    """A constant per-sequence tensor of a recurrent layer."""

    name: str
    heads: int
    """The axis that tensor parallelism splits."""
    elements_per_head: int
    element_format: str

    def heads_per_rank(self, tp: int) -> int:
        """Heads of the fullest of ``tp`` ranks."""
        return -(-self.heads // tp)


@dataclass(frozen=True, slots=True)
class Term:
    """One kind's part of the payload formula: the rule and the same with values."""

    rule: str
    values: str


@dataclass(frozen=True, slots=True)
class Lengths:
    """The sequence lengths of a workload as text: B·T where all are equal, else a sum."""

    runs: tuple[SequenceRun, ...]

    def rule(self, bound: str = "") -> str:
        """The symbol for tokens held; ``bound`` names what limits a sequence's."""
        tokens = f"min(T,{bound})" if bound else "T"
        return f"B·{tokens}" if len(self.runs) == 1 else f"Σ{tokens}"

    def values(self, bound: str = "") -> str:
        """The same with numbers; long lists are given as their total."""
        if len(self.runs) > 4:
            return f"Σ({sum(run.count for run in self.runs)} lengths)"
        terms = [
            f"{run.count}·min({run.tokens},{bound})" if bound else f"{run.count}·{run.tokens}"
            for run in self.runs
        ]
        return terms[0] if len(terms) == 1 else f"({'+'.join(terms)})"


def everything(tokens: int) -> tuple[range, ...]:
    """All positions."""
    return (range(tokens),)


def last(window: int) -> Callable[[int], tuple[range, ...]]:
    """The last ``window`` positions."""
    return lambda tokens: (range(max(0, tokens - window), tokens),)


@singledispatch
def streams(group: LayerGroup) -> tuple[Stream, ...]:
    """What each layer of ``group`` keeps per token."""
    raise TypeError(f"no sizing rule for layer kind {type(group).__name__}")


@singledispatch
def states(group: LayerGroup) -> tuple[StateTensor, ...]:
    """What each layer of ``group`` keeps per sequence, whatever its length; usually nothing."""
    return ()


@singledispatch
def attention_flops(group: LayerGroup, tokens: int) -> int | None:
    """FLOPs with which one layer attends from one new token to ``tokens`` cached ones.

    A multiplication and an addition count two. None where the query heads are unknown.
    """
    raise TypeError(f"no FLOP rule for layer kind {type(group).__name__}")


@singledispatch
def term(group: LayerGroup, lengths: Lengths) -> Term:
    """The formula of ``group``'s entries over a workload's ``lengths``."""
    raise TypeError(f"no formula for layer kind {type(group).__name__}")
