"""What every cache of one layer answers, whatever its layout.

A cache holds K ``[B, Hkv, t, Dk]`` and V ``[B, Hkv, t, Dv]`` of the tokens seen so far, as views
that attention reads without a copy. Bytes are those of its own tensors. A sixth layout is one
class here and one line in ``layer_cache``.
"""

from abc import ABC, abstractmethod

from torch import Tensor

from kvtui.engine.attention import decode_attention


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
    def fill(self, rows: slice, first: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write a piece of the prompt of sequences ``rows``; pieces come in order.

        Args:
            rows: which sequences.
            first: position of the piece's first token.
            k: ``[b, Hkv, n, Dk]``.
            v: ``[b, Hkv, n, Dv]``.

        Returns:
            K and V that the piece may see, in order of position, its own tokens last.
        """

    @abstractmethod
    def append(self, k: Tensor, v: Tensor) -> None:
        """Add one token to every sequence: k ``[B, Hkv, 1, Dk]``, v ``[B, Hkv, 1, Dv]``."""

    @abstractmethod
    def views(self) -> tuple[Tensor, Tensor]:
        """K ``[B, Hkv, t, Dk]`` and V ``[B, Hkv, t, Dv]`` that the next query attends to."""

    def attend(self, q: Tensor, *, scale: float | None = None, threads: int = 1) -> Tensor:
        """Attention of one token per sequence, q ``[B, Hq, 1, Dk]``, over what is held."""
        return decode_attention(q, *self.views(), scale=scale, threads=threads)

    @property
    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """The storage this cache owns."""

    def filled(self, tokens: int) -> None:
        """Every sequence has been filled with ``tokens`` tokens."""
        self.seen = tokens

    def rewind(self) -> None:
        """Take the last appended token back, so that a warm-up leaves no trace.

        A ring has then lost the token that the next append evicts anyway.
        """
        self.seen -= 1

    @property
    def capacity_bytes(self) -> int:
        """Bytes of the tensors this cache owns."""
        return tensor_bytes(*self.tensors)

    @property
    def held_bytes(self) -> int:
        """Bytes of the filled entries: what the views show, and what a step reads once."""
        return tensor_bytes(*self.views())

    @property
    def entry_bytes(self) -> int:
        """Bytes one token of all sequences takes: what a step appends."""
        return sum(t.shape[0] * t.shape[1] * t.shape[3] * t.element_size() for t in self.tensors)
