"""SGLang: pools of token slots, sized from the memory and not from the workload.

Read in ``srt/model_executor/pool_configurator.py`` and ``srt/mem_cache/kv_cache_configurator.py``
(003fca8, 2026), ``srt/server_args.py`` of 0.5. Every pool holds one spare page. Beside layers that
keep everything, windowed ones have a pool of their own with ``swa_full_tokens_ratio`` (0.8) times
the tokens, never fewer than a window and a page; where all layers are windowed, and beside states,
all tokens are kept. Recurrent states get ``mamba_full_memory_ratio`` (0.9) times the memory of the
rest. Memory for all pools is what is free before loading x ``mem_fraction_static`` less weights:
activations and graphs live in the other part.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from kvtui.runtimes.base import Pool, Runtime, sequences_held, tokens_held, typed_share
from kvtui.runtimes.layers import (
    LayerSet,
    geometry_words,
    in_blocks,
    kept_tokens,
    layer_sets,
    plain_bytes,
)
from kvtui.sizing import budget
from kvtui.sizing.rank import Rank, fullest_rank, reserving
from kvtui.spec import IndexedLatent, Scenario
from kvtui.units import GIB

_INDEXED_PAGE: Final = 64
"""``page_size`` that sparse MLA insists on."""
_RESERVED_GIB: Final = ((35, 2.8, 0.1), (90, 9.5, 0.5), (160, 12.0, 0.5))
"""Memory below which, GiB kept from the pools, and more of them a rank (0.5, by memory size)."""
_RESERVED_LARGE_GIB: Final = 32.0
_FRACTION_UNKNOWN: Final = 0.88


@dataclass(frozen=True, slots=True)
class TokenPool:
    """One pool of slots, all layers of a kind together, on one rank."""

    name: str
    tokens: int
    """Handed out; a spare page is held beside them."""
    k_bytes: int
    """Of K, latent rows and index keys, spare page included."""
    v_bytes: int


@dataclass(frozen=True, slots=True)
class _Kinds:
    """The sets of a rank by the pool they live in."""

    full: tuple[LayerSet, ...]
    windows: tuple[LayerSet, ...]
    states: tuple[LayerSet, ...]
    sources: tuple[LayerSet, ...]

    @property
    def limit(self) -> int:
        """The longest window."""
        return max((one.limit for one in self.windows), default=0)


@dataclass(frozen=True)
class Sglang(Runtime):
    """SGLang's token pools."""

    name: ClassVar[str] = "sglang"
    version: ClassVar[str] = "0.5 to main of 2026"
    source: ClassVar[str] = "sglang/srt/model_executor/pool_configurator.py, server_args.py"
    formats: ClassVar[tuple[str, ...]] = ("bf16", "fp16", "fp8", "fp4", "mxfp8", "fp8-ds-mla")
    window_ratio: float = 0.8
    """``swa_full_tokens_ratio``."""
    state_ratio: float = 0.9
    """``mamba_full_memory_ratio``."""

    def reserved_bytes(self, scenario: Scenario) -> int:
        """Pools just large enough for the workload, and the states of its sequences."""
        rank, kinds = self._kinds(scenario)
        pools = sum(one.k_bytes + one.v_bytes for one in self.pools(scenario))
        return pools + _constant_bytes(kinds, rank, spare=1)

    def pools(self, scenario: Scenario) -> tuple[TokenPool, ...]:
        """The pools that hold the workload, spare pages included."""
        rank, kinds = self._kinds(scenario)
        page = _page(scenario)
        full, windows = self._tokens(kinds, rank, page)
        found = [_pool("full", kinds.full, full, page)] if kinds.full else []
        if kinds.windows:
            found.append(_pool("window", kinds.windows, windows, page))
        return tuple(found)

    def rungs(self, scenario: Scenario) -> Iterator[tuple[str, int]]:
        """Geometry, pages, the window pool, spare pages, a spare state."""
        rank, kinds = self._kinds(scenario)
        page = _page(scenario)
        sets = (*kinds.full, *kinds.windows, *kinds.states, *kinds.sources)
        asked = layer_sets(rank, scenario.storage)
        words = geometry_words(rank)
        if scenario.workload.shared_prefix:
            words.append("a prefix is shared where everything is kept")
        yield "; ".join(words) or "geometry", plain_bytes(asked, rank, scenario.storage.block)
        yield f"pages of {page} tokens", plain_bytes(asked, rank, page)
        if not kinds.windows:
            yield "windowed layers keep everything", plain_bytes(sets, rank, page)
        full, windows = self._tokens(kinds, rank, page)
        slots = sum(full * one.layers * one.bytes for one in kinds.full)
        slots += sum(windows * one.layers * one.bytes for one in kinds.windows)
        yield (
            f"windows get {self.window_ratio:g} of the tokens of the full pool",
            slots + _constant_bytes(kinds, rank, spare=0),
        )
        paged = sum(one.k_bytes + one.v_bytes for one in self.pools(scenario))
        yield (
            "one spare page in each pool",
            paged + _constant_bytes(kinds, rank, spare=0),
        )
        yield "one spare state", self.reserved_bytes(scenario)

    def pool(self, scenario: Scenario) -> Pool:
        """``max_total_num_tokens`` and what it holds."""
        available = self.available_bytes(scenario)
        rank, kinds = self._kinds(scenario)
        page, workload, parallel = _page(scenario), scenario.workload, scenario.parallel
        each = _bytes_a_token(kinds.full)
        both = each + self.window_ratio * _bytes_a_token(kinds.windows)
        if available is None or kinds.sources or not both:
            at_once = sequences_held(self, scenario, available)
            held = tokens_held(scenario, at_once)
            return Pool(available, page, None, None, held, at_once)
        state = sum(one.layers * one.bytes for one in kinds.states)
        room = max(0, available)
        slots = int(room * self.state_ratio / (1 + self.state_ratio) // state) if state else 0
        rest = room - slots * state
        tokens = int(rest / both) // page * page
        mine = in_blocks(-(-workload.longest // rank.dcp), page)
        limits = [tokens / mine]
        if state:
            limits.append(slots / (1 + workload.lookahead))
        if kinds.windows:
            held = in_blocks(min(workload.longest, kinds.limit + page), page)
            limits.append(int(tokens * self.window_ratio) // page * page / held)
        at_once = min(limits)
        usable = tokens * rank.dcp if at_once == limits[0] else int(at_once * workload.longest)
        return Pool(
            bytes=available,
            block_tokens=page,
            block_bytes=None if kinds.windows else page * each,
            blocks=tokens // page,
            tokens=usable,
            concurrency=at_once * parallel.dp_attention,
            log=(f"max_total_num_tokens={tokens}",),
        )

    def share(self, scenario: Scenario) -> float:
        """``mem_fraction_static``; the default keeps a fixed size for the rest."""
        memory = scenario.device.memory_bytes
        if memory is None:
            return typed_share(scenario, _FRACTION_UNKNOWN)
        ranks = scenario.parallel.ranks
        kept = next(
            (base + each * ranks for below, base, each in _RESERVED_GIB if memory < below * GIB),
            _RESERVED_LARGE_GIB,
        )
        return typed_share(scenario, max(0.1, round(1 - kept * GIB / memory, 3)))

    def share_of(self, scenario: Scenario) -> str:
        """Of what is free before loading."""
        return (
            f"mem_fraction_static {self.share(scenario):g} of what is free before loading; "
            "weights come out of it, activations and graphs live in the rest"
        )

    def memory_left(self, scenario: Scenario, memory_bytes: int) -> int:
        """Share of what is free, less weights alone."""
        free = memory_bytes - scenario.budget.reserve_bytes
        return int(free * self.share(scenario)) - (budget.weights_bytes(scenario) or 0)

    def notes(self, scenario: Scenario) -> tuple[str, ...]:
        """Where what is left does not hold the expected rest."""
        found, memory = Runtime.notes(self, scenario), scenario.device.memory_bytes
        if memory is not None:
            left = (memory - scenario.budget.reserve_bytes) * (1 - self.share(scenario))
            if left < (scenario.budget.activations + scenario.budget.overhead).expected:
                found += ("what is left for activations and graphs is below their expected size",)
        return found

    def _kinds(self, scenario: Scenario) -> tuple[Rank, _Kinds]:
        rank = fullest_rank(scenario)
        sets = layer_sets(rank, scenario.storage)

        def of(*spans: str) -> tuple[LayerSet, ...]:
            return tuple(one for one in sets if one.span in spans)

        full, windows, states = of("everything"), of("window", "chunk"), of("state")
        if not full or states:
            full, windows = (
                tuple(
                    LayerSet(
                        one.layers,
                        "everything",
                        one.bytes,
                        ratio=one.ratio,
                        splits=one.splits,
                        k_bytes=one.k_bytes,
                        v_bytes=one.v_bytes,
                    )
                    for one in (*full, *windows)
                ),
                (),
            )
        return rank, _Kinds(full, windows, states, of("source"))

    def _tokens(self, kinds: _Kinds, rank: Rank, page: int) -> tuple[int, int]:
        """Tokens of the full and of the window pool for the rank's workload."""
        plain = LayerSet(1, "everything", 1, splits=all(one.splits for one in kinds.full))
        full = kept_tokens(plain, reserving(rank.workload), page, rank.dcp) if kinds.full else 0
        if not kinds.windows:
            return full, 0
        least = in_blocks(kinds.limit + page + 1, page)
        return full, max(int(full * self.window_ratio) // page * page, least)


def _page(scenario: Scenario) -> int:
    """``page_size``: as typed (1 by default), 64 for sparse MLA."""
    if any(isinstance(group, IndexedLatent) for group in scenario.model.groups):
        return max(scenario.storage.block, _INDEXED_PAGE)
    return scenario.storage.block


def _bytes_a_token(sets: tuple[LayerSet, ...]) -> int:
    return sum(-(-one.layers * one.bytes // one.ratio) for one in sets)


def _pool(name: str, sets: tuple[LayerSet, ...], tokens: int, page: int) -> TokenPool:
    slots = tokens + page
    return TokenPool(
        name,
        tokens,
        sum(one.layers * -(-slots // one.ratio) * one.k_bytes for one in sets),
        sum(one.layers * -(-slots // one.ratio) * one.v_bytes for one in sets),
    )


def _constant_bytes(kinds: _Kinds, rank: Rank, *, spare: int) -> int:
    """States and sources of all sequences, and ``spare`` states."""
    workload = reserving(rank.workload)
    slots = workload.batch * (1 + workload.lookahead) + spare
    return sum(slots * one.layers * one.bytes for one in kinds.states) + sum(
        workload.batch * one.limit * one.layers * one.bytes for one in kinds.sources
    )
