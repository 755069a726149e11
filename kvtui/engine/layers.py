"""The layers of the smallest attention stack that has a spec's shapes.

A layer projects, rotates, appends to its cache, attends and projects back; ``work`` decides how
much of that runs. Weights are random and scaled by 1/sqrt(fan-in); the residual stream is
normalised before each layer, so no depth overflows. A step's tensors are ``[B, 1, H]``, a
prompt's ``[b, n, H]``.
"""

import math
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, silu

from kvtui.engine.attention import decode_attention, dense_attention, prefill_attention
from kvtui.engine.caches import LayerCache
from kvtui.spec import FullAttention, LatentAttention, SinksWindow, SlidingWindow, Work

_DEFAULT_NOPE: Final = 128
_DEFAULT_V: Final = 128
"""DeepSeek-V2 and V3 heads: 128 unrotated, 128 of V (arXiv:2405.04434)."""
_MLP_FACTOR: Final = 4


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


class Rotary:
    """RoPE tables ``[T, width / 2]`` for absolute positions; rotates pairs (i, i + width/2)."""

    def __init__(
        self, positions: int, width: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        """Tables for ``positions`` tokens and heads ``width`` wide."""
        half = width // 2
        frequency = 10000.0 ** (-torch.arange(half, device=device, dtype=torch.float32) / half)
        angle = torch.arange(positions, device=device, dtype=torch.float32)[:, None] * frequency
        self.cos, self.sin = angle.cos().to(dtype), angle.sin().to(dtype)

    def rotate(self, x: Tensor, first: int) -> Tensor:
        """``x`` ``[b, h, n, width]`` whose first token stands at position ``first``."""
        cos = self.cos.narrow(0, first, x.shape[2])
        sin = self.sin.narrow(0, first, x.shape[2])
        low, high = x.chunk(2, dim=-1)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


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
        self._q_heads, self._kv_heads = group.q_heads, group.kv_heads
        self._k_width, self._v_width = group.k_width, group.v_width
        self._window = group.window if isinstance(group, SlidingWindow) else None
        self._sinks = group.sinks if isinstance(group, SinksWindow) else 0
        self._split = (
            group.q_heads * group.k_width,
            group.kv_heads * group.k_width,
            group.kv_heads * group.v_width,
        )
        self._qkv = self._out = None
        if work != "attention":
            self._qkv = weights.matrix(hidden, sum(self._split))
            self._out = weights.matrix(group.q_heads * group.v_width, hidden)

    @property
    def input_width(self) -> int:
        """Columns that ``work`` attention takes from its input as q, k and v."""
        return sum(self._split)

    def project(self, h: Tensor, first: int) -> tuple[Tensor, Tensor, Tensor]:
        """q ``[b, Hq, n, Dk]``, k ``[b, Hkv, n, Dk]``, v ``[b, Hkv, n, Dv]`` of ``h``."""
        batch, tokens, _ = h.shape
        mixed = h[..., : self.input_width] if self._qkv is None else h @ self._qkv
        q, k, v = mixed.split(self._split, dim=-1)
        q = q.view(batch, tokens, self._q_heads, self._k_width).transpose(1, 2)
        k = k.view(batch, tokens, self._kv_heads, self._k_width).transpose(1, 2)
        v = v.view(batch, tokens, self._kv_heads, self._v_width).transpose(1, 2)
        return self._rotary.rotate(q, first), self._rotary.rotate(k, first), v

    def step(self, h: Tensor, position: int) -> Tensor:
        """One token per sequence: append, attend, project back."""
        q, k, v = self.project(h, position)
        self.cache.append(k, v)
        return self._back(decode_attention(q, *self.cache.views()))

    def fill(self, h: Tensor, rows: slice) -> Tensor:
        """A prompt of sequences ``rows``: write the cache, attend causally."""
        q, k, v = self.project(h, 0)
        self.cache.fill(rows, k, v)
        out = prefill_attention(q, k, v, window=self._window, sinks=self._sinks)
        return self._back(out)

    def recompute(self, h: Tensor) -> Tensor:
        """The same over a whole prefix, with no cache and the dense reference."""
        q, k, v = self.project(h, 0)
        out = dense_attention(q, k, v, window=self._window, sinks=self._sinks)
        return self._back(out.to(h.dtype))

    def _back(self, out: Tensor) -> Tensor:
        batch, _, tokens, _ = out.shape
        merged = out.transpose(1, 2).reshape(batch, tokens, -1)
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
        """Build the projections; the absorbing matrices are part of the layer in any ``work``."""
        assert group.q_heads is not None
        self.cache, self._rotary = cache, rotary
        self._heads, self._rank, self._rope = group.q_heads, group.kv_lora_rank, group.rope_dim
        self._nope = group.nope_dim or _DEFAULT_NOPE
        v_width = group.v_head_dim or _DEFAULT_V
        self._scale = 1 / math.sqrt(self._nope + self._rope)
        self._split = (self._heads * (self._nope + self._rope), self._rank, self._rope)
        self._in = self._out = None
        if work != "attention":
            self._in = weights.matrix(hidden, sum(self._split))
            self._out = weights.matrix(self._heads * v_width, hidden)
        self._up_k = weights.matrix(self._heads, self._nope, self._rank)
        self._up_v = weights.matrix(self._heads, self._rank, v_width)

    @property
    def input_width(self) -> int:
        """Columns that ``work`` attention takes from its input as queries, latent and key."""
        return sum(self._split)

    def _parts(self, h: Tensor, first: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Unrotated and rotated q ``[b, Hq, n, .]``, latent and rotated key ``[b, 1, n, .]``."""
        batch, tokens, _ = h.shape
        mixed = h[..., : self.input_width] if self._in is None else h @ self._in
        q, latent, key = mixed.split(self._split, dim=-1)
        q = q.view(batch, tokens, self._heads, self._nope + self._rope).transpose(1, 2)
        latent, key = latent.unsqueeze(1), key.unsqueeze(1)
        if not self._rope:
            return q, q[..., :0], latent, key
        turned = self._rotary.rotate(q[..., self._nope :], first)
        return q[..., : self._nope], turned, latent, self._rotary.rotate(key, first)

    def _absorbed(self, h: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Queries ``[b, Hq, n, r + d_rope]`` and cache rows ``[b, 1, n, r + d_rope]``."""
        q, turned, latent, key = self._parts(h, first)
        return torch.cat((q @ self._up_k, turned), dim=-1), torch.cat((latent, key), dim=-1)

    def step(self, h: Tensor, position: int) -> Tensor:
        """One token per sequence: append a row, attend in the latent space, project back."""
        q, row = self._absorbed(h, position)
        self.cache.append(row, row)
        out = decode_attention(q, *self.cache.views(), scale=self._scale)
        return self._back(out @ self._up_v)

    def fill(self, h: Tensor, rows: slice) -> Tensor:
        """A prompt of sequences ``rows``."""
        q, row = self._absorbed(h, 0)
        self.cache.fill(rows, row, row)
        latent = row[..., : self._rank]
        return self._back(prefill_attention(q, row, latent, scale=self._scale) @ self._up_v)

    def recompute(self, h: Tensor) -> Tensor:
        """The same over a whole prefix, with K and V expanded per head and the dense reference."""
        q, turned, latent, key = self._parts(h, 0)
        k = latent @ self._up_k.transpose(-2, -1)
        k = torch.cat((k, key.expand(-1, self._heads, -1, -1)), dim=-1)
        v = latent @ self._up_v
        out = dense_attention(torch.cat((q, turned), dim=-1), k, v, scale=self._scale)
        return self._back(out.to(h.dtype))

    def _back(self, out: Tensor) -> Tensor:
        batch, _, tokens, _ = out.shape
        merged = out.transpose(1, 2).reshape(batch, tokens, -1)
        return merged if self._out is None else merged @ self._out


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
