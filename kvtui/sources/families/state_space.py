"""Recurrent mixers: Mamba 1 and 2 and the gated delta net, weights and state of one layer."""

from kvtui.sources.draft import Draft
from kvtui.sources.formats import activation_format, state_format
from kvtui.spec import RecurrentState


def recurrent(
    draft: Draft,
    *,
    heads: int,
    rows: int,
    columns: int,
    conv_channels: int = 0,
    conv_kernel: int = 1,
) -> None:
    """Add one layer's state ``[heads, rows, columns]`` and convolution columns."""
    facts = draft.facts
    draft.cache(
        RecurrentState(
            layers=1,
            state_heads=heads,
            state_rows=rows,
            state_columns=columns,
            conv_channels=conv_channels,
            conv_kernel=conv_kernel,
            state_format=state_format(facts),
            conv_format=activation_format(facts),
        )
    )


def mamba1(
    draft: Draft,
    *,
    inner: int,
    state: int,
    kernel: int,
    rank: int,
    conv_bias: bool,
    bias: bool,
) -> None:
    """A selective state space per channel (arXiv:2312.00752), as Jamba has it with its norms.

    Ranks split channels, so a channel is what counts as a head of the state.
    """
    hidden = draft.facts.hidden
    draft.linear("ssm in", "attention", 2 * inner, hidden, bias=bias)
    draft.weight("ssm conv", "attention", inner, kernel)
    if conv_bias:
        draft.weight("ssm conv bias", "attention", inner)
    draft.linear("ssm x", "attention", rank + 2 * state, inner)
    draft.linear("ssm dt", "attention", inner, rank, bias=True)
    draft.weight("ssm A", "attention", inner, state)
    draft.weight("ssm D", "attention", inner)
    draft.linear("ssm out", "attention", hidden, inner, bias=bias)
    recurrent(draft, heads=inner, rows=1, columns=state, conv_channels=inner, conv_kernel=kernel)


def mamba2(
    draft: Draft,
    *,
    heads: int,
    head_dim: int,
    groups: int,
    state: int,
    kernel: int,
    conv_bias: bool,
    bias: bool,
) -> None:
    """Mamba 2 (arXiv:2405.21060): heads share a scalar decay, groups share B and C."""
    hidden = draft.facts.hidden
    inner = heads * head_dim
    channels = inner + 2 * groups * state
    draft.linear("ssm in", "attention", inner + channels + heads, hidden, bias=bias)
    draft.weight("ssm conv", "attention", channels, kernel)
    if conv_bias:
        draft.weight("ssm conv bias", "attention", channels)
    draft.weight("ssm dt, A and D", "attention", heads, copies=3)
    draft.weight("ssm norm", "norm", inner)
    draft.linear("ssm out", "attention", hidden, inner, bias=bias)
    recurrent(
        draft,
        heads=heads,
        rows=head_dim,
        columns=state,
        conv_channels=channels,
        conv_kernel=kernel,
    )


def gated_delta_net(draft: Draft) -> None:
    """Gated delta net (arXiv:2412.06464) with the ``linear_*`` fields of Qwen3-Next."""
    facts = draft.facts
    hidden = facts.hidden
    k_heads, v_heads = facts.count("linear_num_key_heads"), facts.count("linear_num_value_heads")
    k_width, v_width = facts.count("linear_key_head_dim"), facts.count("linear_value_head_dim")
    kernel = facts.count("linear_conv_kernel_dim")
    keys, values = k_heads * k_width, v_heads * v_width
    channels = 2 * keys + values
    draft.linear("delta q, k, v and gate", "attention", channels + values, hidden)
    draft.linear("delta beta and decay", "attention", 2 * v_heads, hidden)
    draft.weight("delta conv", "attention", channels, kernel)
    draft.weight("delta dt and A", "attention", v_heads, copies=2)
    draft.norm("delta norm", v_width)
    draft.linear("delta out", "attention", hidden, values)
    recurrent(
        draft,
        heads=v_heads,
        rows=k_width,
        columns=v_width,
        conv_channels=channels,
        conv_kernel=kernel,
    )
