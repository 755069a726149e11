"""What every cache of one layer answers, whatever its layout.

A cache holds K ``[B, Hkv, t, Dk]`` and V ``[B, Hkv, t, Dv]`` of the tokens seen so far, as views
that attention reads without a copy. Bytes are those of its own tensors. A further layout is one
class here and one line in ``layer_cache``.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from kvtui.engine.attention import decode_attention
from kvtui.engine.compute import ONE_THREAD, Compute

if TYPE_CHECKING:
    from kvtui.engine.kernels.rows import Rows
    from kvtui.engine.page_kernels import Pages


def tensor_bytes(*tensors: Tensor) -> int:
    """numel x element size."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class LayerCache(ABC):
    """The cache of one attention layer."""

    name: str = ""
    ragged = False
    """Whether sequences may be of different length."""

    def __init__(self, batch: int, behind: Sequence[int] = ()) -> None:
        """Start empty.

        Args:
            batch: sequences, B.
            behind: tokens that each is shorter than the longest, ``[B]``; none when empty.
        """
        self.batch = batch
        self.seen = 0
        """Tokens appended to the longest sequence, evicted ones included."""
        self.behind = torch.tensor(behind or [0] * batch, dtype=torch.long)
        """Sequences grow together, so that each stays as far behind as it began."""
        self.even = not any(behind)

    @property
    def lengths(self) -> Tensor:
        """Tokens appended to each sequence, ``[B]``, on the host."""
        return self.seen - self.behind

    @abstractmethod
    def fill(self, rows: slice, first: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write a piece of the prompt of sequences ``rows``; pieces come in order.

        Args:
            rows: which sequences, all of one length.
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
    def views(self, sequences: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """K ``[b, Hkv, t, Dk]`` and V ``[b, Hkv, t, Dv]`` that the next query attends to.

        ``sequences`` are all of one length.
        """

    def rows(self) -> "Rows | None":
        """The storage as a kernel finds its rows; None where it is no such storage."""
        return None

    def pages(self) -> "Pages | None":
        """The storage as kernels with a block table read it; None where it is no such storage."""
        return None

    def attend(
        self, q: Tensor, *, scale: float | None = None, compute: Compute = ONE_THREAD
    ) -> Tensor:
        """Attention of one token per sequence, q ``[B, Hq, 1, Dk]``, over what is held."""
        if compute.kernel is not None:
            rows = self.rows()
            if rows is not None and compute.kernel.takes(rows):
                return compute.kernel.attend(q, rows, scale=scale)
        if compute.page_kernel is not None and (pages := self.pages()) is not None:
            return compute.page_kernel.attend(q, pages, scale=scale)
        if self.even:
            return self.attend_alike(q, slice(None), scale, compute)
        each = [slice(one, one + 1) for one in range(self.batch)]
        return torch.cat([self.attend_alike(q[one], one, scale, compute) for one in each])

    def attend_alike(
        self, q: Tensor, sequences: slice, scale: float | None, compute: Compute
    ) -> Tensor:
        """``attend`` of some sequences, all of one length, without a kernel of ours."""
        return decode_attention(q, *self.views(sequences), scale=scale, threads=compute.threads)

    @property
    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """The storage this cache owns."""

    def filled(self, tokens: int) -> None:
        """The longest sequence has been filled with ``tokens`` tokens, the others accordingly."""
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
        """Bytes of the filled entries: what a step reads once."""
        if self.even:
            return self.seen * self.entry_bytes
        return int(self.lengths.sum()) * (self.entry_bytes // self.batch)

    @property
    def read_bytes(self) -> int:
        """Bytes that one step's attention reads; shared entries once a sequence."""
        return self.held_bytes

    @property
    def entry_bytes(self) -> int:
        """Bytes one token of all sequences takes: what a step appends."""
        return sum(t.shape[0] * t.shape[1] * t.shape[3] * t.element_size() for t in self.tensors)
