"""Gemma 3n: per-layer embeddings, AltUp streams, and last layers that share a cache."""

from kvtui.sources.draft import Draft
from kvtui.sources.families.kv_sharing import first_shared_layer, sharing
from kvtui.sources.windows import attention_layer, attention_types


def gemma3n(draft: Draft) -> None:
    """Four of five layers slide; ``num_kv_shared_layers`` at the end store no K and V."""
    facts = draft.facts
    layers, hidden = facts.layers, facts.hidden
    streams = facts.count("altup_num_inputs", default=4)
    own = facts.count("hidden_size_per_layer_input", default=256)
    rows = facts.count("vocab_size_per_layer_input", default=facts.vocabulary)
    inner = facts.per_layer(["intermediate_size"], layers, low=1)
    first_shared = first_shared_layer(facts, layers)
    draft.embedding()
    draft.weight("per-layer embedding", "embedding", rows, layers * own)
    draft.linear("per-layer projection", "mlp", layers * own, hidden)
    draft.norm("per-layer norm", own)
    draft.weight("stream projections", "mlp", hidden, hidden, copies=2 * (streams - 1))
    for layer, kind in enumerate(attention_types(facts, pattern=5)):
        _attention(draft, kind, stores=layer < first_shared)
        draft.mlp(inner[layer] if inner else facts.inner)
        _around(draft, streams, own)
    draft.norm("final norm", hidden)
    draft.head(tied=True)


def _attention(draft: Draft, kind: str, *, stores: bool) -> None:
    facts = draft.facts
    q_heads, kv_heads, width = facts.q_heads, facts.kv_heads, facts.head_dim
    layer = attention_layer(
        facts, kind, q_heads=q_heads, kv_heads=kv_heads, k_width=width, v_width=width
    )
    bias = facts.flag("attention_bias")
    draft.linear("q", "attention", q_heads * width, facts.hidden, bias=bias)
    draft.norm("q norm", width)
    if stores:
        draft.linear("k", "attention", kv_heads * width, facts.hidden, bias=bias)
        draft.linear("v", "attention", kv_heads * width, facts.hidden, bias=bias)
        draft.norm("k norm", width)
    draft.linear("o", "attention", facts.hidden, q_heads * width, bias=bias)
    draft.cache(layer if stores else sharing(layer))


def _around(draft: Draft, streams: int, own: int) -> None:
    """What stands beside attention and MLP in a layer: LAuReL, AltUp, the per-layer input."""
    hidden = draft.facts.hidden
    rank = draft.facts.count("laurel_rank", default=64)
    draft.linear("laurel down", "mlp", rank, hidden)
    draft.linear("laurel up", "mlp", hidden, rank)
    draft.linear("altup router", "router", streams, hidden, sharded=False)
    draft.linear("altup correction", "router", streams, streams, sharded=False)
    draft.linear("altup prediction", "router", streams * streams, streams, sharded=False)
    draft.linear("per-layer gate", "mlp", own, hidden)
    draft.linear("per-layer up", "mlp", hidden, own)
    draft.norm("layer norm", hidden, copies=4)
    draft.norm("laurel, altup and per-layer norm", hidden, copies=3)
    draft.norm("altup output scale", hidden)
