"""MiniMax-Text-01 and M1: lightning attention, full attention every eighth layer, experts."""

from typing import Final

from kvtui.sources.draft import Draft
from kvtui.sources.families.decoder import projections
from kvtui.sources.families.moe import ACTIVE, EXPERTS
from kvtui.sources.formats import activation_format
from kvtui.sources.windows import FULL, attention_layer, layer_types
from kvtui.spec import RecurrentState

_LINEAR: Final = "linear_attention"


def minimax(draft: Draft) -> None:
    """The layer kinds are in ``attn_type_list`` (0 linear, 1 full) or ``layer_types``."""
    facts = draft.facts
    layers, hidden = facts.layers, facts.hidden
    q_heads, kv_heads, width = facts.q_heads, facts.kv_heads, facts.head_dim
    listed = facts.per_layer(["attn_type_list"], layers)
    default = (
        [FULL if one else _LINEAR for one in listed]
        if listed
        else [FULL if layer % 2 else _LINEAR for layer in range(layers)]
    )
    draft.embedding()
    for kind in layer_types(facts, known=(FULL, _LINEAR), default=default):
        if kind == FULL:
            draft.cache(
                attention_layer(
                    facts, FULL, q_heads=q_heads, kv_heads=kv_heads, k_width=width, v_width=width
                )
            )
            projections(draft, q_heads=q_heads, kv_heads=kv_heads, k_width=width, v_width=width)
        else:
            _lightning(draft, q_heads, width)
        draft.experts(facts.count(*EXPERTS), facts.count(*ACTIVE), facts.inner)
        shared = facts.count("shared_intermediate_size", default=0, low=0)
        if shared:
            draft.mlp(shared, name="shared expert")
        draft.norm("layer norm", hidden, copies=2)
    draft.norm("final norm", hidden)
    draft.head(tied=False)


def _lightning(draft: Draft, heads: int, width: int) -> None:
    """Linear attention with a fixed decay per head; its state is in the model's own format.

    transformers keeps the K-V product of each head in the activations' dtype, without
    convolution.
    """
    facts = draft.facts
    inner = heads * width
    draft.norm("lightning norm", inner)
    draft.linear("lightning q, k and v", "attention", 3 * inner, facts.hidden)
    draft.linear("lightning gate", "attention", inner, facts.hidden)
    draft.linear("lightning out", "attention", facts.hidden, inner)
    draft.cache(
        RecurrentState(
            layers=1,
            state_heads=heads,
            state_rows=width,
            state_columns=width,
            state_format=activation_format(facts),
            conv_format=activation_format(facts),
        )
    )
