"""MLA with DeepSeek's experts: DeepSeek-V2, V3, R1 and Kimi-K2; with an indexer V3.2 and GLM-5."""

from kvtui.sources.draft import Draft
from kvtui.sources.families.moe import dense_then_experts
from kvtui.spec import IndexedLatent, LatentAttention


def deepseek(draft: Draft) -> None:
    """Every layer latent attention; an indexer where the file has ``index_head_dim``."""
    facts = draft.facts
    draft.embedding()
    for layer in range(facts.layers):
        latent_attention(draft)
        dense_then_experts(draft, layer)
        draft.norm("layer norm", facts.hidden, copies=2)
    draft.norm("final norm", facts.hidden)
    draft.head(tied=False)


def latent_attention(draft: Draft) -> None:
    """One MLA layer.

    The down projections, their norms and the indexer are whole on every tensor-parallel rank;
    what expands to heads is split.
    """
    facts = draft.facts
    hidden, heads = facts.hidden, facts.q_heads
    rank = facts.count("kv_lora_rank")
    rope = facts.count("qk_rope_head_dim", low=0)
    nope = facts.count("qk_nope_head_dim")
    v_width = facts.count("v_head_dim")
    q_rank = facts.optional("q_lora_rank", low=0) or 0
    bias = facts.flag("attention_bias")
    if q_rank:
        draft.linear("q down", "attention", q_rank, hidden, bias=bias, sharded=False)
        draft.norm("q latent norm", q_rank)
    draft.linear("q up" if q_rank else "q", "attention", heads * (nope + rope), q_rank or hidden)
    draft.linear("kv down", "attention", rank + rope, hidden, bias=bias, sharded=False)
    draft.norm("kv latent norm", rank)
    draft.linear("kv up", "attention", heads * (nope + v_width), rank)
    draft.linear("o", "attention", hidden, heads * v_width)
    if bias:
        draft.weight("o bias", "attention", hidden, sharded=False)
    index_width = facts.optional("index_head_dim", low=0)
    if not index_width:
        draft.cache(
            LatentAttention(
                layers=1,
                kv_lora_rank=rank,
                rope_dim=rope,
                q_heads=heads,
                nope_dim=nope,
                v_head_dim=v_width,
            )
        )
        return
    index_heads = facts.count("index_n_heads")
    draft.cache(
        IndexedLatent(
            layers=1,
            kv_lora_rank=rank,
            rope_dim=rope,
            q_heads=heads,
            nope_dim=nope,
            v_head_dim=v_width,
            index_width=index_width,
            index_heads=index_heads,
            index_topk=facts.optional("index_topk"),
        )
    )
    draft.linear("index q", "attention", index_heads * index_width, q_rank or hidden, sharded=False)
    draft.linear("index k", "attention", index_width, hidden, sharded=False)
    draft.linear("index weights", "attention", index_heads, hidden, sharded=False)
    draft.norm("index k norm", index_width, bias=True)
