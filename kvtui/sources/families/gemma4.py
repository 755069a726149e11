"""Gemma 4: full layers with heads of their own, shared caches, experts beside the MLP."""

from kvtui.sources.draft import Draft
from kvtui.sources.families.kv_sharing import first_shared_layer, sharing
from kvtui.sources.families.moe import ACTIVE, EXPERTS
from kvtui.sources.windows import FULL, attention_layer, attention_types


def gemma4(draft: Draft) -> None:
    """Five of six layers slide (four of five in E2B); K and V are both stored where equal."""
    facts = draft.facts
    layers, hidden = facts.layers, facts.hidden
    own = facts.count("hidden_size_per_layer_input", default=0, low=0)
    first_shared = first_shared_layer(facts, layers)
    draft.embedding()
    if own:
        rows = facts.count("vocab_size_per_layer_input", default=facts.vocabulary)
        draft.weight("per-layer embedding", "embedding", rows, layers * own)
        draft.linear("per-layer projection", "mlp", layers * own, hidden)
        draft.norm("per-layer norm", own)
    for layer, kind in enumerate(attention_types(facts, pattern=6)):
        stores = layer < first_shared
        _attention(draft, kind, stores=stores)
        wide = not stores and facts.flag("use_double_wide_mlp")
        draft.mlp(facts.inner * (2 if wide else 1))
        draft.norm("layer norm", hidden, copies=4)
        if own:
            draft.linear("per-layer gate", "mlp", own, hidden)
            draft.linear("per-layer up", "mlp", hidden, own)
            draft.norm("per-layer output norm", hidden)
        if facts.flag("enable_moe_block"):
            number = facts.count(*EXPERTS)
            draft.experts(number, facts.count(*ACTIVE), facts.count("moe_intermediate_size"))
            draft.weight("router scale", "router", hidden, sharded=False)
            draft.weight("expert scales", "router", number, sharded=False)
            draft.norm("expert norm", hidden, copies=3)
    draft.norm("final norm", hidden)
    draft.head(tied=True)


def _attention(draft: Draft, kind: str, *, stores: bool) -> None:
    """Full layers have ``global_head_dim``, and other KV heads where K and V are the same."""
    facts = draft.facts
    q_heads, kv_heads, width = facts.q_heads, facts.kv_heads, facts.head_dim
    same = kind == FULL and facts.flag("attention_k_eq_v")
    if kind == FULL:
        width = facts.count("global_head_dim", default=width)
    if same:
        kv_heads = facts.count("num_global_key_value_heads", default=kv_heads)
    layer = attention_layer(
        facts, kind, q_heads=q_heads, kv_heads=kv_heads, k_width=width, v_width=width
    )
    bias = facts.flag("attention_bias")
    draft.linear("q", "attention", q_heads * width, facts.hidden, bias=bias)
    draft.norm("q norm", width)
    if stores:
        for name in ("k",) if same else ("k", "v"):
            draft.linear(name, "attention", kv_heads * width, facts.hidden, bias=bias)
        draft.norm("k norm", width)
    draft.linear("o", "attention", facts.hidden, q_heads * width, bias=bias)
    draft.cache(layer if stores else sharing(layer))
