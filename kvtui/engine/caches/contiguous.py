"""Preallocated K and V, appended in place and read by slice: the layout to measure with."""

import torch
from torch import Tensor

from kvtui.engine.caches.base import LayerCache


class ContiguousCache(LayerCache):
    """K ``[B, Hkv, T, Dk]`` and V ``[B, Hkv, T, Dv]`` with room for ``T`` tokens from the start."""

    name = "contiguous"

    def __init__(
        self,
        batch: int,
        kv_heads: int,
        capacity: int,
        k_width: int,
        v_width: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Allocate ``capacity`` tokens for each of ``batch`` sequences."""
        super().__init__()
        self._k = torch.empty(batch, kv_heads, capacity, k_width, dtype=dtype, device=device)
        self._v = torch.empty(batch, kv_heads, capacity, v_width, dtype=dtype, device=device)

    def fill(self, rows: slice, first: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write tokens from ``first`` on; they see everything up to themselves."""
        end = first + k.shape[2]
        self._k[rows, :, first:end] = k
        self._v[rows, :, first:end] = v
        return self._k[rows, :, :end], self._v[rows, :, :end]

    def append(self, k: Tensor, v: Tensor) -> None:
        """Write one token behind the last."""
        self._k.narrow(2, self.seen, 1).copy_(k)
        self._v.narrow(2, self.seen, 1).copy_(v)
        self.seen += 1

    def views(self) -> tuple[Tensor, Tensor]:
        """The filled part, without a copy."""
        return self._k.narrow(2, 0, self.seen), self._v.narrow(2, 0, self.seen)

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """K and V with their whole capacity."""
        return self._k, self._v
