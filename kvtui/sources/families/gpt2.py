"""Decoders before Llama: biases everywhere, LayerNorm, one or as many KV heads as query heads."""

from kvtui.sources.draft import Draft
from kvtui.sources.families.decoder import projections
from kvtui.sources.windows import FULL, attention_layer


def gpt2(draft: Draft) -> None:
    """GPT-2: learned positions, all heads their own K and V."""
    _decoder(draft, kv_heads=draft.facts.q_heads)


def gpt_bigcode(draft: Draft) -> None:
    """StarCoder: GPT-2 with one K and V head where ``multi_query`` says so (its default)."""
    facts = draft.facts
    one = facts.flag("multi_query", default=True)
    _decoder(draft, kv_heads=1 if one else facts.q_heads)


def _decoder(draft: Draft, *, kv_heads: int) -> None:
    facts = draft.facts
    hidden = facts.hidden
    inner = facts.count("n_inner", "intermediate_size", default=4 * hidden)
    draft.embedding()
    rows = facts.count("n_positions", "max_position_embeddings")
    draft.weight("position embedding", "embedding", rows, hidden)
    for _ in range(facts.layers):
        _biased_attention(draft, kv_heads)
        draft.mlp(inner, gated=False, bias=True)
        draft.norm("layer norm", hidden, copies=2, bias=True)
    draft.norm("final norm", hidden, bias=True)
    draft.head(tied=True)


def opt(draft: Draft) -> None:
    """OPT: two more positions than it says, a token table that may be narrower."""
    facts = draft.facts
    hidden = facts.hidden
    width = facts.count("word_embed_proj_dim", default=hidden)
    bias = facts.flag("enable_bias", default=True)
    draft.embedding(width=width)
    positions = facts.count("max_position_embeddings") + 2
    draft.weight("position embedding", "embedding", positions, hidden)
    if width != hidden:
        draft.linear("embedding in", "mlp", hidden, width)
        draft.linear("embedding out", "mlp", width, hidden)
    for _ in range(facts.layers):
        _biased_attention(draft, facts.q_heads, bias=bias)
        draft.mlp(facts.inner, gated=False, bias=bias)
        draft.norm("layer norm", hidden, copies=2, bias=True)
    if facts.flag("do_layer_norm_before", default=True):
        draft.norm("final norm", hidden, bias=True)
    draft.head(tied=True, width=width)


def bloom(draft: Draft) -> None:
    """BLOOM: ALiBi, a norm behind the token table."""
    facts = draft.facts
    hidden = facts.hidden
    draft.embedding()
    draft.norm("embedding norm", hidden, bias=True)
    for _ in range(facts.layers):
        _biased_attention(draft, facts.q_heads)
        draft.mlp(4 * hidden, gated=False, bias=True)
        draft.norm("layer norm", hidden, copies=2, bias=True)
    draft.norm("final norm", hidden, bias=True)
    draft.head(tied=True)


def falcon(draft: Draft) -> None:
    """Falcon: ``num_kv_heads`` where the architecture is new, else one with ``multi_query``."""
    facts = draft.facts
    hidden = facts.hidden
    new = facts.flag("new_decoder_architecture")
    one = facts.flag("multi_query", default=True)
    if new:
        kv_heads = facts.count("num_kv_heads", "n_head_kv", default=facts.q_heads)
    else:
        kv_heads = 1 if one else facts.q_heads
    bias = facts.flag("bias")
    inner = facts.count("ffn_hidden_size", default=4 * hidden)
    parallel = facts.flag("parallel_attn", default=True)
    norms = facts.count("num_ln_in_parallel_attn", default=2 if new else 1) if parallel else 2
    draft.embedding()
    for _ in range(facts.layers):
        _biased_attention(draft, kv_heads, bias=bias)
        draft.mlp(inner, gated=False, bias=bias)
        draft.norm("layer norm", hidden, copies=norms, bias=True)
    draft.norm("final norm", hidden, bias=True)
    draft.head(tied=True)


def _biased_attention(draft: Draft, kv_heads: int, *, bias: bool = True) -> None:
    facts = draft.facts
    q_heads, width = facts.q_heads, facts.head_dim
    draft.cache(
        attention_layer(
            facts, FULL, q_heads=q_heads, kv_heads=kv_heads, k_width=width, v_width=width
        )
    )
    projections(
        draft,
        q_heads=q_heads,
        kv_heads=kv_heads,
        k_width=width,
        v_width=width,
        qkv_bias=bias,
        o_bias=bias,
    )
