"""Full attention: every token's K and V stay (MHA, GQA and MQA differ in Hkv alone)."""

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
from kvtui.spec import FullAttention


def rows(group: FullAttention) -> tuple[Row, ...]:
    """One K row and one V row per KV head; their widths may differ (vLLM ``FullAttentionSpec``)."""
    return (
        Row("k", group.kv_heads, group.k_width, sharded=True),
        Row("v", group.kv_heads, group.v_width, sharded=True),
    )


def flops_per_key(group: FullAttention) -> int | None:
    """Score and weighted sum for one cached token: 2·Hq·Dk + 2·Hq·Dv."""
    if group.q_heads is None:
        return None
    return 2 * group.q_heads * (group.k_width + group.v_width)


def head_term(group: FullAttention, lengths: Lengths, bound: str = "", limit: str = "") -> Term:
    """The term of a group that keeps K and V rows; ``bound`` and ``limit`` cap each sequence."""
    rule, values = lengths.rule(bound), f"{group.layers}·{lengths.values(limit)}·{group.kv_heads}"
    if group.k_width == group.v_width:
        return Term(f"2·L·{rule}·Hkv·D", f"2·{values}·{group.k_width}")
    return Term(f"L·{rule}·Hkv·(Dk+Dv)", f"{values}·({group.k_width}+{group.v_width})")


@streams.register
def _(group: FullAttention) -> tuple[Stream, ...]:
    return (Stream(rows(group), everything, lambda tokens: tokens, splits=True),)


@attention_flops.register
def _(group: FullAttention, tokens: int) -> int | None:
    per_key = flops_per_key(group)
    return None if per_key is None else per_key * tokens


@term.register
def _(group: FullAttention, lengths: Lengths) -> Term:
    return head_term(group, lengths)
