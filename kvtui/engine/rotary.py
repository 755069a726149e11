"""Rotary positions without tables.

Angles are made for the positions asked for and kept for all layers of a step; a table up to a
million tokens would weigh as much as a small cache.
"""

import torch
from torch import Tensor

from kvtui.engine.schedules import UNSCALED, Schedule


class Rotary:
    """RoPE at absolute positions over heads ``width`` wide; rotates pairs (i, i + width / 2)."""

    def __init__(self, width: int, dtype: torch.dtype, device: torch.device) -> None:
        """Nothing is made before the first rotation."""
        self._half, self._dtype, self._device = width // 2, dtype, device
        self._made_for: tuple[int, int, bool] | None = None
        self._cos = self._sin = torch.empty(0)
        self.follow(UNSCALED)

    def follow(self, schedule: Schedule) -> None:
        """Rotate by ``schedule`` from now on; what was rotated before keeps its angles."""
        speeds = schedule.inverse_frequencies(2 * self._half)
        self._speeds = torch.tensor(speeds, dtype=torch.float32, device=self._device)
        self._scale, self._made_for = schedule.attention_factor, None

    def rotate(self, x: Tensor, first: int, behind: Tensor | None = None) -> Tensor:
        """``x`` ``[b, n, h, width]`` whose first token stands at position ``first``.

        ``behind`` ``[b]`` are tokens that each sequence is shorter by: its positions are less.
        """
        if self._made_for != (first, x.shape[1], behind is not None):
            self._make(first, x.shape[1], behind)
        return torch.addcmul(x * self._cos, x.roll(self._half, -1), self._sin)

    def _make(self, first: int, tokens: int, behind: Tensor | None) -> None:
        """Cosines and signed sines ``[b or 1, n, 1, width]``: the first half turned by -sin."""
        positions = torch.arange(first, first + tokens, device=self._device, dtype=torch.float32)
        if behind is not None:
            positions = positions - behind[:, None]
        angle = positions[..., None, None] * self._speeds
        cos, sin = angle.cos() * self._scale, angle.sin() * self._scale
        self._cos = torch.cat((cos, cos), dim=-1).to(self._dtype)
        self._sin = torch.cat((-sin, sin), dim=-1).to(self._dtype)
        self._made_for = first, tokens, behind is not None
