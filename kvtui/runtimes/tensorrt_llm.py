"""TensorRT-LLM: one pool of blocks for each window size.

Read in ``docs/source/features/kvcache.md`` (0076e93), ``docs/source/reference/memory.md``
(5a211b9), ``_torch/pyexecutor/_util.py`` and ``batch_manager/kvCacheManager.h`` of 1.0 to 2026.
A block holds a power of two of tokens, 32 by default. A window keeps its blocks and one more, so
that a whole window is always there; chunked layers are not partitioned and keep everything.
Recurrent states are an intercept that is taken off the budget first. The memory is
``free_gpu_memory_fraction`` (0.9) of what is free once weights and the peak of a dry run are in.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from kvtui.runtimes.base import Pool, Runtime, rest_bytes, sequences_held, tokens_held, typed_share
from kvtui.runtimes.layers import (
    LayerSet,
    geometry_words,
    in_blocks,
    kept_tokens,
    layer_sets,
    plain_bytes,
)
from kvtui.sizing.rank import fullest_rank, reserving
from kvtui.spec import Scenario, Storage, Workload
from kvtui.units import GIB

FRACTION: Final = 0.9
BLOCK: Final = 32
_WINDOW_EXTRA_BLOCKS: Final = 1
"""``kSWAExtraBlock``."""


@dataclass(frozen=True)
class TensorRtLlm(Runtime):
    """TensorRT-LLM's paged cache."""

    name: ClassVar[str] = "tensorrt-llm"
    version: ClassVar[str] = "1.0 to main of 2026"
    source: ClassVar[str] = "docs/source/features/kvcache.md, batch_manager/kvCacheManager.h"
    formats: ClassVar[tuple[str, ...]] = ("bf16", "fp16", "fp32", "fp8", "nvfp4", "int8-channel")

    def reserved_bytes(self, scenario: Scenario) -> int:
        """Blocks of every pool and the states."""
        rank = fullest_rank(scenario)
        return _paged_bytes(
            _partitioned(layer_sets(rank, scenario.storage)),
            reserving(rank.workload),
            block_tokens(scenario.storage),
            rank.dcp,
        )

    def rungs(self, scenario: Scenario) -> Iterator[tuple[str, int]]:
        """Geometry, chunks, blocks."""
        rank, asked = fullest_rank(scenario), scenario.storage.block
        sets, words = layer_sets(rank, scenario.storage), geometry_words(rank)
        if scenario.workload.shared_prefix:
            words.append("a prefix is reused where everything is kept")
        yield "; ".join(words) or "geometry", plain_bytes(sets, rank, asked)
        stored = _partitioned(sets)
        yield "chunked layers keep everything", plain_bytes(stored, rank, asked)
        windows = any(one.span == "window" for one in stored)
        yield (
            f"blocks of {block_tokens(scenario.storage)} tokens"
            + (", one more for a window" if windows else ""),
            self.reserved_bytes(scenario),
        )

    def pool(self, scenario: Scenario) -> Pool:
        """Blocks where one pool is enough, and what they hold."""
        available, rank = self.available_bytes(scenario), fullest_rank(scenario)
        sets = _partitioned(layer_sets(rank, scenario.storage))
        block = block_tokens(scenario.storage)
        one_pool = bool(sets) and all(one.span == "everything" and one.ratio == 1 for one in sets)
        size = block * sum(one.layers * one.bytes for one in sets) if one_pool else None
        at_once = sequences_held(self, scenario, available)
        if available is None or at_once is None:
            return Pool(None, block, size)
        blocks = max(0, available // size) if size else None
        tokens = tokens_held(scenario, at_once) if blocks is None else blocks * block * rank.dcp
        charged = _charged_bytes(sets)
        said = tokens if charged is None else max(0, available // (charged * block)) * block
        return Pool(
            bytes=available,
            block_tokens=block,
            block_bytes=size,
            blocks=blocks,
            tokens=tokens,
            concurrency=at_once,
            log=(
                f"Allocated {available / GIB:.2f} GiB for max tokens in paged KV cache ({said}).",
            ),
        )

    def share(self, scenario: Scenario) -> float:
        """``free_gpu_memory_fraction``."""
        return typed_share(scenario, FRACTION)

    def share_of(self, scenario: Scenario) -> str:
        """Of what is free after loading and the dry run."""
        return (
            f"free_gpu_memory_fraction {self.share(scenario):g} of what weights and the peak of "
            "a dry run leave free"
        )

    def memory_left(self, scenario: Scenario, memory_bytes: int) -> int:
        """Share of the rest, not of the total."""
        return int((memory_bytes - rest_bytes(scenario)) * self.share(scenario))


def block_tokens(storage: Storage) -> int:
    """Tokens of a block: as typed, rounded up to a power of two, else the default."""
    return 1 << (storage.block - 1).bit_length() if storage.block > 1 else BLOCK


def _charged_bytes(sets: tuple[LayerSet, ...]) -> int | None:
    """What the log's token count charges for one: every layer in full, windows as well.

    None beside states and compressed entries, whose count is another.
    """
    if any(one.span in ("state", "source") or one.ratio > 1 for one in sets):
        return None
    return sum(one.layers * one.bytes for one in sets) or None


def _partitioned(sets: tuple[LayerSet, ...]) -> tuple[LayerSet, ...]:
    return tuple(
        replace(one, span="everything", limit=0) if one.span == "chunk" else one for one in sets
    )


def _paged_bytes(sets: tuple[LayerSet, ...], workload: Workload, block: int, dcp: int) -> int:
    total = 0
    for one in sets:
        if one.span == "everything":
            held = kept_tokens(one, workload, block, dcp)
        elif one.span == "state":
            held = workload.batch * (1 + workload.lookahead)
        elif one.span == "source":
            held = workload.batch * in_blocks(one.limit, block)
        else:
            most = in_blocks(one.limit, block) + _WINDOW_EXTRA_BLOCKS * block
            held = sum(min(in_blocks(run.tokens, block), most) * run.count for run in workload.runs)
        total += held * one.layers * one.bytes
    return total
