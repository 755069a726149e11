"""The smallest attention stack with a spec's shapes: what a live run decodes with.

``step`` takes one token per sequence through all layers and their caches; ``fill`` a prompt;
``recompute`` a whole prefix without any cache, as the reference both must equal. Inputs are given
hidden states: there is no vocabulary and no sampling here.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from kvtui.engine.caches import LayerCache, layer_cache, tensor_bytes
from kvtui.engine.layers import GatedMlp, HeadAttention, LatentHeads, Rotary, Weights, normalised
from kvtui.spec import DecodeRun, FullAttention, LatentAttention, NoCache

Attention = HeadAttention | LatentHeads


class Decoder:
    """All layers of a run. On a ``meta`` device it has shapes and bytes and no storage."""

    def __init__(self, run: DecodeRun, dtype: torch.dtype, device: torch.device) -> None:
        """Make weights, rotary tables and caches with room for the run's target."""
        self.run, self.dtype, self.device = run, dtype, device
        self.hidden = hidden_size(run)
        self._weights = Weights(dtype, device, run.seed)
        self._rotaries: dict[int, Rotary] = {}
        self.layers: list[tuple[Attention | None, GatedMlp | None]] = []
        self.group_caches: list[tuple[LayerCache, int]] = []
        """One cache of each group and the number of layers like it."""
        for group in run.groups:
            for index in range(group.layers):
                attention = None if isinstance(group, NoCache) else self._attention(group)
                if attention is not None and index == 0:
                    self.group_caches.append((attention.cache, group.layers))
                mlp = GatedMlp(self.hidden, self._weights) if run.work == "block" else None
                self.layers.append((attention, mlp))
        if run.work == "attention":
            widths = [layer.input_width for layer, _ in self.layers if layer is not None]
            self.hidden = max(widths, default=self.hidden)

    @property
    def caches(self) -> list[LayerCache]:
        """Every layer's cache."""
        return [attention.cache for attention, _ in self.layers if attention is not None]

    @property
    def latent(self) -> bool:
        """Some layer attends in the latent space."""
        return any(layer is not None and layer.latent for layer, _ in self.layers)

    @property
    def weights_bytes(self) -> int:
        """Bytes of all weights; a step reads each once."""
        return tensor_bytes(*self._weights.made)

    @property
    def tables_bytes(self) -> int:
        """Bytes of the rotary tables."""
        return sum(tensor_bytes(one.cos, one.sin) for one in self._rotaries.values())

    @property
    def capacity_bytes(self) -> int:
        """Bytes the cache tensors reserve."""
        return sum(cache.capacity_bytes for cache in self.caches)

    @property
    def held_bytes(self) -> int:
        """Bytes of the filled entries of all layers."""
        return sum(cache.held_bytes * layers for cache, layers in self.group_caches)

    @property
    def appended_bytes(self) -> int:
        """Bytes one step appends."""
        return sum(cache.entry_bytes * layers for cache, layers in self.group_caches)

    def inputs(self, batch: int, tokens: int, generator: torch.Generator) -> Tensor:
        """Random hidden states ``[batch, tokens, H]``."""
        return torch.randn(
            batch, tokens, self.hidden, dtype=self.dtype, device=self.device, generator=generator
        )

    def step(self, x: Tensor, position: int) -> Tensor:
        """One token per sequence, ``[B, 1, H]``, standing at ``position``, through all layers."""
        out = x
        for attention, mlp in self.layers:
            if attention is not None:
                out = attention.step(normalised(x), position)
                x = self._joined(x, out)
            if mlp is not None:
                x = x + mlp(normalised(x))
        return out if self.run.work == "attention" else x

    def fill(self, x: Tensor, rows: slice) -> Iterator[Tensor]:
        """A prompt ``[b, n, H]`` of sequences ``rows``; yields after each layer, so it can stop."""
        for attention, mlp in self.layers:
            if attention is not None:
                x = self._joined(x, attention.fill(normalised(x), rows))
            if mlp is not None:
                x = x + mlp(normalised(x))
            yield x

    def filled(self, tokens: int) -> None:
        """Every sequence now holds ``tokens`` tokens."""
        for cache in self.caches:
            cache.filled(tokens)

    def rewind(self) -> None:
        """Take the last step back in every cache."""
        for cache in self.caches:
            cache.rewind()

    def recompute(self, x: Tensor) -> Tensor:
        """The last token's output of a whole prefix ``[B, t, H]``, without any cache."""
        out = x
        for attention, mlp in self.layers:
            if attention is not None:
                out = attention.recompute(normalised(x))
                x = self._joined(x, out)
            if mlp is not None:
                x = x + mlp(normalised(x))
        return (out if self.run.work == "attention" else x)[:, -1:]

    def _joined(self, x: Tensor, out: Tensor) -> Tensor:
        """The residual sum; with attention alone every layer sees the same input."""
        return x if self.run.work == "attention" else x + out

    def _attention(self, group: object) -> Attention:
        assert isinstance(group, FullAttention | LatentAttention)
        cache = layer_cache(group, self.run, self.dtype, self.device)
        common = (self.hidden, cache)
        if isinstance(group, LatentAttention):
            rotary = self._rotary(group.rope_dim)
            return LatentHeads(group, *common, rotary, self._weights, self.run.work)
        rotary = self._rotary(group.k_width)
        return HeadAttention(group, *common, rotary, self._weights, self.run.work)

    def _rotary(self, width: int) -> Rotary:
        """One table per head width, shared by all layers."""
        if width not in self._rotaries:
            self._rotaries[width] = Rotary(self.run.target + 1, width, self.dtype, self.device)
        return self._rotaries[width]


def hidden_size(run: DecodeRun) -> int:
    """Residual width: given, else Hq x D of the first attention group."""
    if run.hidden_size is not None:
        return run.hidden_size
    for group in run.groups:
        if isinstance(group, FullAttention) and group.q_heads is not None:
            return group.q_heads * group.k_width
        if isinstance(group, LatentAttention) and group.q_heads is not None:
            return group.q_heads * (group.v_head_dim or 128)
    return 64
