"""Llama 3.2 Vision: layers of ``cross_attention_layers`` attend to the picture alone."""

from typing import Final

from kvtui.errors import InputError
from kvtui.sources.draft import Draft
from kvtui.sources.facts import Facts
from kvtui.sources.families.decoder import Style, attention, projections
from kvtui.sources.windows import FULL
from kvtui.spec import CrossAttention

_SOURCE_TOKENS: Final = 4 * ((560 // 14) ** 2 + 1)
"""One picture of four tiles of 560 pixels in patches of 14 (the published vision_config)."""
_EXTRA_ROWS: Final = 8
"""Rows of the token table beyond the vocabulary, for the picture token."""


def mllama(draft: Draft) -> None:
    """Cross layers replace their self attention, so they keep nothing that grows."""
    facts = draft.facts
    layers, hidden = facts.layers, facts.hidden
    crossing = set(facts.counts("cross_attention_layers") or [])
    if crossing and max(crossing) >= layers:
        raise InputError("cross_attention_layers", max(crossing), f"layers from 0 to {layers - 1}")
    source_tokens = _source_tokens(facts)
    draft.embedding(rows=facts.vocabulary + _EXTRA_ROWS)
    for layer in range(layers):
        if layer in crossing:
            _cross(draft, source_tokens)
        else:
            style = Style(qkv_bias=False, o_bias=False)
            attention(draft, style, FULL, kv_heads=facts.kv_heads)
        draft.mlp(facts.inner)
        draft.norm("layer norm", hidden, copies=2)
    draft.norm("final norm", hidden)
    draft.head(tied=False)


def _source_tokens(facts: Facts) -> int:
    """Tokens of one picture with all its tiles."""
    vision = Facts(facts.table("vision_config"), {})
    if not vision.fields:
        facts.warn(
            f"vision_config is not in the file: one picture of {_SOURCE_TOKENS:,} tokens "
            "(4 tiles of 1,601) is counted per sequence."
        )
        return _SOURCE_TOKENS
    side = vision.count("image_size") // vision.count("patch_size")
    return (side * side + 1) * vision.count("max_num_tiles", default=4)


def _cross(draft: Draft, source_tokens: int) -> None:
    facts = draft.facts
    q_heads, kv_heads, width = facts.q_heads, facts.kv_heads, facts.head_dim
    draft.cache(
        CrossAttention(
            layers=1,
            q_heads=q_heads,
            kv_heads=kv_heads,
            k_width=width,
            v_width=width,
            source_tokens=source_tokens,
        )
    )
    projections(draft, q_heads=q_heads, kv_heads=kv_heads, k_width=width, v_width=width)
    draft.norm("q and k norm", width, copies=2)
    draft.weight("cross gates", "attention", 1, copies=2, sharded=False)
