"""Where a cache keeps the rows of K and V, for kernels that find them by themselves."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rows:
    """Storage of one layer as rows ``D`` wide, numbered from 0.

    The row of token ``t`` of head ``h`` of sequence ``b`` is ``b * sequence_rows + h * head_rows +
    table[b, t // block] * block + t % block``: one block as long as the storage where it is
    contiguous, pages of a common pool where it is not.
    """

    k: Tensor
    """Contiguous, last axis ``D``."""
    v: Tensor
    kv_heads: int
    lengths: Tensor
    """Tokens to attend to, int64 ``[B]``, on the host."""
    table: Tensor
    """int32 ``[B, blocks]``."""
    block: int
    sequence_rows: int
    head_rows: int
    k_scale: Tensor | None = None
    """fp32, one a row; K is ``scale * value``."""
    v_scale: Tensor | None = None


def contiguous_rows(
    k: Tensor,
    v: Tensor,
    lengths: Tensor,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
) -> Rows:
    """Rows of K ``[B, Hkv, T, D]`` and V alike, of which ``lengths`` ``[B]`` are filled."""
    batch, heads, capacity, _ = k.shape
    return Rows(
        k=k,
        v=v,
        kv_heads=heads,
        lengths=lengths,
        table=torch.zeros(batch, 1, dtype=torch.int32),
        block=capacity,
        sequence_rows=heads * capacity,
        head_rows=capacity,
        k_scale=k_scale,
        v_scale=v_scale,
    )
