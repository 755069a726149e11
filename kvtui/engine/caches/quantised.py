"""An int8 cache: one symmetric scale per token and head, beside the values.

K and V are int8 ``[B, Hkv, T, D]`` with fp32 scales ``[B, Hkv, T, 1]``: the per-token-head form of
vLLM's ``kv_cache_interface.py``. torch has no attention over int8, so chunks of 512 tokens are
converted into fp32 that stays in the processor's cache, and merged by log-sum-exp. What is saved is
memory; the conversion is paid in time and shown as such.
"""

from typing import Final

import torch
from torch import Tensor

from kvtui.engine.attention import decode_attention, merged_attention
from kvtui.engine.caches.base import LayerCache

_CHUNK_TOKENS: Final = 512
_LARGEST: Final = 127
"""Symmetric: -127 to 127, so that 0 is exact."""
_LEAST_SCALE: Final = 1e-30
"""Rows of zeros have some scale to be divided by."""


class Int8Cache(LayerCache):
    """Preallocated like the contiguous cache; computes in fp32."""

    name = "int8"

    def __init__(
        self,
        batch: int,
        kv_heads: int,
        capacity: int,
        k_width: int,
        v_width: int,
        *,
        device: torch.device,
    ) -> None:
        """Allocate ``capacity`` tokens for each of ``batch`` sequences."""
        super().__init__()
        rows = (batch, kv_heads, capacity)
        self._k = torch.empty(*rows, k_width, dtype=torch.int8, device=device)
        self._v = torch.empty(*rows, v_width, dtype=torch.int8, device=device)
        self._k_scale = torch.empty(*rows, 1, dtype=torch.float32, device=device)
        self._v_scale = torch.empty(*rows, 1, dtype=torch.float32, device=device)

    def fill(self, rows: slice, first: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise tokens from ``first`` on; they see what was stored, themselves included."""
        end = first + k.shape[2]
        self._k[rows, :, first:end], self._k_scale[rows, :, first:end] = quantised(k)
        self._v[rows, :, first:end], self._v_scale[rows, :, first:end] = quantised(v)
        found_k, found_v = self._converted(0, end)
        return found_k[rows], found_v[rows]

    def append(self, k: Tensor, v: Tensor) -> None:
        """Quantise one token behind the last."""
        for values, scales, new in (
            (self._k, self._k_scale, k),
            (self._v, self._v_scale, v),
        ):
            row, scale = quantised(new)
            values.narrow(2, self.seen, 1).copy_(row)
            scales.narrow(2, self.seen, 1).copy_(scale)
        self.seen += 1

    def views(self) -> tuple[Tensor, Tensor]:
        """All of it converted: a copy, for CUDA and for tests."""
        return self._converted(0, self.seen)

    def attend(self, q: Tensor, *, scale: float | None = None, threads: int = 1) -> Tensor:
        """Attention chunk by chunk on a CPU; over one converted copy elsewhere."""
        if q.device.type != "cpu" or self._k.shape[3] != self._v.shape[3]:
            return decode_attention(q, *self.views(), scale=scale, threads=threads)
        chunks = (
            self._converted(first, min(first + _CHUNK_TOKENS, self.seen))
            for first in range(0, self.seen, _CHUNK_TOKENS)
        )
        return merged_attention(q, chunks, scale=scale)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Values and scales of K and V."""
        return self._k, self._k_scale, self._v, self._v_scale

    @property
    def held_bytes(self) -> int:
        """Bytes of the filled entries, scales included."""
        return self.seen * self.entry_bytes

    def _converted(self, first: int, end: int) -> tuple[Tensor, Tensor]:
        """K and V of tokens ``first`` to ``end`` in fp32."""
        return (
            self._k[:, :, first:end].float().mul_(self._k_scale[:, :, first:end]),
            self._v[:, :, first:end].float().mul_(self._v_scale[:, :, first:end]),
        )


def quantised(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Int8 values and fp32 scales ``[..., 1]`` of ``rows``, a scale a row.

    No value is off by more than half a step, ``scale / 2``.
    """
    scale = rows.abs().amax(dim=-1, keepdim=True).float().clamp_min(_LEAST_SCALE) / _LARGEST
    values = (rows.float() / scale).round_().clamp_(-_LARGEST, _LARGEST)
    return values.to(torch.int8), scale
