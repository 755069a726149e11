"""The MLA cache: one latent row and one rotated row per token, shared by all query heads.

K is the whole row ``[B, 1, T, r + d_rope]``; V is a view of its first ``r`` columns, so nothing
is stored twice (DeepSeek-V2, arXiv:2405.04434).
"""

import torch
from torch import Tensor

from kvtui.engine.caches.base import LayerCache


class LatentCache(LayerCache):
    """``[B, 1, T, r + d_rope]`` with room for ``T`` tokens from the start."""

    name = "latent"

    def __init__(
        self,
        batch: int,
        capacity: int,
        kv_lora_rank: int,
        rope_dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Allocate ``capacity`` rows for each of ``batch`` sequences."""
        super().__init__(batch)
        self._rank = kv_lora_rank
        width = kv_lora_rank + rope_dim
        self._rows = torch.empty(batch, 1, capacity, width, dtype=dtype, device=device)

    def fill(self, rows: slice, first: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write rows from ``first`` on; ``v`` is part of ``k`` and not read."""
        end = first + k.shape[2]
        self._rows[rows, :, first:end] = k
        seen = self._rows[rows, :, :end]
        return seen, seen[..., : self._rank]

    def append(self, k: Tensor, v: Tensor) -> None:
        """Write one row behind the last; ``v`` is part of ``k`` and not read."""
        self._rows.narrow(2, self.seen, 1).copy_(k)
        self.seen += 1

    def views(self, sequences: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """The filled rows as K, their latent columns as V."""
        rows = self._rows[sequences].narrow(2, 0, self.seen)
        return rows, rows[..., : self._rank]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The one tensor."""
        return (self._rows,)
