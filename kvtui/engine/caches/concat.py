"""The reference cache of the tutorial: ``torch.cat`` grows K and V by one token a step.

Every step allocates the whole cache anew and copies it, which is what preallocation avoids; it
is here to be compared with.
"""

import torch
from torch import Tensor

from kvtui.engine.caches.base import LayerCache


class ConcatCache(LayerCache):
    """K ``[B, Hkv, t, Dk]`` and V ``[B, Hkv, t, Dv]``, reallocated at every append."""

    name = "concat"

    def __init__(
        self,
        batch: int,
        kv_heads: int,
        k_width: int,
        v_width: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Start with no tokens."""
        super().__init__()
        self._batch = batch
        self._k = torch.empty(batch, kv_heads, 0, k_width, dtype=dtype, device=device)
        self._v = torch.empty(batch, kv_heads, 0, v_width, dtype=dtype, device=device)

    def fill(self, rows: slice, k: Tensor, v: Tensor) -> None:
        """Write the first ``n`` tokens of ``rows``; the first call sizes the tensors."""
        tokens = k.shape[2]
        if self._k.shape[2] != tokens:
            self._k = k.new_empty(self._batch, k.shape[1], tokens, k.shape[3])
            self._v = v.new_empty(self._batch, v.shape[1], tokens, v.shape[3])
        self._k[rows] = k
        self._v[rows] = v

    def append(self, k: Tensor, v: Tensor) -> None:
        """Allocate one token more and copy everything."""
        self._k = torch.cat((self._k, k), dim=2)
        self._v = torch.cat((self._v, v), dim=2)
        self.seen += 1

    def rewind(self) -> None:
        """Drop the last token; the storage shrinks with it."""
        super().rewind()
        self._k = self._k[:, :, : self.seen].clone()
        self._v = self._v[:, :, : self.seen].clone()

    def views(self) -> tuple[Tensor, Tensor]:
        """All of it."""
        return self._k, self._v

    @property
    def entry_bytes(self) -> int:
        """Bytes one token takes."""
        k, v = self._k, self._v
        per_k = k.shape[0] * k.shape[1] * k.shape[3] * k.element_size()
        return per_k + v.shape[0] * v.shape[1] * v.shape[3] * v.element_size()

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """K and V as they are now."""
        return self._k, self._v
