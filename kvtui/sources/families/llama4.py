"""Llama 4: local layers of ``attention_chunk_size`` tokens, every fourth layer global."""

from kvtui.sources.draft import Draft
from kvtui.sources.families.decoder import projections
from kvtui.sources.families.moe import ACTIVE, EXPERTS
from kvtui.sources.windows import CHUNKED, FULL, attention_layer, layer_types


def llama4(draft: Draft) -> None:
    """Llama 4 text decoder: experts every ``interleave_moe_layer_step`` layers, one shared."""
    facts = draft.facts
    layers, hidden = facts.layers, facts.hidden
    q_heads, kv_heads, width = facts.q_heads, facts.kv_heads, facts.head_dim
    bias = facts.flag("attention_bias")
    step = facts.count("interleave_moe_layer_step", default=1)
    listed = facts.counts("moe_layers")
    sparse = set(range(step - 1, layers, step)) if listed is None else set(listed)
    draft.embedding()
    for layer, kind in enumerate(layer_types(facts, known=(FULL, CHUNKED), default=_kinds(draft))):
        draft.cache(
            attention_layer(
                facts, kind, q_heads=q_heads, kv_heads=kv_heads, k_width=width, v_width=width
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
        if layer in sparse:
            draft.experts(facts.count(*EXPERTS), facts.count(*ACTIVE), facts.inner)
            draft.mlp(facts.inner, name="shared expert")
        else:
            draft.mlp(facts.count("intermediate_size_mlp"))
        draft.norm("layer norm", hidden, copies=2)
    draft.norm("final norm", hidden)
    draft.head(tied=False)


def _kinds(draft: Draft) -> list[str]:
    """Chunked where a layer uses RoPE: ``no_rope_layers`` or all but each fourth."""
    facts = draft.facts
    layers = facts.layers
    if facts.optional("attention_chunk_size") is None:
        return [FULL] * layers
    every = facts.count("no_rope_layer_interval", default=4)
    if facts.value("no_rope_layers"):
        roped = facts.per_layer(["no_rope_layers"], layers) or []
    else:
        roped = [int((layer + 1) % every != 0) for layer in range(layers)]
    return [CHUNKED if one else FULL for one in roped]
