"""vLLM: pages of one size for all layers, in groups of equally many layers.

Read in ``v1/kv_cache_interface.py``, ``v1/core/kv_cache_utils.py`` (001cabc), ``config/vllm.py``,
``config/cache.py`` (002f10e), ``models/config.py`` (0144dd5) and ``layers/mamba/mamba_utils.py``
(02d7108) of 0.11 to 2026's main. The rules, newest first where ages differ:

* A window keeps ``min(w - 1 + in flight, T)`` tokens and one page more, a chunk the same without
  that page. In flight are two batches of ``max_num_batched_tokens`` (asynchronous scheduling).
* Layers of one kind are one group where all are alike; otherwise groups have as many layers as the
  rarest kind (as the commonest, where that is below 1.5 times), the last group is padded, and all
  pages are made equal: smaller ones take more tokens where that divides, else padding.
* Beside recurrent layers an attention block is ``16 x ceil(state / (16 x bytes a token))`` tokens
  and the state is padded to that page; one page a sequence and speculated token, and one more
  where a prefix is cached.
* One block of the pool is the null block. The memory is ``total x gpu_memory_utilization`` (0.92)
  less weights, peak activations, what is not torch's, and graphs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from kvtui.dtypes import FORMATS
from kvtui.runtimes.base import Pool, Runtime, rest_bytes, sequences_held, tokens_held, typed_share
from kvtui.runtimes.layers import LayerSet, geometry_words, kept_tokens, layer_sets, plain_bytes
from kvtui.sizing.rank import Rank, fullest_rank, reserving
from kvtui.spec import (
    CompressedAttention,
    IndexedLatent,
    LayerGroup,
    RecurrentState,
    Scenario,
    SequenceRun,
    Storage,
    Workload,
)
from kvtui.units import GIB

UTILIZATION: Final = 0.92
"""``gpu_memory_utilization``, 0.90 before 2026."""
BLOCK: Final = 16
_NULL_BLOCKS: Final = 1
_PADDING_FACTOR: Final = 1.5
"""1.25 in 0.11."""
_BATCHES_IN_FLIGHT: Final = 2
_BATCHED_TOKENS: Final = 8192
"""``max_num_batched_tokens`` of the server on a device of 70 GiB or more; else 2048."""
_BATCHED_TOKENS_SMALL: Final = 2048
_LARGE_DEVICE_BYTES: Final = 70 * GIB


@dataclass(frozen=True, slots=True)
class Page:
    """How one set of layers is paged."""

    layers: LayerSet
    tokens: int
    """Of one page; 0 where a page is a state."""
    bytes: int
    """Of one page in one layer, padding included."""
    groups: int
    """Groups that these layers fill, the last perhaps padded."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The pages of a model; a block of the pool is one page in each layer of a group."""

    pages: tuple[Page, ...]
    group_layers: int
    """Layers of one group; 0 where each set has blocks of its own."""

    @property
    def block_bytes(self) -> int:
        """One block of the pool."""
        return max((page.bytes for page in self.pages), default=0) * self.group_layers


@dataclass(frozen=True)
class Vllm(Runtime):
    """vLLM's paged cache."""

    name: ClassVar[str] = "vllm"
    version: ClassVar[str] = "0.11 to main of 2026"
    source: ClassVar[str] = "vllm/v1/kv_cache_interface.py, vllm/v1/core/kv_cache_utils.py"
    formats: ClassVar[tuple[str, ...]] = (
        "bf16",
        "fp16",
        "fp8",
        "fp8-token-head",
        "fp8-head",
        "fp8-ds-mla",
        "int8",
        "int4-token-head",
        "nvfp4",
        "fp32",
    )
    in_flight_tokens: int | None = None
    """Tokens that may be in flight, of all sequences; None takes two batches of the default."""

    def reserved_bytes(self, scenario: Scenario) -> int:
        """Blocks of all sequences and the null block."""
        layout, rank = self.layout(scenario), fullest_rank(scenario)
        return self._paged_bytes(layout, rank, self._in_flight(scenario)) + (
            _NULL_BLOCKS * layout.block_bytes
        )

    def rungs(self, scenario: Scenario) -> Iterator[tuple[str, int]]:
        """Geometry, tokens in flight, pages, page unification, group padding, null block."""
        rank, asked = fullest_rank(scenario), scenario.storage.block
        sets, in_flight = _stored(rank, scenario.storage), self._in_flight(scenario)
        words = geometry_words(rank)
        if scenario.workload.shared_prefix:
            words.append("a prefix is shared where everything is kept")
        if scenario.workload.lookahead:
            words.append("states keep a copy for each speculated token")
        yield "; ".join(words) or "geometry", plain_bytes(sets, rank, asked)
        yield (
            f"windows hold up to {in_flight:,} tokens in flight as well",
            self._loose_bytes(sets, rank, asked, in_flight),
        )
        block, windows = _block(scenario.storage), any(one.span == "window" for one in sets)
        apart = Layout(tuple(_own_page(one, block) for one in sets), 0)
        kept = _caches_prefixes(rank.workload) and any(one.span == "state" for one in sets)
        yield (
            f"pages of {block} tokens"
            + (", one more for a window" if windows else "")
            + (", a state more at the prefix's end" if kept else ""),
            self._paged_bytes(apart, rank, in_flight),
        )
        layout = self.layout(scenario)
        loose = replace(layout, group_layers=0)
        yield _unified_words(layout), self._paged_bytes(loose, rank, in_flight)
        padding = sum(
            page.groups * layout.group_layers - page.layers.layers for page in layout.pages
        )
        count = sum(page.groups for page in layout.pages)
        yield (
            f"{padding} padding layers in {count} groups of {layout.group_layers}",
            self._paged_bytes(layout, rank, in_flight),
        )
        yield "the null block", self.reserved_bytes(scenario)

    def layout(self, scenario: Scenario) -> Layout:
        """Groups and pages of the fullest rank."""
        rank = fullest_rank(scenario)
        sets, block = _stored(rank, scenario.storage), _block(scenario.storage)
        if any(isinstance(group, CompressedAttention) for group in rank.model.groups):
            return Layout(tuple(_own_page(one, block) for one in sets), 0)
        kinds = {(one.span, one.limit) for one in sets}
        if len(kinds) <= 1:
            return _uniform(sets, block)
        least, most = (pick(one.layers for one in sets) for pick in (min, max))
        group_layers = most if most < least * _PADDING_FACTOR else least
        return Layout(
            tuple(
                replace(page, groups=-(-page.layers.layers // group_layers))
                for page in _unified(sets, block)
            ),
            group_layers,
        )

    def sequence_blocks(self, scenario: Scenario, tokens: int) -> int:
        """Blocks of the pool that admitting one sequence of ``tokens`` asks for."""
        alone = replace(
            scenario.workload,
            runs=(SequenceRun(tokens, 1),),
            shared_prefix=min(scenario.workload.shared_prefix, tokens),
            in_flight=0,
        )
        return sum(
            page.groups
            * _workload_pages(
                page, reserving(alone), scenario.parallel.dcp, self._in_flight(scenario)
            )
            for page in self.layout(scenario).pages
        )

    def pool(self, scenario: Scenario) -> Pool:
        """Blocks, the tokens and the concurrency that vLLM prints."""
        available, layout = self.available_bytes(scenario), self.layout(scenario)
        parallel, longest = scenario.parallel, scenario.workload.longest
        size = layout.block_bytes
        tokens_each = min((page.tokens for page in layout.pages if page.tokens), default=0)
        if available is None or not size:
            at_once = sequences_held(self, scenario, available)
            held = tokens_held(scenario, at_once)
            return Pool(available, tokens_each, size or None, None, held, at_once)
        blocks = max(0, available // size)
        per_sequence = self.sequence_blocks(scenario, longest)
        concurrency = blocks / per_sequence
        alike = len(layout.pages) == 1 or len({page.layers.span for page in layout.pages}) == 1
        plain = alike and layout.pages[0].layers.span == "everything"
        tokens = blocks * tokens_each * parallel.dcp if plain else int(concurrency * longest)
        log = [
            f"GPU KV cache size: {tokens:,} tokens",
            f"Maximum concurrency for {longest:,} tokens per request: {concurrency:.2f}x",
        ]
        groups = sum(page.groups for page in layout.pages)
        if not plain and tokens_each:
            older = blocks // groups * tokens_each * parallel.dcp
            log.append(f"GPU KV cache size: {older:,} tokens (older: blocks // groups x block)")
        return Pool(
            bytes=available,
            block_tokens=tokens_each or None,
            block_bytes=size,
            blocks=blocks,
            tokens=tokens,
            concurrency=concurrency * parallel.dp_attention,
            log=tuple(log),
        )

    def share(self, scenario: Scenario) -> float:
        """``gpu_memory_utilization``."""
        return typed_share(scenario, UTILIZATION)

    def share_of(self, scenario: Scenario) -> str:
        """Of total memory, whatever is in it."""
        return (
            f"gpu_memory_utilization {self.share(scenario):g} of total memory; weights, "
            "activations and graphs come out of it"
        )

    def memory_left(self, scenario: Scenario, memory_bytes: int) -> int:
        """Share of the total less everything else."""
        return int(memory_bytes * self.share(scenario)) - rest_bytes(scenario)

    def notes(self, scenario: Scenario) -> tuple[str, ...]:
        """What is not modelled."""
        found = Runtime.notes(self, scenario)
        sets = _stored(fullest_rank(scenario), scenario.storage)
        if any(one.span in ("window", "chunk") for one in sets):
            found += (
                "tokens in flight are bounded for the engine, yet every request asks for them",
            )
        if any(isinstance(group, CompressedAttention) for group in scenario.model.groups):
            found += ("compressor state and the padding of compressed pages are not counted",)
        return found

    def _in_flight(self, scenario: Scenario) -> int:
        if self.in_flight_tokens is not None:
            return self.in_flight_tokens
        if scenario.step_tokens is not None:
            return _BATCHES_IN_FLIGHT * scenario.step_tokens
        memory = scenario.device.memory_bytes
        small = memory is not None and memory < _LARGE_DEVICE_BYTES
        return _BATCHES_IN_FLIGHT * (_BATCHED_TOKENS_SMALL if small else _BATCHED_TOKENS)

    def _loose_bytes(
        self, sets: tuple[LayerSet, ...], rank: Rank, block: int, in_flight: int
    ) -> int:
        """Windows with the tokens in flight, before vLLM's own pages."""
        wider = tuple(
            replace(one, limit=one.limit - (one.span == "window") + in_flight)
            if one.span in ("window", "chunk")
            else one
            for one in sets
        )
        return plain_bytes(wider, rank, block)

    def _paged_bytes(self, layout: Layout, rank: Rank, in_flight: int) -> int:
        """Pages of all sequences; blocks of whole groups where the layout has groups."""
        workload = reserving(rank.workload)
        total = 0
        for page in layout.pages:
            count = _workload_pages(page, workload, rank.dcp, in_flight)
            filled = page.groups * layout.group_layers or page.layers.layers
            size = layout.block_bytes // layout.group_layers if layout.group_layers else page.bytes
            total += count * filled * size
        return total


def _stored(rank: Rank, storage: Storage) -> tuple[LayerSet, ...]:
    """Sparse MLA in fp8 is kept as ``fp8_ds_mla``; states have room for speculated tokens."""
    lookahead = rank.workload.lookahead
    sparse = any(isinstance(group, IndexedLatent) for group in rank.model.groups)
    if sparse and storage.kv.name == "fp8":
        storage = replace(storage, kv=FORMATS["fp8-ds-mla"])

    def widened(group: LayerGroup) -> LayerGroup:
        if isinstance(group, RecurrentState) and group.conv_channels:
            return replace(group, conv_kernel=group.conv_kernel + lookahead)
        return group

    return layer_sets(rank, storage, reshape=widened)


def state_pages(workload: Workload) -> int:
    """Pages of a sequence's states: one, one a speculated token, one at a shared prefix's end.

    ``mamba_cache_mode`` "none" without prefix caching and "align" with it (``mamba_utils.py``).
    """
    return 1 + workload.lookahead + _caches_prefixes(workload)


def _caches_prefixes(workload: Workload) -> bool:
    """A prefix is shared, or a hit rate was given (of 0 as well: the cache is on)."""
    return workload.shared_prefix > 0 or workload.hit_rate is not None


def _block(storage: Storage) -> int:
    """Tokens of a page before pages are made equal: as typed, else the default."""
    return storage.block if storage.block > 1 else BLOCK


def _own_page(one: LayerSet, block: int) -> Page:
    if one.span == "state":
        return Page(one, 0, one.bytes, 1)
    return Page(one, block, one.bytes * block, 1)


def _uniform(sets: tuple[LayerSet, ...], block: int) -> Layout:
    """All layers keep tokens for the same span: one group, whatever their widths.

    Layers of several widths share one block table; a page is then their sum.
    """
    if not sets:
        return Layout((), 0)
    if len(sets) == 1:
        return Layout((_own_page(sets[0], block),), sets[0].layers)
    whole = LayerSet(
        layers=1,
        span=sets[0].span,
        bytes=sum(one.layers * one.bytes for one in sets),
        limit=sets[0].limit,
        splits=all(one.splits for one in sets),
    )
    return Layout((_own_page(whole, block),), 1)


def _unified(sets: tuple[LayerSet, ...], block: int) -> list[Page]:
    """Pages of one size: more tokens in the smaller ones where that divides, else padding."""
    state = max((one.bytes for one in sets if one.span == "state"), default=0)
    widest = max((one.bytes for one in sets if one.span != "state"), default=0)
    if state and widest:
        block = max(block, BLOCK * -(-state // (BLOCK * widest)))
    size = max(block * widest, state)
    pages = []
    for one in sets:
        if one.span == "state":
            pages.append(Page(one, 0, size, 1))
        else:
            own = one.bytes * block
            pages.append(Page(one, block * (size // own if size % own == 0 else 1), size, 1))
    return pages


def _unified_words(layout: Layout) -> str:
    sizes = sorted({page.tokens for page in layout.pages if page.tokens})
    blocks = " and ".join(f"{size:,}" for size in sizes)
    state = any(page.layers.span == "state" for page in layout.pages)
    padded = any(
        page.tokens and page.bytes != page.layers.bytes * page.tokens for page in layout.pages
    )
    return (
        f"all pages are made one size: {blocks} tokens"
        + (" or one state" if state else "")
        + (", padded where they do not divide (refused by older versions)" if padded else "")
    )


def _sequence_pages(page: Page, tokens: int, in_flight: int) -> int:
    """Pages that one sequence takes in each group where its length does not decide alone."""
    one, block = page.layers, page.tokens
    if one.span == "source":
        return -(-one.limit // block)
    if one.span == "window":
        return -(-min(one.limit - 1 + in_flight, tokens) // block) + 1
    return -(-min(one.limit + in_flight, tokens) // block)


def _workload_pages(page: Page, workload: Workload, dcp: int, in_flight: int) -> int:
    """Pages of all sequences; whole pages of a shared prefix once where everything is kept."""
    one = page.layers
    if one.span == "state":
        return workload.batch * state_pages(workload)
    if one.span == "everything":
        return kept_tokens(one, workload, page.tokens, dcp) // page.tokens
    return sum(_sequence_pages(page, run.tokens, in_flight) * run.count for run in workload.runs)
