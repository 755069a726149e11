"""Layers whose cache is bounded: sliding window, chunks, sinks + window.

At length T a window layer keeps and reads min(T, w) tokens. A chunk-aware cache could drop to
nothing at each chunk boundary; no engine does that, so min(T, chunk) is the ideal here too
(oracle: transformers keeps a sliding window of the chunk size). Sinks add the first S tokens
(StreamingLLM, arXiv:2309.17453); learned sink logits as in gpt-oss hold no tokens.
"""

from kvtui.sizing.kinds.base import Lengths, Stream, Term, attention_flops, last, streams, term
from kvtui.sizing.kinds.full import flops_per_key, head_term, rows
from kvtui.spec import ChunkedAttention, SinksWindow, SlidingWindow


def _bounded(group: SlidingWindow | ChunkedAttention, limit: int) -> tuple[Stream, ...]:
    return (Stream(rows(group), last(limit), lambda tokens: min(tokens, limit)),)


@streams.register
def _(group: SlidingWindow) -> tuple[Stream, ...]:
    return _bounded(group, group.window)


@streams.register
def _(group: ChunkedAttention) -> tuple[Stream, ...]:
    return _bounded(group, group.chunk)


@streams.register
def _(group: SinksWindow) -> tuple[Stream, ...]:
    sinks, window = group.sinks, group.window

    def kept(tokens: int) -> tuple[range, ...]:
        if tokens <= sinks + window:
            return (range(tokens),)
        return (range(sinks), range(tokens - window, tokens))

    return (Stream(rows(group), kept, lambda tokens: min(tokens, sinks + window)),)


@attention_flops.register
def _(group: SlidingWindow, tokens: int) -> int | None:
    per_key = flops_per_key(group)
    return None if per_key is None else per_key * min(tokens, group.window)


@attention_flops.register
def _(group: ChunkedAttention, tokens: int) -> int | None:
    per_key = flops_per_key(group)
    return None if per_key is None else per_key * min(tokens, group.chunk)


@attention_flops.register
def _(group: SinksWindow, tokens: int) -> int | None:
    per_key = flops_per_key(group)
    return None if per_key is None else per_key * min(tokens, group.sinks + group.window)


@term.register
def _(group: SlidingWindow, lengths: Lengths) -> Term:
    return head_term(group, lengths, "w", f"{group.window}")


@term.register
def _(group: ChunkedAttention, lengths: Lengths) -> Term:
    return head_term(group, lengths, "c", f"{group.chunk}")


@term.register
def _(group: SinksWindow, lengths: Lengths) -> Term:
    return head_term(group, lengths, "S+w", f"{group.sinks}+{group.window}")
