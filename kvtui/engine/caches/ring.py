"""Bounded caches: a sliding window, and sinks beside a window, as a ring that is never unrolled.

At one query token the order of keys does not matter (positions were rotated into K before it was
stored), so the newest token overwrites the oldest and attention reads the buffer as it lies.
Sinks stay where they are, rotated at their absolute positions: the variant that changes nothing
for tokens already stored. StreamingLLM re-rotates by position inside the cache instead
(arXiv:2309.17453); that is another model behaviour and not this one.
"""

import torch
from torch import Tensor

from kvtui.engine.caches.base import LayerCache
from kvtui.engine.kernels.rows import Rows, contiguous_rows


class RingCache(LayerCache):
    """K ``[B, Hkv, S + w, Dk]`` and V alike: ``S`` fixed slots, then a ring of ``w``."""

    name = "ring"

    def __init__(
        self,
        batch: int,
        kv_heads: int,
        window: int,
        k_width: int,
        v_width: int,
        *,
        sinks: int = 0,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Allocate ``sinks + window`` tokens for each of ``batch`` sequences."""
        super().__init__(batch)
        self._sinks, self._window = sinks, window
        size = sinks + window
        self._k = torch.empty(batch, kv_heads, size, k_width, dtype=dtype, device=device)
        self._v = torch.empty(batch, kv_heads, size, v_width, dtype=dtype, device=device)

    def slot(self, position: int) -> int:
        """Where the token at ``position`` lies while it is kept."""
        if position < self._sinks:
            return position
        return self._sinks + (position - self._sinks) % self._window

    def fill(self, rows: slice, first: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write what stays; the piece sees the sinks and the window before it, then itself."""
        end = first + k.shape[2]
        if first:
            before = self._slots(self._kept(first), k.device)
            k = torch.cat((self._k[rows].index_select(2, before), k), dim=2)
            v = torch.cat((self._v[rows].index_select(2, before), v), dim=2)
        written = [position for position in self._kept(end) if position >= first]
        target = self._slots(written, k.device)
        source = torch.tensor(written, device=k.device) - (end - k.shape[2])
        self._k[rows, :, target] = k.index_select(2, source)
        self._v[rows, :, target] = v.index_select(2, source)
        return k, v

    def _kept(self, tokens: int) -> list[int]:
        """Positions still held after ``tokens`` tokens, in order."""
        recent = range(max(self._sinks, tokens - self._window), tokens)
        return [*range(min(self._sinks, tokens)), *recent]

    def _slots(self, positions: list[int], device: torch.device) -> Tensor:
        return torch.tensor([self.slot(position) for position in positions], device=device)

    def append(self, k: Tensor, v: Tensor) -> None:
        """Overwrite the oldest token once the ring is full."""
        slot = self.slot(self.seen)
        self._k.narrow(2, slot, 1).copy_(k)
        self._v.narrow(2, slot, 1).copy_(v)
        self.seen += 1

    @property
    def _filled(self) -> int:
        return min(self.seen, self._sinks + self._window)

    def views(self, sequences: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """The filled slots; the whole buffer once it has wrapped."""
        k, v = self._k[sequences], self._v[sequences]
        return k.narrow(2, 0, self._filled), v.narrow(2, 0, self._filled)

    def rows(self) -> Rows:
        """The buffer as it lies: at one query token the order of keys does not matter."""
        return contiguous_rows(self._k, self._v, torch.full((self.batch,), self._filled))

    @property
    def held_bytes(self) -> int:
        """Bytes of the filled slots."""
        return self._filled * self.entry_bytes

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """K and V, sinks and ring."""
        return self._k, self._v
