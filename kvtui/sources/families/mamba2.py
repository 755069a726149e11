"""Hybrids of Mamba 2 and attention: Granite 4.0 and Nemotron-H."""

from typing import Final

from kvtui.errors import InputError
from kvtui.sources.draft import Draft
from kvtui.sources.facts import checked_length
from kvtui.sources.families.decoder import projections
from kvtui.sources.families.moe import ACTIVE, EXPERTS
from kvtui.sources.families.state_space import mamba2
from kvtui.sources.windows import FULL, attention_layer, layer_types
from kvtui.spec import NoCache

_MAMBA: Final = "mamba"
_LINEAR: Final = "linear_attention"
"""The name newer files have for Mamba layers."""
_LETTERS: Final = {"M": "mamba", "*": FULL, "-": "mlp", "E": "moe"}


def granite_hybrid(draft: Draft) -> None:
    """Granite 4.0 hybrids: Mamba 2 or attention, then routed experts beside a shared MLP."""
    facts = draft.facts
    hidden = facts.hidden
    default = [_MAMBA] * facts.layers
    draft.embedding()
    for kind in layer_types(facts, known=(FULL, _MAMBA, _LINEAR), default=default):
        if kind == FULL:
            _attention(draft)
        else:
            heads = facts.count("mamba_n_heads")
            inner = facts.count("mamba_expand") * hidden
            if inner % heads:
                raise InputError("mamba_n_heads", heads, f"a divisor of {inner}")
            mamba2(
                draft,
                heads=heads,
                head_dim=inner // heads,
                groups=facts.count("mamba_n_groups"),
                state=facts.count("mamba_d_state"),
                kernel=facts.count("mamba_d_conv"),
                conv_bias=facts.flag("mamba_conv_bias", default=True),
                bias=facts.flag("mamba_proj_bias"),
            )
        number = facts.count(*EXPERTS, default=0, low=0)
        if number:
            draft.experts(number, facts.count(*ACTIVE), facts.inner)
        draft.mlp(facts.count("shared_intermediate_size"), name="shared expert")
        draft.norm("layer norm", hidden, copies=2)
    draft.norm("final norm", hidden)
    draft.head(tied=True)


def nemotron_h(draft: Draft) -> None:
    """Nemotron-H: one part a layer, by the letters of ``hybrid_override_pattern``.

    M is Mamba 2, * attention, - an MLP without gate, E experts without gate.
    """
    facts = draft.facts
    draft.embedding()
    for kind in _parts(draft):
        if kind == FULL:
            _attention(draft)
        elif kind == _MAMBA:
            mamba2(
                draft,
                heads=facts.count("mamba_num_heads"),
                head_dim=facts.count("mamba_head_dim"),
                groups=facts.count("n_groups"),
                state=facts.count("ssm_state_size"),
                kernel=facts.count("conv_kernel"),
                conv_bias=facts.flag("use_conv_bias", default=True),
                bias=facts.flag("use_bias"),
            )
        else:
            draft.cache(NoCache(layers=1))
            _feed_forward(draft, kind)
        draft.norm("layer norm", facts.hidden)
    draft.norm("final norm", facts.hidden)
    draft.head(tied=False)


def _parts(draft: Draft) -> list[str]:
    """What each layer is, from ``layers_block_type`` or the letters of the pattern."""
    facts = draft.facts
    listed = facts.strings("layers_block_type") or facts.strings("layer_types")
    if listed is not None:
        named = {"attention": FULL, _LINEAR: _MAMBA}
        known = [named.get(one, one) for one in listed]
        for index, one in enumerate(known):
            if one not in _LETTERS.values():
                raise InputError(f"layers_block_type[{index}]", one, "mamba, attention, mlp or moe")
        return checked_length("layers_block_type", known, facts.layers)
    pattern = facts.text("hybrid_override_pattern")
    if not pattern or set(pattern) - set(_LETTERS):
        raise InputError("hybrid_override_pattern", pattern or None, "letters of M, *, - and E")
    return [
        _LETTERS[one]
        for one in checked_length("hybrid_override_pattern", list(pattern), facts.layers)
    ]


def _attention(draft: Draft) -> None:
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
    )


def _feed_forward(draft: Draft, kind: str) -> None:
    """An MLP, or experts (of the latent width where there is one) beside a shared one."""
    facts = draft.facts
    bias = facts.flag("mlp_bias")
    if kind == "mlp":
        draft.mlp(facts.inner, gated=False, bias=bias)
        return
    latent = facts.optional("moe_latent_size", low=0)
    if latent:
        draft.linear("latent down", "mlp", latent, facts.hidden, bias=bias)
        draft.linear("latent up", "mlp", facts.hidden, latent, bias=bias)
    draft.experts(
        facts.count("n_routed_experts"),
        facts.count(*ACTIVE),
        facts.count("moe_intermediate_size"),
        gated=False,
        hidden=latent or None,
    )
    shared = facts.count("moe_shared_expert_intermediate_size", default=0, low=0)
    if shared:
        draft.mlp(shared, gated=False, bias=bias, name="shared expert")
