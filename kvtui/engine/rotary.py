"""Rotary positions without tables.

Angles are made for the positions asked for and kept for all layers of a step; a table up to a
million tokens would weigh as much as a small cache.
"""

from typing import Final

import torch
from torch import Tensor

_BASE: Final = 10000.0
"""RoFormer (arXiv:2104.09864)."""


class Rotary:
    """RoPE at absolute positions over heads ``width`` wide; rotates pairs (i, i + width / 2)."""

    def __init__(self, width: int, dtype: torch.dtype, device: torch.device) -> None:
        """Nothing is made before the first rotation."""
        self._half, self._dtype, self._device = width // 2, dtype, device
        self._made_for: tuple[int, int] | None = None
        self._cos = self._sin = torch.empty(0)

    def rotate(self, x: Tensor, first: int) -> Tensor:
        """``x`` ``[b, n, h, width]`` whose first token stands at position ``first``."""
        if self._made_for != (first, x.shape[1]):
            self._make(first, x.shape[1])
        return torch.addcmul(x * self._cos, x.roll(self._half, -1), self._sin)

    def _make(self, first: int, tokens: int) -> None:
        """Cosines and signed sines ``[n, 1, width]``: the first half is turned by -sin."""
        halves = torch.arange(self._half, device=self._device, dtype=torch.float32)
        positions = torch.arange(first, first + tokens, device=self._device, dtype=torch.float32)
        angle = positions[:, None, None] * _BASE ** (-halves / self._half)
        cos, sin = angle.cos(), angle.sin()
        self._cos = torch.cat((cos, cos), dim=-1).to(self._dtype)
        self._sin = torch.cat((-sin, sin), dim=-1).to(self._dtype)
        self._made_for = first, tokens
