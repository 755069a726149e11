"""Recurrent layers: a convolution state and a recurrent state per sequence, whatever its length.

The convolution keeps ``kernel - 1`` columns; runtimes that keep ``kernel`` say so in their own
rule. States carry their own element format and are not touched by a KV-cache format (vLLM
``mamba_utils.py``; llama.cpp keeps them in f32).
"""

from kvtui.sizing.kinds.base import (
    Lengths,
    StateTensor,
    Stream,
    Term,
    attention_flops,
    states,
    streams,
    term,
)
from kvtui.spec import NoCache, RecurrentState


@streams.register
def _(group: RecurrentState | NoCache) -> tuple[Stream, ...]:
    return ()


@states.register
def _(group: RecurrentState) -> tuple[StateTensor, ...]:
    state = StateTensor(
        "state", group.state_heads, group.state_rows * group.state_columns, group.state_format
    )
    columns = group.conv_kernel - 1
    if not (group.conv_channels and columns):
        return (state,)
    return (StateTensor("conv", group.conv_channels, columns, group.conv_format), state)


@attention_flops.register
def _(group: RecurrentState, tokens: int) -> int | None:
    """Decay, update and read-out of the state (2 FLOPs an element each) and the convolution."""
    elements = group.state_heads * group.state_rows * group.state_columns
    return 6 * elements + 2 * group.conv_channels * group.conv_kernel


@attention_flops.register
def _(group: NoCache, tokens: int) -> int | None:
    return 0


@term.register
def _(group: RecurrentState | NoCache, lengths: Lengths) -> Term:
    return Term("", "")
