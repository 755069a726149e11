"""Compressed caches (DeepSeek-V4): a window of recent tokens and one entry per ``ratio`` tokens.

Each entry is one shared K = V row; layers with an indexer keep an index key for every compressed
entry and attend to the best ``index_topk`` of them. Entry widths and ratios as transformers'
``deepseek_v4`` caches them; the unfinished block of the compressor is a runtime's working state
and not counted.
"""

from kvtui.sizing.kinds.base import (
    Lengths,
    Row,
    Stream,
    Term,
    attention_flops,
    everything,
    last,
    streams,
    term,
)
from kvtui.spec import CompressedAttention


def _attended(group: CompressedAttention, tokens: int) -> int:
    entries = tokens // group.ratio if group.ratio else 0
    return entries if group.index_topk is None else min(entries, group.index_topk)


@streams.register
def _(group: CompressedAttention) -> tuple[Stream, ...]:
    row = Row("latent", 1, group.width, sharded=False)
    kept = [Stream((row,), last(group.window), lambda tokens: min(tokens, group.window))]
    if group.ratio:
        kept.append(
            Stream((row,), everything, lambda tokens: _attended(group, tokens), group.ratio)
        )
    if group.ratio and group.index_width:
        index = Row("index", 1, group.index_width, sharded=False)
        kept.append(Stream((index,), everything, lambda tokens: tokens // group.ratio, group.ratio))
    return tuple(kept)


@attention_flops.register
def _(group: CompressedAttention, tokens: int) -> int | None:
    if group.q_heads is None:
        return None
    keys = min(tokens, group.window) + _attended(group, tokens)
    return 4 * group.q_heads * group.width * keys


@term.register
def _(group: CompressedAttention, lengths: Lengths) -> Term:
    window = f"{lengths.values(f'{group.window}')}·{group.width}"
    if not group.ratio:
        return Term(f"L·{lengths.rule('w')}·d", f"{group.layers}·{window}")
    return Term(
        f"L·({lengths.rule('w')}·d+{lengths.rule()}/r·(d+d_index))",
        f"{group.layers}·({window}+{lengths.values()}/{group.ratio}·"
        f"({group.width}+{group.index_width}))",
    )
