"""DeepSeek-V4: a window of one shared K = V row, and compressed entries behind it."""

from typing import Final

from kvtui.sources.draft import Draft
from kvtui.sources.facts import Facts
from kvtui.sources.families.moe import expert_layer, shared_experts
from kvtui.spec import CompressedAttention

_INDEXED_RATIO: Final = 4
"""Compressed sparse attention: entries overlap and an indexer chooses among them."""


def deepseek_v4(draft: Draft) -> None:
    """``compress_ratios`` says what stands for how many tokens: 0 nothing, 4, 128.

    A list may be longer than the layers by its multi-token-prediction entries.
    """
    facts = draft.facts
    hidden, streams = facts.hidden, facts.count("hc_mult")
    draft.embedding()
    for layer, ratio in enumerate(_ratios(facts)):
        _attention(draft, ratio)
        expert_layer(draft, layer)
        shared_experts(draft)
        _mixing(draft, streams * (streams + 2), streams, scales=3, copies=2)
        draft.norm("layer norm", hidden, copies=2)
    _mixing(draft, streams, streams, scales=1, copies=1)
    draft.norm("final norm", hidden)
    draft.head(tied=False)


def _ratios(facts: Facts) -> list[int]:
    layers = facts.layers
    listed = facts.counts("compress_ratios") or []
    if len(listed) > layers:
        listed = listed[:layers]
    facts_listed = Facts({"compress_ratios": listed or None}, {})
    ratios = facts_listed.per_layer(["compress_ratios"], layers)
    return ratios if ratios is not None else [0] * layers


def _mixing(draft: Draft, outputs: int, streams: int, *, scales: int, copies: int) -> None:
    """Hyper-connections: how residual streams are mixed before and after a part."""
    width = streams * draft.facts.hidden
    draft.weight("stream mix", "mlp", outputs, width, copies=copies, sharded=False)
    draft.weight("stream mix base", "mlp", outputs, copies=copies, sharded=False)
    draft.weight("stream mix scale", "mlp", scales, copies=copies, sharded=False)


def _attention(draft: Draft, ratio: int) -> None:
    facts = draft.facts
    hidden, heads, width = facts.hidden, facts.q_heads, facts.head_dim
    q_rank = facts.count("q_lora_rank")
    groups, o_rank = facts.count("o_groups"), facts.count("o_lora_rank")
    indexed = ratio == _INDEXED_RATIO
    index_width = facts.count("index_head_dim") if indexed else 0
    draft.linear("q down", "attention", q_rank, hidden, sharded=False)
    draft.norm("q latent norm", q_rank)
    draft.linear("q up", "attention", heads * width, q_rank)
    draft.linear("kv", "attention", width, hidden, sharded=False)
    draft.norm("kv norm", width)
    draft.linear("o down", "attention", groups * o_rank, heads * width // groups)
    draft.linear("o up", "attention", hidden, groups * o_rank)
    draft.weight("sinks", "attention", heads)
    if ratio:
        _compressor(draft, ratio, width * (2 if indexed else 1), width, "compressor")
    if indexed:
        index_heads = facts.count("index_n_heads")
        _compressor(draft, ratio, 2 * index_width, index_width, "index compressor")
        draft.linear("index q", "attention", index_heads * index_width, q_rank, sharded=False)
        draft.linear("index weights", "attention", index_heads, hidden, sharded=False)
    draft.cache(
        CompressedAttention(
            layers=1,
            width=width,
            window=facts.count("sliding_window"),
            ratio=ratio,
            index_width=index_width,
            index_topk=facts.optional("index_topk") if indexed else None,
            q_heads=heads,
        )
    )


def _compressor(draft: Draft, ratio: int, outputs: int, width: int, name: str) -> None:
    """Turns ``ratio`` tokens into one entry: two projections, a bias per position, a norm."""
    hidden = draft.facts.hidden
    draft.weight(name, "attention", outputs, hidden, copies=2, sharded=False)
    draft.weight(f"{name} positions", "attention", ratio, outputs, sharded=False)
    draft.norm(f"{name} norm", width)
