"""Preallocated K and V, appended in place and read by slice: the layout to measure with."""

from collections.abc import Sequence

import torch
from torch import Tensor

from kvtui.engine.caches.base import LayerCache
from kvtui.engine.kernels.rows import Rows, contiguous_rows
from kvtui.engine.page_kernels import Pages


class ContiguousCache(LayerCache):
    """K ``[B, Hkv, T, Dk]`` and V ``[B, Hkv, T, Dv]`` with room for ``T`` tokens from the start.

    Shorter sequences have the same room: what they do not fill is the price of this layout.
    """

    name = "contiguous"
    ragged = True

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
        behind: Sequence[int] = (),
    ) -> None:
        """Allocate ``capacity`` tokens for each of ``batch`` sequences."""
        super().__init__(batch, behind)
        self._k = torch.empty(batch, kv_heads, capacity, k_width, dtype=dtype, device=device)
        self._v = torch.empty(batch, kv_heads, capacity, v_width, dtype=dtype, device=device)
        self._each = torch.arange(batch, device=device)
        self._behind = self.behind.to(device)

    def fill(self, rows: slice, first: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write tokens from ``first`` on; they see everything up to themselves."""
        end = first + k.shape[2]
        self._k[rows, :, first:end] = k
        self._v[rows, :, first:end] = v
        return self._k[rows, :, :end], self._v[rows, :, :end]

    def append(self, k: Tensor, v: Tensor) -> None:
        """Write one token behind the last of each sequence."""
        if self.even:
            self._k.narrow(2, self.seen, 1).copy_(k)
            self._v.narrow(2, self.seen, 1).copy_(v)
        else:
            places = self.seen - self._behind
            self._k[self._each, :, places] = k[:, :, 0]
            self._v[self._each, :, places] = v[:, :, 0]
        self.seen += 1

    def views(self, sequences: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """The filled part, without a copy."""
        filled = self.seen - int(self.behind[sequences][0])
        k, v = self._k[sequences], self._v[sequences]
        return k.narrow(2, 0, filled), v.narrow(2, 0, filled)

    def rows(self) -> Rows:
        """One block as long as the storage."""
        return contiguous_rows(self._k, self._v, self.lengths)

    def pages(self) -> Pages | None:
        """One page as long as the storage for each sequence."""
        return Pages(
            k=self._k.transpose(1, 2),
            v=self._v.transpose(1, 2),
            table=self._each[:, None].to(torch.int32),
            lengths=(self.seen - self._behind).to(torch.int32),
            longest=self.seen,
        )

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """K and V with their whole capacity."""
        return self._k, self._v
