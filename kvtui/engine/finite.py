"""Watches for outputs that are not finite, without making the loop wait for the device.

Every 64th output, and the last, is looked at. On CUDA the answer travels to pinned memory in the
stream's own time and is read whenever it has arrived.
"""

from typing import Final

import torch
from torch import Tensor

_EVERY: Final = 64


class FiniteWatch:
    """The index of the first looked-at step whose output was not finite."""

    def __init__(self, device: torch.device) -> None:
        """Nothing seen."""
        self._on_cuda = device.type == "cuda"
        self._worst = torch.zeros((), dtype=torch.int64, device=device)
        self._arrived = torch.zeros((), dtype=torch.int64, pin_memory=self._on_cuda)

    def look(self, out: Tensor, index: int, *, last: bool) -> None:
        """Look at the output of step ``index`` if it is one of those looked at."""
        if index % _EVERY and not last:
            return
        broken = ~torch.isfinite(out).all()
        first = (self._worst == 0) & broken
        self._worst.add_(first * index)
        self._arrived.copy_(self._worst, non_blocking=self._on_cuda)

    @property
    def seen(self) -> bool:
        """A broken output is known of; it may lag behind the device."""
        return bool(self._arrived.item())

    def settled(self) -> int | None:
        """Index of the broken step, once the device has finished; None when all were finite."""
        return int(self._worst.item()) or None
