"""Ways to move more bytes than a step needs, beside the way that does not."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from kvtui.bench.case import Group, Setup
from kvtui.bench.cases.dense import GQA, folded_sdpa, full_caches, sized
from kvtui.bench.steps import COPIES, bare, stepped
from kvtui.bench.tensors import filled_caches, full_group, token_bytes

_REPEATED_BYTES: Final = 128 * 2**20
"""Repeating K and V for every query head moves several times this in fresh memory a step."""
_CAPACITY: Final = 8
"""Capacity of a padded cache over what it holds."""
_REPEATED: Final = "K and V are repeated for every query head before attention reads them."


def cat_vs_inplace(setup: Setup) -> Iterator[Group]:
    """The tutorial's growing cache beside the preallocated one."""
    for tokens in (1024, 8192):
        yield _grown(setup, tokens)


def _grown(setup: Setup, tokens: int) -> Group:
    dtype = setup.dtype
    shape = sized(setup, replace(GQA, tokens=tokens), dtype, caches=2)
    inplace = full_caches(setup, shape, dtype)
    grown = filled_caches(setup, shape, full_group(shape), dtype=dtype, cache="concat")
    return Group(
        (
            stepped(setup, "contiguous", shape, inplace, dtype=dtype, against=("concat",)),
            stepped(setup, "concat", shape, grown, dtype=dtype, copies=COPIES["concat"]),
        )
    )


def repeat_vs_fold(setup: Setup) -> Iterator[Group]:
    """Groups folded into query rows, torch's ``enable_gqa``, and heads repeated in memory."""
    dtype = setup.dtype
    shape = sized(setup, replace(GQA, tokens=8192), dtype)
    caches = full_caches(setup, shape, dtype)
    yield Group(
        (
            stepped(setup, "contiguous", shape, caches, dtype=dtype, against=("enable_gqa",)),
            bare(setup, "enable_gqa", shape, caches, _enable_gqa, dtype=dtype),
        )
    )
    few = shape.fitted(token_bytes(shape, dtype), min(setup.sweep_bytes, _REPEATED_BYTES))
    some = full_caches(setup, few, dtype)
    yield Group(
        (
            bare(setup, "fold", few, some, folded_sdpa, dtype=dtype, against=("repeat_kv",)),
            bare(setup, "repeat_kv", few, some, _repeat_kv, dtype=dtype, copies=_REPEATED),
        )
    )


def mask_vs_slice(setup: Setup) -> Iterator[Group]:
    """A cache of eight times the capacity: the part that is filled, or all of it and a mask."""
    dtype = setup.dtype
    whole = sized(setup, replace(GQA, tokens=16_384), dtype)
    held = max(2, whole.tokens // _CAPACITY)
    capacity = held * _CAPACITY
    shape = replace(whole, tokens=held)
    caches = filled_caches(setup, shape, full_group(shape), dtype=dtype, capacity=capacity)
    seen = (torch.arange(capacity, device=setup.device) < held).view(1, 1, 1, capacity)

    def masked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        batch, heads, _, width = q.shape
        rows = q.view(batch, k.shape[1], heads // k.shape[1], width)
        out = scaled_dot_product_attention(rows, k, v, attn_mask=seen)
        return out.reshape(batch, heads, 1, -1)

    yield Group(
        (
            bare(setup, "slice", shape, caches, folded_sdpa, dtype=dtype, against=("mask",)),
            bare(setup, "mask", shape, caches, masked, dtype=dtype, read_tokens=capacity),
        )
    )


def _enable_gqa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _repeat_kv(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    group = q.shape[1] // k.shape[1]
    return scaled_dot_product_attention(
        q, k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    )
