"""llama.cpp: cells for a context that is fixed at the start, divided over slots or unified.

Read in ``src/llama-kv-cache.cpp``, ``llama-kv-cache-iswa.cpp``, ``llama-memory-recurrent.cpp``,
``llama-hparams.cpp``, ``llama-context.cpp`` of August 2026 (as synced into whisper.cpp at
6b92fec9e) and ``common/fit.cpp`` (08033df). Cells are padded to 256. Split, every slot has cells
for the longest sequence; unified, one cache holds all tokens and a shared prefix once. Windowed
layers have ``min(cells, window x (sequences where unified) + ubatch)`` cells, padded; ubatch is
512 and not the logical batch. Recurrent states are f32 whatever the cache's format, with a copy
for each speculated token. MLA has no V; index keys are kept in the cache's format. Devices split
layers, not heads. There is no share of memory: the context is allocated as asked, and ``--fit``
leaves 1 GiB free.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from kvtui.runtimes.base import (
    Pool,
    Runtime,
    rest_bytes,
    sequences_held,
    tokens_held,
    whole_sequences_held,
)
from kvtui.runtimes.layers import (
    LayerSet,
    as_it_is,
    geometry_words,
    in_blocks,
    layer_sets,
    plain_bytes,
)
from kvtui.sizing.rank import fullest_rank, reserving
from kvtui.spec import CrossAttention, LayerGroup, Parallel, RecurrentState, Scenario, Workload
from kvtui.units import GIB

PAD: Final = 256
UBATCH: Final = 512
_FIT_MARGIN_BYTES: Final = GIB
"""``--fit-target``: what stays free on a device."""
_GGML: Final = (
    "fp32",
    "fp16",
    "bf16",
    "q8_0",
    "q5_1",
    "q5_0",
    "q4_1",
    "q4_0",
    "iq4_nl",
)


@dataclass(frozen=True)
class LlamaCpp(Runtime):
    """llama.cpp's cells, one cache a slot."""

    name: ClassVar[str] = "llama.cpp"
    version: ClassVar[str] = "main of August 2026"
    source: ClassVar[str] = "llama.cpp src/llama-kv-cache.cpp, src/llama-kv-cache-iswa.cpp"
    formats: ClassVar[tuple[str, ...]] = _GGML
    unified: ClassVar[bool] = False
    ubatch: int = UBATCH
    """Tokens of a micro-batch."""

    def reserved_bytes(self, scenario: Scenario) -> int:
        """Cells of all layers and f32 states, on the device with most layers."""
        rank = fullest_rank(_over_layers(scenario))
        sets = layer_sets(rank, scenario.storage, scaled_index=False, reshape=_in_f32)
        return self._cell_bytes(sets, reserving(rank.workload), PAD, self._ubatch(scenario))

    def rungs(self, scenario: Scenario) -> Iterator[tuple[str, int]]:
        """Ranks, geometry, states, slots, micro-batch, padding."""
        block, storage = scenario.storage.block, scenario.storage
        rank = fullest_rank(scenario)
        words = geometry_words(rank, scaled_index=False)
        if scenario.workload.shared_prefix:
            words.append("a prefix is shared where everything is kept")
        kept = layer_sets(rank, storage, scaled_index=False)
        yield "; ".join(words) or "geometry", plain_bytes(kept, rank, block)
        yield f"no blocks of {block}", plain_bytes(kept, rank, 1)
        rank = fullest_rank(_over_layers(scenario))
        kept = layer_sets(rank, storage, scaled_index=False)
        yield "devices split layers, not heads or sequences", plain_bytes(kept, rank, 1)
        sets = layer_sets(rank, storage, scaled_index=False, reshape=_in_f32)
        yield "states in f32", plain_bytes(sets, rank, 1)
        workload = reserving(rank.workload)
        slots = (
            "windows for as many sequences share the cells of all"
            if self.unified
            else "every slot has cells for the longest sequence, a prefix in each"
        )
        yield slots, self._cell_bytes(sets, workload, 1, 0)
        yield (
            f"windows hold a micro-batch of {self._ubatch(scenario)} more",
            self._cell_bytes(sets, workload, 1, self._ubatch(scenario)),
        )
        yield (
            f"cells padded to {PAD}",
            self._cell_bytes(sets, workload, PAD, self._ubatch(scenario)),
        )

    def pool(self, scenario: Scenario) -> Pool:
        """What fits of contexts as long as the longest."""
        available, whole = self.available_bytes(scenario), _over_layers(scenario)
        find = whole_sequences_held if self.unified else sequences_held
        at_once = find(self, whole, available)
        return Pool(available, PAD, None, None, tokens_held(whole, at_once), at_once)

    def share(self, scenario: Scenario) -> float:
        """Everything but the margin, where the memory is known."""
        memory = scenario.device.memory_bytes
        return 1.0 if not memory else max(0.0, 1 - _FIT_MARGIN_BYTES / memory)

    def share_of(self, scenario: Scenario) -> str:
        """It has no such setting."""
        typed = scenario.budget.utilization
        unused = f"; the typed {typed:g} is not used" if typed < 1 else ""
        return f"no share: --fit leaves 1 GiB of free memory{unused}"

    def memory_left(self, scenario: Scenario, memory_bytes: int) -> int:
        """All but the margin and the rest."""
        return memory_bytes - _FIT_MARGIN_BYTES - rest_bytes(scenario)

    def notes(self, scenario: Scenario) -> tuple[str, ...]:
        """Flash attention, and what is not known of it."""
        found = Runtime.notes(self, scenario)
        if (scenario.storage.v or scenario.storage.kv).group is not None:
            found += ("a quantised V needs flash attention",)
        if any(isinstance(group, CrossAttention) for group in scenario.model.groups):
            found += ("cross-attention entries are counted as the ideal has them",)
        return found

    def _ubatch(self, scenario: Scenario) -> int:
        return self.ubatch if scenario.step_tokens is None else scenario.step_tokens

    def _cell_bytes(
        self, sets: tuple[LayerSet, ...], workload: Workload, pad: int, ubatch: int
    ) -> int:
        """Cells of every set; ``pad`` 1 and ``ubatch`` 0 leave those two rules out."""
        slots = workload.batch
        if self.unified:
            shared = workload.shared_prefix * (slots - 1)
            cells, streams, sequences = in_blocks(workload.tokens - shared, pad), 1, slots
        else:
            cells, streams, sequences = in_blocks(workload.longest, pad), slots, 1
        total = 0
        for one in sets:
            if one.span == "state":
                held = slots * (1 + workload.lookahead)
            elif one.span == "source":
                held = slots * one.limit
            elif one.span == "everything":
                held = streams * -(-cells // one.ratio)
            else:
                held = streams * in_blocks(min(cells, one.limit * sequences + ubatch), pad)
            total += held * one.layers * one.bytes
        return total


def _over_layers(scenario: Scenario) -> Scenario:
    """Every rank taken as a device that holds whole layers."""
    parallel = scenario.parallel
    if parallel == Parallel(pp=parallel.pp, stage_layers=parallel.stage_layers):
        return scenario
    devices = min(parallel.ranks, max(1, scenario.model.layers))
    return replace(scenario, parallel=Parallel(pp=devices))


def _in_f32(group: LayerGroup) -> LayerGroup:
    if isinstance(group, RecurrentState):
        return replace(group, state_format="fp32", conv_format="fp32")
    return as_it_is(group)


@dataclass(frozen=True)
class LlamaCppUnified(LlamaCpp):
    """The same with one cache for all slots (``--kv-unified``)."""

    name: ClassVar[str] = "llama.cpp-unified"
    unified: ClassVar[bool] = True
