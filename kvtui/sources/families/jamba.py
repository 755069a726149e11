"""Jamba: Mamba 1, attention each ``attn_layer_period`` layers, experts each second."""

from kvtui.sources.draft import Draft
from kvtui.sources.families.decoder import projections
from kvtui.sources.families.moe import ACTIVE, EXPERTS
from kvtui.sources.families.state_space import mamba1
from kvtui.sources.windows import FULL, attention_layer


def jamba(draft: Draft) -> None:
    """Layer i attends where (i - offset) % period is 0, and likewise has experts."""
    facts = draft.facts
    hidden = facts.hidden
    attention = facts.count("attn_layer_period"), facts.count("attn_layer_offset", low=0)
    experts = facts.count("expert_layer_period"), facts.count("expert_layer_offset", low=0)
    number = facts.count(*EXPERTS, default=1)
    draft.embedding()
    for layer in range(facts.layers):
        if (layer - attention[1]) % attention[0] == 0:
            _attention(draft)
        else:
            _mixer(draft)
        if number > 1 and (layer - experts[1]) % experts[0] == 0:
            draft.experts(number, facts.count(*ACTIVE), facts.inner)
        else:
            draft.mlp(facts.inner)
        draft.norm("layer norm", hidden, copies=2)
    draft.norm("final norm", hidden)
    draft.head(tied=False)


def _attention(draft: Draft) -> None:
    facts = draft.facts
    q_heads, kv_heads, width = facts.q_heads, facts.kv_heads, facts.head_dim
    draft.cache(
        attention_layer(
            facts, FULL, q_heads=q_heads, kv_heads=kv_heads, k_width=width, v_width=width
        )
    )
    projections(draft, q_heads=q_heads, kv_heads=kv_heads, k_width=width, v_width=width)


def _mixer(draft: Draft) -> None:
    facts = draft.facts
    state = facts.count("mamba_d_state")
    rank = facts.count("mamba_dt_rank", default=-(-facts.hidden // 16))
    mamba1(
        draft,
        inner=facts.count("mamba_expand") * facts.hidden,
        state=state,
        kernel=facts.count("mamba_d_conv"),
        rank=rank,
        conv_bias=facts.flag("mamba_conv_bias", default=True),
        bias=facts.flag("mamba_proj_bias"),
    )
    draft.norm("ssm dt norm", rank)
    draft.norm("ssm b and c norm", state, copies=2)
