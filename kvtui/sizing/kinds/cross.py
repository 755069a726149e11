"""Cross attention and layers that read another layer's cache.

Cross-attention layers hold K/V of the source (vision or encoder) tokens: constant in T. Layers
that share a cache store nothing and still read it every step (Gemma 3n and 4; vLLM emits no
spec for them).
"""

from kvtui.sizing.kinds.base import (
    Lengths,
    Stream,
    Term,
    attention_flops,
    streams,
    term,
)
from kvtui.sizing.kinds.full import flops_per_key, rows
from kvtui.spec import CrossAttention, SharedCache


@streams.register
def _(group: CrossAttention) -> tuple[Stream, ...]:
    source = group.source_tokens
    return (Stream(rows(group), lambda _: (range(source),), lambda _: source, constant=True),)


@streams.register
def _(group: SharedCache) -> tuple[Stream, ...]:
    window = group.window
    read = (lambda tokens: tokens) if window is None else (lambda tokens: min(tokens, window))
    return (Stream(rows(group), lambda _: (), read),)


@attention_flops.register
def _(group: CrossAttention, tokens: int) -> int | None:
    per_key = flops_per_key(group)
    return None if per_key is None else per_key * group.source_tokens


@attention_flops.register
def _(group: SharedCache, tokens: int) -> int | None:
    per_key = flops_per_key(group)
    seen = tokens if group.window is None else min(tokens, group.window)
    return None if per_key is None else per_key * seen


@term.register
def _(group: CrossAttention | SharedCache, lengths: Lengths) -> Term:
    return Term("", "")
