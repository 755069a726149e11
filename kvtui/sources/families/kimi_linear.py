"""Kimi-Linear: Kimi delta attention, and MLA in the layers ``linear_attn_config`` lists."""

from typing import Final

from kvtui.errors import InputError
from kvtui.sources.draft import Draft
from kvtui.sources.facts import Facts
from kvtui.sources.families.deepseek import latent_attention
from kvtui.sources.families.moe import dense_then_experts
from kvtui.sources.families.state_space import recurrent
from kvtui.sources.windows import FULL, layer_types

_LINEAR: Final = "linear_attention"
_UNCOUNTED: Final = ("attn_res_block_size", "routed_expert_hidden_size", "mla_use_output_gate")
"""Fields of Kimi-K3, whose own modelling code is not public in transformers 5.24."""


def kimi_linear(draft: Draft) -> None:
    """Kimi-Linear-48B; of Kimi-K3 the cache alone."""
    facts = draft.facts
    layers, hidden = facts.layers, facts.hidden
    linear = Facts(facts.table("linear_attn_config"), {})
    draft.embedding()
    for layer, kind in enumerate(
        layer_types(facts, known=(FULL, _LINEAR), default=_kinds(linear, layers))
    ):
        if kind == FULL:
            latent_attention(draft)
        else:
            _delta_attention(draft, linear)
        dense_then_experts(draft, layer)
        draft.norm("layer norm", hidden, copies=2)
    draft.norm("final norm", hidden)
    draft.head(tied=False)
    if facts.has(*_UNCOUNTED):
        draft.weights_known = False
        facts.warn("The weights of this architecture are not counted; --weights gives them.")


def _kinds(linear: Facts, layers: int) -> list[str]:
    """The layers of ``full_attn_layers``, counted from one, keep a latent; the others a state."""
    full = linear.counts("full_attn_layers", low=1)
    if full is None:
        raise InputError("linear_attn_config.full_attn_layers", None, "a list of layer numbers")
    for index, one in enumerate(full):
        if one > layers:
            raise InputError(f"full_attn_layers[{index}]", one, f"a layer from 1 to {layers}")
    latent = set(full)
    return [FULL if layer + 1 in latent else _LINEAR for layer in range(layers)]


def _delta_attention(draft: Draft, linear: Facts) -> None:
    """A delta net whose decay is per channel (arXiv:2510.26692)."""
    hidden = draft.facts.hidden
    heads, width = linear.count("num_heads"), linear.count("head_dim")
    kernel = linear.count("short_conv_kernel_size")
    inner = heads * width
    for name in ("delta q", "delta k", "delta v"):
        draft.linear(name, "attention", inner, hidden)
    draft.weight("delta conv", "attention", 3 * inner, kernel)
    for name in ("delta decay", "delta gate"):
        draft.linear(f"{name} down", "attention", width, hidden, sharded=False)
        draft.linear(f"{name} up", "attention", inner, width)
    draft.weight("delta dt", "attention", inner)
    draft.weight("delta A", "attention", heads)
    draft.linear("delta beta", "attention", heads, hidden)
    draft.norm("delta norm", width)
    draft.linear("delta out", "attention", hidden, inner)
    recurrent(
        draft,
        heads=heads,
        rows=width,
        columns=width,
        conv_channels=3 * inner,
        conv_kernel=kernel,
    )
