"""Causal attention of a piece of a prompt over what came before it and itself.

A prompt goes through in pieces, so that its scratch stays bounded whatever its length. The first
piece is plain causal attention; later ones see more keys than they have queries, which the causal
flag cannot say (it aligns at the top left), so they say it with a mask or, on CUDA, with the
bottom-right bias of torch that keeps the flash kernel.
"""

import math
from typing import Final

import torch
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

MASK_ROWS: Final = 256
"""Query rows of one masked block."""
SCORES_BYTES: Final = 256 * 2**20
"""Scores written out at once, where K and V differ in width and no fused kernel takes them."""


def prefill_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    first: int = 0,
    window: int | None = None,
    sinks: int = 0,
    scale: float | None = None,
) -> Tensor:
    """Attention of tokens ``first`` to ``first + n``.

    Args:
        q: ``[b, Hq, n, Dk]``.
        k: ``[b, Hkv, t, Dk]``, in order of position, the piece's own tokens last; all of them, or
            the sinks and a window.
        v: ``[b, Hkv, t, Dv]``.
        first: position of the first query.
        window: each token sees itself and ``window - 1`` before it; all when None.
        sinks: first tokens that every token sees as well.
        scale: of the scores; 1/sqrt(Dk) when None.

    Returns:
        ``[b, Hq, n, Dv]``.
    """
    group = q.shape[1] // k.shape[1]
    tokens = q.shape[2]
    if window is not None and first + tokens <= window:
        window = None
    if q.shape[3] != v.shape[3]:
        return _written_out(q, k, v, first, window, sinks, scale)
    if window is not None or (first and q.device.type == "cpu"):
        return _masked(q, k, v, first, window, sinks, scale)
    if not first and (q.device.type == "cpu" or group == 1 or q.dtype != torch.float32):
        return scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=scale, enable_gqa=group > 1
        )
    # In fp32 on CUDA, enable_gqa falls to the kernel that writes all scores, and the bias does
    # not know groups: one KV head at a time, seen by its group without a copy.
    bias = causal_lower_right(tokens, k.shape[2])
    return torch.cat(
        [
            scaled_dot_product_attention(heads, *_shared(k, v, index, group), bias, scale=scale)
            for index, heads in enumerate(q.split(group, dim=1))
        ],
        dim=1,
    )


def visible(rows: Tensor, keys: Tensor, window: int | None, sinks: int) -> Tensor:
    """Which key positions ``[t]`` each row position ``[n]`` may see: ``[n, t]``."""
    distance = rows[:, None] - keys[None, :]
    seen = distance >= 0
    if window is None:
        return seen
    recent = distance < window
    if sinks:
        # The ring holds ``window`` tokens beside the sinks.
        recent = recent | (keys[None, :] < sinks)
    return seen & recent


def _masked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    first: int,
    window: int | None,
    sinks: int,
    scale: float | None,
) -> Tensor:
    """Fused attention under a mask, a block of rows at a time."""
    group, keys = q.shape[1] // k.shape[1], _positions(q, k, first, sinks)
    parts = []
    for begin in range(0, q.shape[2], MASK_ROWS):
        rows = q[:, :, begin : begin + MASK_ROWS]
        mask = visible(_rows(rows, first + begin), keys, window, sinks)
        if q.device.type == "cpu":
            parts.append(
                scaled_dot_product_attention(rows, k, v, mask, scale=scale, enable_gqa=group > 1)
            )
            continue
        heads = [
            scaled_dot_product_attention(part, *_shared(k, v, index, group), mask, scale=scale)
            for index, part in enumerate(rows.split(group, dim=1))
        ]
        parts.append(torch.cat(heads, dim=1))
    return torch.cat(parts, dim=2)


def _written_out(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    first: int,
    window: int | None,
    sinks: int,
    scale: float | None,
) -> Tensor:
    """Two matrix products around a softmax in fp32, as many rows as the scores' share allows."""
    batch, q_heads, tokens, width = q.shape
    kv_heads, keys = k.shape[1], _positions(q, k, first, sinks)
    per_row = batch * q_heads * k.shape[2] * 4
    block = max(1, min(MASK_ROWS, SCORES_BYTES // per_row))
    factor = 1 / math.sqrt(width) if scale is None else scale
    parts = []
    for begin in range(0, tokens, block):
        rows = q[:, :, begin : begin + block]
        count = rows.shape[2]
        # The group's queries are rows of one matrix, so K and V are not expanded.
        folded = (rows * factor).reshape(batch, kv_heads, -1, width)
        scores = (folded @ k.transpose(-2, -1)).view(batch, q_heads, count, -1)
        seen = visible(_rows(rows, first + begin), keys, window, sinks)
        weights = torch.softmax(
            scores.masked_fill_(~seen, -math.inf), dim=-1, dtype=torch.float32
        ).to(v.dtype)
        out = weights.view(batch, kv_heads, -1, k.shape[2]) @ v
        parts.append(out.view(batch, q_heads, count, -1))
    return torch.cat(parts, dim=2)


def _shared(k: Tensor, v: Tensor, index: int, group: int) -> tuple[Tensor, Tensor]:
    """K and V of one KV head, seen by each query head of its group."""
    one = slice(index, index + 1)
    return k[:, one].expand(-1, group, -1, -1), v[:, one].expand(-1, group, -1, -1)


def _rows(rows: Tensor, first: int) -> Tensor:
    return torch.arange(first, first + rows.shape[2], device=rows.device)


def _positions(q: Tensor, k: Tensor, first: int, sinks: int) -> Tensor:
    """Position of each key: the sinks, then those that end with the last query."""
    end, kept = first + q.shape[2], min(sinks, first)
    head = torch.arange(kept, device=k.device)
    tail = torch.arange(end - (k.shape[2] - kept), end, device=k.device)
    return torch.cat((head, tail))
