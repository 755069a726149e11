"""The smallest attention stack with a spec's shapes: what a live run decodes with.

``step`` takes one token per sequence through all layers and their caches; ``fill`` a piece of a
prompt; ``recompute`` a whole prefix without any cache, as the reference both must equal. Inputs
are given hidden states: there is no vocabulary and no sampling here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from kvtui.decode_run import MLA_HEAD_WIDTH, DecodeRun
from kvtui.engine.caches import LayerCache, layer_cache, tensor_bytes
from kvtui.engine.caches.offload import OffloadCache
from kvtui.engine.caches.paged import DeviceTable
from kvtui.engine.compute import ONE_THREAD, Compute
from kvtui.engine.layers import (
    ExpandedHeads,
    GatedMlp,
    HeadAttention,
    LatentHeads,
    Weights,
    normalised,
)
from kvtui.engine.pages import BlockTable
from kvtui.engine.rotary import Rotary
from kvtui.engine.schedules import Schedule
from kvtui.spec import FullAttention, LatentAttention, LayerGroup, NoCache

Attention = HeadAttention | LatentHeads


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: attention where it caches anything, an MLP where ``work`` asks for it."""

    attention: Attention | None
    mlp: GatedMlp | None


class Decoder:
    """All layers of a run. On a ``meta`` device it has shapes and bytes and no storage."""

    def __init__(
        self,
        run: DecodeRun,
        dtype: torch.dtype,
        device: torch.device,
        *,
        compute: Compute = ONE_THREAD,
    ) -> None:
        """Make weights and caches with room for the run's target."""
        self.run, self.dtype, self.device, self.compute = run, dtype, device, compute
        self._behind = torch.tensor(run.behind, device=device) if run.behind else None
        self.hidden = hidden_size(run)
        self._weights = Weights(dtype, device, run.seed)
        self._rotaries: dict[int, Rotary] = {}
        self.table: DeviceTable | None = None
        """The block table that all paged layers share."""
        if run.cache == "paged":
            table = BlockTable(run.batch, pool_blocks(run), run.block, seed=run.seed)
            self.table = DeviceTable(table, device)
        self.groups = [[self._layer(group) for _ in range(group.layers)] for group in run.groups]
        self.layers = [layer for group in self.groups for layer in group]
        if run.work == "attention":
            widths = [one.attention.input_width for one in self.layers if one.attention]
            self.hidden = max(widths, default=self.hidden)

    @property
    def caches(self) -> list[LayerCache]:
        """Every layer's cache."""
        return [layer.attention.cache for layer in self.layers if layer.attention]

    @property
    def latent(self) -> bool:
        """Some layer attends in the latent space."""
        return any(layer.attention.latent for layer in self.layers if layer.attention)

    @property
    def weights_bytes(self) -> int:
        """Bytes of all weights; a step reads each once."""
        return tensor_bytes(*self._weights.made)

    @property
    def capacity_bytes(self) -> int:
        """Bytes the cache tensors reserve."""
        return sum(cache.capacity_bytes for cache in self.caches)

    @property
    def held_bytes(self) -> int:
        """Bytes of the filled entries of all layers; the layers of a group hold the same."""
        return sum(cache.held_bytes * layers for cache, layers in self._group_caches())

    @property
    def read_bytes(self) -> int:
        """Bytes that the attention of one step reads; a shared prefix once a sequence."""
        return sum(cache.read_bytes * layers for cache, layers in self._group_caches())

    @property
    def host_bytes(self) -> int:
        """Bytes of cache tensors that lie on the host whatever the run's device."""
        return sum(one.host_bytes for one in self.caches if isinstance(one, OffloadCache))

    @property
    def appended_bytes(self) -> int:
        """Bytes one step appends."""
        return sum(cache.entry_bytes * layers for cache, layers in self._group_caches())

    def inputs(self, batch: int, tokens: int, generator: torch.Generator) -> Tensor:
        """Random hidden states ``[batch, tokens, H]``."""
        return torch.randn(
            batch, tokens, self.hidden, dtype=self.dtype, device=self.device, generator=generator
        )

    def step(self, x: Tensor, position: int) -> Tensor:
        """One token per sequence, ``[B, 1, H]``, standing at ``position``, through all layers."""
        if self.run.work == "attention":
            return self._traffic(x, position)
        for layer in self.layers:
            if layer.attention is not None:
                parts = layer.attention.parts(normalised(x), position, self._behind)
                x = x + layer.attention.step(parts, self.compute)
            if layer.mlp is not None:
                x = x + layer.mlp(normalised(x))
        return x

    def fill(self, x: Tensor, rows: slice, first: int) -> Iterator[None]:
        """Tokens ``[b, n, H]`` from position ``first`` of sequences ``rows``; yields per layer."""
        for layer in self.layers:
            if layer.attention is not None:
                parts = layer.attention.parts(normalised(x), first)
                x = self._joined(x, layer.attention.fill(parts, rows, first))
            if layer.mlp is not None:
                x = x + layer.mlp(normalised(x))
            yield

    def share_prefix(self, sequence: int) -> None:
        """Let ``sequence``, still empty, read the first sequence's blocks of the shared prefix."""
        assert self.table is not None
        self.table.table.fork(0, sequence, self.run.whole_block_prefix)

    def filled(self, tokens: int) -> None:
        """The longest sequence now holds ``tokens`` tokens, the others accordingly."""
        for cache in self.caches:
            cache.filled(tokens)

    def reschedule(self, schedule: Schedule) -> None:
        """Rotate by ``schedule`` from now on; what is cached keeps the angles it has."""
        for rotary in self._rotaries.values():
            rotary.follow(schedule)

    def rewind(self) -> None:
        """Take the last step back in every cache."""
        for cache in self.caches:
            cache.rewind()

    def recompute(self, x: Tensor) -> Tensor:
        """The last token's output of a whole prefix ``[B, t, H]``, without any cache."""
        out = x
        for layer in self.layers:
            if layer.attention is not None:
                out = layer.attention.recompute(normalised(x))
                x = self._joined(x, out)
            if layer.mlp is not None:
                x = x + layer.mlp(normalised(x))
        return (out if self.run.work == "attention" else x)[:, -1:]

    def _traffic(self, x: Tensor, position: int) -> Tensor:
        """Cache traffic alone: the layers of a group append and attend with the same q, k, v."""
        h = normalised(x)
        out = x
        for group in self.groups:
            first = group[0].attention
            parts = first.parts(h, position, self._behind) if first else None
            for layer in group:
                if layer.attention is not None and parts is not None:
                    out = layer.attention.step(parts, self.compute)
        return out

    def _joined(self, x: Tensor, out: Tensor) -> Tensor:
        """The residual sum; with attention alone every layer sees the same input."""
        return x if self.run.work == "attention" else x + out

    def _group_caches(self) -> Iterator[tuple[LayerCache, int]]:
        """One cache of each group and the number of layers like it."""
        for group in self.groups:
            if group[0].attention is not None:
                yield group[0].attention.cache, len(group)

    def _layer(self, group: LayerGroup) -> Layer:
        attention = None if isinstance(group, NoCache) else self._attention(group)
        return Layer(
            attention, GatedMlp(self.hidden, self._weights) if self.run.work == "block" else None
        )

    def _attention(self, group: LayerGroup) -> Attention:
        assert isinstance(group, FullAttention | LatentAttention)
        common = (self.hidden, layer_cache(group, self.run, self.dtype, self.device, self.table))
        if isinstance(group, LatentAttention):
            rotary = self._rotary(group.rope_dim)
            heads = ExpandedHeads if self.run.cache == "expanded" else LatentHeads
            return heads(group, *common, rotary, self._weights, self.run.work)
        rotary = self._rotary(group.k_width)
        return HeadAttention(group, *common, rotary, self._weights, self.run.work)

    def _rotary(self, width: int) -> Rotary:
        """One for each head width, shared by all layers."""
        if width not in self._rotaries:
            self._rotaries[width] = Rotary(width, self.dtype, self.device)
        return self._rotaries[width]


def pool_blocks(run: DecodeRun) -> int:
    """Blocks of a paged run's pool: each sequence in whole blocks, a shared prefix once."""
    lengths = run.lengths or (run.target,) * run.batch
    shared = run.whole_block_prefix // run.block
    return sum(-(-one // run.block) for one in lengths) - (run.batch - 1) * shared


def hidden_size(run: DecodeRun) -> int:
    """Residual width: given, else Hq x D of the first attention group."""
    if run.hidden_size is not None:
        return run.hidden_size
    for group in run.groups:
        if isinstance(group, FullAttention) and group.q_heads is not None:
            return group.q_heads * group.k_width
        if isinstance(group, LatentAttention) and group.q_heads is not None:
            return group.q_heads * (group.v_head_dim or MLA_HEAD_WIDTH)
    return 64
