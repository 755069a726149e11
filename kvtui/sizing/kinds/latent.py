"""MLA: one latent row per token that serves as K and V of every head, and its indexed form.

The row is ``kv_lora_rank + rope_dim`` wide, one copy, held whole by every tensor-parallel rank
(DeepSeek-V2, arXiv:2405.04434; vLLM ``MLAAttentionSpec``). The indexed form keeps one index key
per token beside it and attends to the best ``index_topk`` tokens (DeepSeek-V3.2).
"""

from kvtui.sizing.kinds.base import (
    Lengths,
    Row,
    Stream,
    Term,
    attention_flops,
    everything,
    streams,
    term,
)
from kvtui.spec import IndexedLatent, LatentAttention


def _row(group: LatentAttention) -> Row:
    width = group.kv_lora_rank + group.rope_dim
    return Row("latent", 1, width, sharded=False, tail=group.rope_dim)


def _flops_per_key(group: LatentAttention) -> int | None:
    """Absorbed form: scores over r + d_rope, weighted sum over r."""
    if group.q_heads is None:
        return None
    return 2 * group.q_heads * (2 * group.kv_lora_rank + group.rope_dim)


def _attended(group: IndexedLatent, tokens: int) -> int:
    return tokens if group.index_topk is None else min(tokens, group.index_topk)


@streams.register
def _(group: LatentAttention) -> tuple[Stream, ...]:
    return (Stream((_row(group),), everything, lambda tokens: tokens, splits=True),)


@streams.register
def _(group: IndexedLatent) -> tuple[Stream, ...]:
    index = Row("index", 1, group.index_width, sharded=False)
    return (
        Stream((_row(group),), everything, lambda tokens: _attended(group, tokens), splits=True),
        Stream((index,), everything, lambda tokens: tokens, splits=True),
    )


@attention_flops.register
def _(group: LatentAttention, tokens: int) -> int | None:
    per_key = _flops_per_key(group)
    return None if per_key is None else per_key * tokens


@attention_flops.register
def _(group: IndexedLatent, tokens: int) -> int | None:
    per_key = _flops_per_key(group)
    if per_key is None:
        return None
    index_flops = 2 * (group.index_heads or 1) * group.index_width * tokens
    return per_key * _attended(group, tokens) + index_flops


@term.register
def _(group: LatentAttention, lengths: Lengths) -> Term:
    return Term(
        f"L·{lengths.rule()}·(d_c+d_rope)",
        f"{group.layers}·{lengths.values()}·({group.kv_lora_rank}+{group.rope_dim})",
    )


@term.register
def _(group: IndexedLatent, lengths: Lengths) -> Term:
    return Term(
        f"L·{lengths.rule()}·(d_c+d_rope+d_index)",
        f"{group.layers}·{lengths.values()}·"
        f"({group.kv_lora_rank}+{group.rope_dim}+{group.index_width})",
    )
