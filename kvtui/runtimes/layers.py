"""The layers of a rank as an engine sees them: how many keep the same rows for the same span.

What one entry takes is the vocabulary's; for how long it is kept, in which pages and for which
sequences is each engine's own rule and stands in its file.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

from kvtui.dtypes import FORMATS
from kvtui.sizing.kinds import Row, streams
from kvtui.sizing.payload import entry_bytes, state_bytes
from kvtui.sizing.rank import Rank, reserving
from kvtui.spec import (
    ChunkedAttention,
    CompressedAttention,
    LayerGroup,
    RecurrentState,
    SinksWindow,
    SlidingWindow,
    Storage,
    Workload,
)

Span = Literal["everything", "window", "chunk", "source", "state"]
INDEX_FORMAT: Final = FORMATS["fp8-ds-mla"]
"""Index keys of a sparse indexer: fp8 with an fp32 scale for 128 values, whatever the cache's
format: 132 B for 128 (vLLM ``deepseek_v2.py`` indexer cache, SGLang ``pool_configurator.py``,
TensorRT-LLM alike)."""


@dataclass(frozen=True, slots=True)
class LayerSet:
    """Layers that keep rows of one size for one span of tokens."""

    layers: int
    span: Span
    """``source`` and ``state`` do not depend on the sequence's length."""
    bytes: int
    """Of one entry, or of one sequence's state, in one layer on this rank."""
    limit: int = 0
    """Tokens of the window, the chunk or the source."""
    ratio: int = 1
    """Tokens that share one entry (compressed caches)."""
    splits: bool = False
    """Tokens are split over context-parallel ranks."""
    k_bytes: int = 0
    """The part of ``bytes`` that is K, a latent row or an index key."""
    v_bytes: int = 0


Reshape = Callable[[LayerGroup], LayerGroup]


def as_it_is(group: LayerGroup) -> LayerGroup:
    """No change."""
    return group


def layer_sets(
    rank: Rank,
    storage: Storage,
    *,
    scaled_index: bool = True,
    reshape: Reshape = as_it_is,
) -> tuple[LayerSet, ...]:
    """The sets of a rank's own layers and of its draft model, equal ones put together.

    Args:
        rank: layers and ranks that share their heads.
        storage: element formats of the cache.
        scaled_index: index keys are kept in fp8 with scales; otherwise in the cache's format.
        reshape: what the engine changes of a group's geometry.
    """
    layers: dict[LayerSet, int] = {}
    for model in (rank.model, rank.draft):
        for group in model.groups if model is not None else ():
            shaped = reshape(group)
            for key in _sets_of(shaped, storage, rank.tp, scaled_index):
                layers[key] = layers.get(key, 0) + shaped.layers
    return tuple(_counted(key, count) for key, count in layers.items() if count)


@lru_cache(maxsize=4096)
def _counted(one: LayerSet, layers: int) -> LayerSet:
    return replace(one, layers=layers)


@lru_cache(maxsize=4096)
def _sets_of(
    group: LayerGroup, storage: Storage, tp: int, scaled_index: bool
) -> tuple[LayerSet, ...]:
    """The sets of one group, without their number of layers; asked hundreds of times alike."""
    return tuple(_drawn_sets(group, storage, tp, scaled_index))


def _drawn_sets(
    group: LayerGroup, storage: Storage, tp: int, scaled_index: bool
) -> Iterator[LayerSet]:
    if isinstance(group, RecurrentState):
        yield LayerSet(0, "state", state_bytes(group, tp))
    for at, stream in enumerate(streams(group)):
        span, limit = _span(group, at)
        if stream.constant:
            span, limit = "source", stream.entries(1)
        elif not stream.entries(2**20):
            continue  # reads the cache of another layer
        index = scaled_index and all(row.part == "index" for row in stream.rows)
        kept_as = Storage(kv=INDEX_FORMAT) if index else storage
        k_bytes, v_bytes = (
            entry_bytes(tuple(row for row in stream.rows if _is_v(row) is wanted), kept_as, tp)
            for wanted in (False, True)
        )
        yield LayerSet(
            layers=0,
            span=span,
            bytes=k_bytes + v_bytes,
            limit=limit,
            ratio=stream.tokens_per_entry,
            splits=stream.splits,
            k_bytes=k_bytes,
            v_bytes=v_bytes,
        )


def _is_v(row: Row) -> bool:
    return row.part == "v"


def _span(group: LayerGroup, at: int) -> tuple[Span, int]:
    """For how long entries stay; no engine drops what lies between sinks and window."""
    if isinstance(group, SlidingWindow) and not isinstance(group, SinksWindow):
        return "window", group.window
    if isinstance(group, ChunkedAttention):
        return "chunk", group.chunk
    if isinstance(group, CompressedAttention) and at == 0:
        return "window", group.window
    return "everything", 0


def geometry_words(rank: Rank, *, scaled_index: bool = True) -> list[str]:
    """How the geometry that engines store differs from the model's own, in words."""
    groups = [*rank.model.groups, *(rank.draft.groups if rank.draft is not None else ())]
    words = []
    if any(isinstance(group, SinksWindow) for group in groups):
        words.append("what lies between sinks and window is kept")
    if scaled_index and any(getattr(group, "index_width", 0) for group in groups):
        words.append("index keys are fp8 with a scale for 128")
    return words


def plain_bytes(sets: tuple[LayerSet, ...], rank: Rank, block: int) -> int:
    """The ideal's rule over ``sets``: bare windows, blocks of ``block``, one state a sequence.

    A shared prefix is held once where everything is kept, and not shared in windows.
    """
    workload = reserving(rank.workload)
    total = 0
    for one in sets:
        if one.span == "everything":
            held = kept_tokens(one, workload, block, rank.dcp)
        elif one.span == "state":
            held = workload.batch * (1 + workload.lookahead)
        elif one.span == "source":
            held = workload.batch * one.limit
        else:
            held = sum(
                in_blocks(min(run.tokens, one.limit), block) * run.count for run in workload.runs
            )
        total += held * one.layers * one.bytes
    return total


def kept_tokens(one: LayerSet, workload: Workload, block: int, dcp: int) -> int:
    """Entries of all sequences in whole blocks where everything is kept, a prefix once."""
    step = block * (dcp if one.splits else one.ratio)
    prefix = workload.shared_prefix // step * step

    def entries(tokens: int) -> int:
        mine = -(-tokens // dcp) if one.splits else tokens // one.ratio
        return in_blocks(mine, block)

    own = sum(entries(run.tokens - prefix) * run.count for run in workload.runs)
    return own + entries(prefix)


def in_blocks(entries: int, block: int) -> int:
    """Rounded up to whole blocks."""
    return -(-entries // block) * block
