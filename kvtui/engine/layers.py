"""The layers of the smallest attention stack that has a spec's shapes.

A layer projects, rotates, appends to its cache, attends and projects back; with ``work``
``attention`` it takes q, k and v as columns of its input and projects nothing. Weights are random
and scaled by 1/sqrt(fan-in); the residual stream is normalised before each layer, so no depth
overflows. A step's tensors are ``[B, 1, H]``, a prompt's ``[b, n, H]``.
"""

import math
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, silu

from kvtui.decode_run import MLA_HEAD_WIDTH, Work
from kvtui.engine.attention import dense_attention
from kvtui.engine.caches import LayerCache
from kvtui.engine.compute import Compute
from kvtui.engine.prefill import prefill_attention
from kvtui.engine.rotary import Rotary
from kvtui.spec import FullAttention, LatentAttention, SinksWindow, SlidingWindow

_MLP_FACTOR: Final = 4
"""Inner width over outer width, as in the first transformers; a spec gives no other."""

Parts = tuple[Tensor, Tensor, Tensor]
"""q ``[b, Hq, n, Dk]``, k ``[b, Hkv, n, Dk]`` and v ``[b, Hkv, n, Dv]``, rotated."""


class Weights:
    """Makes weights: random on a device, without storage on ``meta``."""

    def __init__(self, dtype: torch.dtype, device: torch.device, seed: int) -> None:
        """Draw from ``seed``; a meta device draws nothing."""
        self._dtype, self._device = dtype, device
        self._generator = None
        if device.type != "meta":
            self._generator = torch.Generator(device=device).manual_seed(seed)
        self.made: list[Tensor] = []

    def matrix(self, *shape: int) -> Tensor:
        """A matrix (or a stack of them) whose last but one axis is summed over."""
        tensor = torch.empty(shape, dtype=self._dtype, device=self._device)
        if self._generator is not None:
            tensor.normal_(0, 1 / math.sqrt(shape[-2]), generator=self._generator)
        self.made.append(tensor)
        return tensor


class HeadAttention:
    """MHA, GQA or MQA, over everything or a window: K and V rows per KV head."""

    latent = False

    def __init__(
        self,
        group: FullAttention,
        hidden: int,
        cache: LayerCache,
        rotary: Rotary,
        weights: Weights,
        work: Work,
    ) -> None:
        """Build the projections that ``work`` runs."""
        assert group.q_heads is not None
        self.cache, self._rotary = cache, rotary
        self._heads = group.q_heads, group.kv_heads
        self._k_width, self._v_width = group.k_width, group.v_width
        self._window = group.window if isinstance(group, SlidingWindow) else None
        self._sinks = group.sinks if isinstance(group, SinksWindow) else 0
        self._split = sum(self._heads) * group.k_width, group.kv_heads * group.v_width
        self._qkv = self._out = None
        if work != "attention":
            self._qkv = weights.matrix(hidden, sum(self._split))
            self._out = weights.matrix(group.q_heads * group.v_width, hidden)

    @property
    def input_width(self) -> int:
        """Columns that ``work`` attention takes from its input as q, k and v."""
        return sum(self._split)

    def parts(self, h: Tensor, first: int, behind: Tensor | None = None) -> Parts:
        """q, k and v of ``h``, whose first token stands at ``first``, less ``behind`` ``[b]``."""
        mixed = h[..., : self.input_width] if self._qkv is None else h @ self._qkv
        qk, v = mixed.split(self._split, dim=-1)
        # Query and key heads are neighbours, so one rotation does for both.
        heads = qk.unflatten(-1, (-1, self._k_width))
        turned = self._rotary.rotate(heads, first, behind).transpose(1, 2)
        q, k = turned.split(self._heads, dim=1)
        return q, k, v.unflatten(-1, (-1, self._v_width)).transpose(1, 2)

    def step(self, parts: Parts, compute: Compute) -> Tensor:
        """One token per sequence: append, attend, project back."""
        q, k, v = parts
        self.cache.append(k, v)
        return self._back(self.cache.attend(q, compute=compute))

    def fill(self, parts: Parts, rows: slice, first: int) -> Tensor:
        """A piece of the prompt of sequences ``rows``: write the cache, attend causally."""
        q, k, v = parts
        seen = self.cache.fill(rows, first, k, v)
        return self._back(
            prefill_attention(q, *seen, first=first, window=self._window, sinks=self._sinks)
        )

    def recompute(self, h: Tensor) -> Tensor:
        """A whole prefix, with no cache and the dense reference."""
        q, k, v = self.parts(h, 0)
        out = dense_attention(q, k, v, window=self._window, sinks=self._sinks)
        return self._back(out.to(h.dtype))

    def _back(self, out: Tensor) -> Tensor:
        merged = out.transpose(1, 2).flatten(2)
        return merged if self._out is None else merged @ self._out


class LatentHeads:
    """MLA in absorbed form: queries move into the latent space, the cache is never expanded."""

    latent = True

    def __init__(
        self,
        group: LatentAttention,
        hidden: int,
        cache: LayerCache,
        rotary: Rotary,
        weights: Weights,
        work: Work,
    ) -> None:
        """Build the projections; with ``work`` attention the input is absorbed already."""
        assert group.q_heads is not None
        self.cache, self._rotary = cache, rotary
        self._heads, self._rank, self._rope = group.q_heads, group.kv_lora_rank, group.rope_dim
        nope = group.nope_dim or MLA_HEAD_WIDTH
        v_width = group.v_head_dim or MLA_HEAD_WIDTH
        self._scale = 1 / math.sqrt(nope + self._rope)
        self._in = self._out = self._up_k = self._up_v = None
        self._nope = self._rank
        if work != "attention":
            self._nope = nope
            self._in = weights.matrix(hidden, self.input_width)
            self._out = weights.matrix(self._heads * v_width, hidden)
            self._up_k = weights.matrix(self._heads, nope, self._rank)
            self._up_v = weights.matrix(self._heads, self._rank, v_width)

    @property
    def input_width(self) -> int:
        """Columns of queries, latent and rotated key together."""
        return self._heads * (self._nope + self._rope) + self._rank + self._rope

    def parts(self, h: Tensor, first: int, behind: Tensor | None = None) -> Parts:
        """Absorbed queries ``[b, Hq, n, r + d_rope]``, cache rows ``[b, 1, n, .]`` twice."""
        assert behind is None, "latent caches hold sequences of one length"
        q, turned, latent, key = self._mixed(h, first)
        if self._up_k is not None:
            q = q @ self._up_k
        rows = torch.cat((latent, key), dim=-1)
        return torch.cat((q, turned), dim=-1), rows, rows

    def step(self, parts: Parts, compute: Compute) -> Tensor:
        """One token per sequence: append a row, attend in the latent space, project back."""
        q, rows, _ = parts
        self.cache.append(rows, rows)
        return self._back(self.cache.attend(q, scale=self._scale, compute=compute))

    def fill(self, parts: Parts, rows: slice, first: int) -> Tensor:
        """A piece of the prompt of sequences ``rows``."""
        q, k, v = parts
        seen = self.cache.fill(rows, first, k, v)
        return self._back(prefill_attention(q, *seen, first=first, scale=self._scale))

    def recompute(self, h: Tensor) -> Tensor:
        """A whole prefix as the model is written: K and V of every head expanded, no cache."""
        out = dense_attention(*self._expanded(h, 0), scale=self._scale)
        return self._merged(out.to(h.dtype))

    def _expanded(self, h: Tensor, first: int) -> Parts:
        """q, K and V of every head, ``[b, Hq, n, .]``."""
        q, turned, latent, key = self._mixed(h, first)
        k, v = latent, latent
        if self._up_k is not None and self._up_v is not None:
            k, v = latent @ self._up_k.transpose(-2, -1), latent @ self._up_v
        heads = (-1, self._heads, -1, -1)
        k = torch.cat((k.expand(heads), key.expand(heads)), dim=-1)
        return torch.cat((q, turned), dim=-1), k, v.expand(heads)

    def _mixed(self, h: Tensor, first: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Unrotated and rotated q ``[b, Hq, n, .]``, latent and rotated key ``[b, 1, n, .]``."""
        mixed = h[..., : self.input_width] if self._in is None else h @ self._in
        width = self._heads * (self._nope + self._rope)
        q, latent, key = mixed.split((width, self._rank, self._rope), dim=-1)
        q, turned = q.unflatten(-1, (self._heads, -1)).split((self._nope, self._rope), dim=-1)
        key = key.unsqueeze(2)
        if self._rope:
            turned, key = self._rotary.rotate(turned, first), self._rotary.rotate(key, first)
        latent = latent.unsqueeze(2)
        return (
            q.transpose(1, 2),
            turned.transpose(1, 2),
            latent.transpose(1, 2),
            key.transpose(1, 2),
        )

    def _back(self, out: Tensor) -> Tensor:
        return self._merged(out if self._up_v is None else out @ self._up_v)

    def _merged(self, out: Tensor) -> Tensor:
        merged = out.transpose(1, 2).flatten(2)
        return merged if self._out is None else merged @ self._out


class ExpandedHeads(LatentHeads):
    """MLA as the model is written: K and V of every head are cached, nothing is absorbed."""

    def parts(self, h: Tensor, first: int, behind: Tensor | None = None) -> Parts:
        """q and K ``[b, Hq, n, d_nope + d_rope]``, V ``[b, Hq, n, Dv]``."""
        assert behind is None, "MLA caches hold sequences of one length"
        return self._expanded(h, first)

    def step(self, parts: Parts, compute: Compute) -> Tensor:
        """One token per sequence: append every head's K and V, attend, project back."""
        q, k, v = parts
        self.cache.append(k, v)
        return self._merged(self.cache.attend(q, scale=self._scale, compute=compute))

    def fill(self, parts: Parts, rows: slice, first: int) -> Tensor:
        """A piece of the prompt of sequences ``rows``."""
        q, k, v = parts
        seen = self.cache.fill(rows, first, k, v)
        return self._merged(prefill_attention(q, *seen, first=first, scale=self._scale))


class GatedMlp:
    """The feed-forward half of a block: gate and up in one matrix, SiLU, down."""

    def __init__(self, hidden: int, weights: Weights) -> None:
        """Four times as wide inside as outside."""
        self._in = weights.matrix(hidden, 2 * _MLP_FACTOR * hidden)
        self._out = weights.matrix(_MLP_FACTOR * hidden, hidden)

    def __call__(self, h: Tensor) -> Tensor:
        """``[b, n, H]`` to ``[b, n, H]``."""
        gate, up = (h @ self._in).chunk(2, dim=-1)
        return (silu(gate) * up) @ self._out


def normalised(x: Tensor) -> Tensor:
    """RMSNorm without weights over the last axis."""
    return rms_norm(x, (x.shape[-1],))
