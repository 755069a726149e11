"""What every cache of one layer answers, whatever its layout.

A cache holds K ``[B, Hkv, t, Dk]`` and V ``[B, Hkv, t, Dv]`` of the tokens seen so far, as views
that attention reads without a copy. Bytes are those of its own tensors.
"""

from abc import ABC, abstractmethod

from torch import Tensor


def tensor_bytes(*tensors: Tensor) -> int:
    """numel x element size."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class LayerCache(ABC):
    """The cache of one attention layer."""

    name: str = ""

    def __init__(self) -> None:
        """Start empty."""
        self.seen = 0
        """Tokens appended per sequence, evicted ones included."""

    @abstractmethod
    def fill(self, rows: slice, k: Tensor, v: Tensor) -> None:
        """Write the first tokens of sequences ``rows``: k ``[b, Hkv, n, Dk]``, v alike."""

    @abstractmethod
    def append(self, k: Tensor, v: Tensor) -> None:
        """Add one token to every sequence: k ``[B, Hkv, 1, Dk]``, v ``[B, Hkv, 1, Dv]``."""

    @abstractmethod
    def views(self) -> tuple[Tensor, Tensor]:
        """K ``[B, Hkv, t, Dk]`` and V ``[B, Hkv, t, Dv]`` that the next query attends to."""

    @property
    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """The storage this cache owns."""

    def filled(self, tokens: int) -> None:
        """Every sequence has been filled with ``tokens`` tokens."""
        self.seen = tokens

    def rewind(self) -> None:
        """Take the last appended token back, so that a warm-up leaves no trace."""
        self.seen -= 1

    @property
    def capacity_bytes(self) -> int:
        """Bytes of the tensors this cache owns."""
        return tensor_bytes(*self.tensors)

    @property
    def held_bytes(self) -> int:
        """Bytes of the filled entries: what the views show."""
        return tensor_bytes(*self.views()) if self.seen else 0

    @property
    def entry_bytes(self) -> int:
        """Bytes one token takes: what a step appends."""
        k, v = self.tensors
        return (k[:, :, :1].numel() * k.element_size()) + (v[:, :, :1].numel() * v.element_size())
