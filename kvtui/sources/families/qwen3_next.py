"""Qwen3-Next and Qwen3.5: gated delta net, and gated full attention every fourth layer."""

from typing import Final

from kvtui.sources.draft import Draft
from kvtui.sources.families.decoder import projections
from kvtui.sources.families.moe import qwen_experts
from kvtui.sources.families.state_space import gated_delta_net
from kvtui.sources.windows import FULL, attention_layer, layer_types

LINEAR: Final = "linear_attention"


def qwen3_next(draft: Draft) -> None:
    """Full attention where ``full_attention_interval`` or ``layer_types`` says so."""
    facts = draft.facts
    layers, hidden = facts.layers, facts.hidden
    every = facts.count("full_attention_interval", default=4)
    default = [LINEAR if (layer + 1) % every else FULL for layer in range(layers)]
    draft.embedding()
    for layer, kind in enumerate(layer_types(facts, known=(FULL, LINEAR), default=default)):
        if kind == LINEAR:
            gated_delta_net(draft)
        else:
            _gated_attention(draft)
        qwen_experts(draft, layer)
        draft.norm("layer norm", hidden, copies=2)
    draft.norm("final norm", hidden)
    draft.head(tied=False)


qwen3_5 = qwen3_next
"""The same layers; projections that Qwen3-Next fuses are apart."""


def _gated_attention(draft: Draft) -> None:
    """Attention whose Q projection also gives a gate on its output."""
    facts = draft.facts
    q_heads, kv_heads, width = facts.q_heads, facts.kv_heads, facts.head_dim
    bias = facts.flag("attention_bias")
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
        q_factor=2 if facts.flag("attn_output_gate", default=True) else 1,
    )
    draft.norm("q and k norm", width, copies=2)
