"""Which layers see everything and which a window or a chunk.

``layer_types`` decides where it is given; then ``sliding_window_pattern`` P (a layer is global
where i % P == P - 1); then the family's own rule. A bare ``sliding_window`` is not enough: files
carry it with ``use_sliding_window: false``, and runtimes disagree on what it means alone.
"""

from typing import Final

from kvtui.errors import InputError
from kvtui.sources.facts import Facts, checked_length
from kvtui.spec import ChunkedAttention, FullAttention, LayerGroup, SlidingWindow

FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"
CHUNKED: Final = "chunked_attention"
_ALIASES: Final = {
    "attention": FULL,
    "full": FULL,
    "global": FULL,
    "sliding": SLIDING,
    "local": SLIDING,
    "chunked": CHUNKED,
}


def layer_types(facts: Facts, *, known: tuple[str, ...], default: list[str]) -> list[str]:
    """The type of each layer: the file's ``layer_types``, each of ``known``, or ``default``."""
    listed = facts.strings("layer_types")
    if listed is None:
        return default
    named = [_ALIASES.get(one, one) if one not in known else one for one in listed]
    for index, one in enumerate(named):
        if one not in known:
            raise InputError(f"layer_types[{index}]", one, "one of " + ", ".join(known))
    return checked_length("layer_types", named, facts.layers)


def attention_types(facts: Facts, *, pattern: int = 0, dense_first: bool = False) -> list[str]:
    """Full or sliding, for each layer.

    ``pattern`` is the family's default P: 0 means that nothing slides unless the file says so,
    1 that every layer does. With ``dense_first`` the global layer leads its period.
    """
    layers = facts.layers
    return layer_types(
        facts,
        known=(FULL, SLIDING, CHUNKED),
        default=_by_pattern(facts, layers, pattern, dense_first=dense_first),
    )


def _by_pattern(facts: Facts, layers: int, pattern: int, *, dense_first: bool) -> list[str]:
    window = facts.optional("sliding_window", "sliding_window_size")
    if window is None:
        return [FULL] * layers
    if facts.value("use_sliding_window") is False:
        facts.warn(
            f"sliding_window {window} is in the file but use_sliding_window is false: every "
            "layer keeps all tokens."
        )
        return [FULL] * layers
    if facts.flag("use_sliding_window"):
        first = facts.count("max_window_layers", default=0, low=0)
        return [SLIDING if index >= first else FULL for index in range(layers)]
    value = facts.value("sliding_window_pattern", "_sliding_window_pattern")
    if isinstance(value, str):
        return _spelled(value, layers)
    if isinstance(value, list):
        flags = facts.counts("sliding_window_pattern", high=1) or []
        checked_length("sliding_window_pattern", flags, layers)
        return [SLIDING if flag else FULL for flag in flags]
    period = facts.optional("sliding_window_pattern", "_sliding_window_pattern", low=0) or pattern
    if period == 0:
        facts.warn(
            f"sliding_window {window} is in the file but nothing says which layers it is for: "
            "every layer is taken to keep all tokens."
        )
        return [FULL] * layers
    if period == 1:
        facts.warn(
            f"sliding_window {window} alone: all {layers} layers are taken to keep {window} "
            "tokens; some runtimes ignore the field and keep every token."
        )
        return [SLIDING] * layers
    full_at = 0 if dense_first else period - 1
    return [FULL if index % period == full_at else SLIDING for index in range(layers)]


def _spelled(text: str, layers: int) -> list[str]:
    """A pattern of letters such as LLLG, repeated (EXAONE 4)."""
    if not text or set(text) - {"L", "G"}:
        raise InputError("sliding_window_pattern", text, "a number or letters L and G")
    return [FULL if text[index % len(text)] == "G" else SLIDING for index in range(layers)]


def attention_layer(
    facts: Facts, kind: str, *, q_heads: int, kv_heads: int, k_width: int, v_width: int
) -> LayerGroup:
    """One layer of ``kind`` with these heads."""
    if q_heads < kv_heads or q_heads % kv_heads:
        raise InputError("num_attention_heads", q_heads, f"a multiple of the {kv_heads} KV heads")
    if kind == SLIDING:
        window = facts.count("sliding_window", "sliding_window_size")
        return SlidingWindow(
            layers=1,
            q_heads=q_heads,
            kv_heads=kv_heads,
            k_width=k_width,
            v_width=v_width,
            window=window,
        )
    if kind == CHUNKED:
        chunk = facts.count("attention_chunk_size")
        return ChunkedAttention(
            layers=1,
            q_heads=q_heads,
            kv_heads=kv_heads,
            k_width=k_width,
            v_width=v_width,
            chunk=chunk,
        )
    return FullAttention(
        layers=1, q_heads=q_heads, kv_heads=kv_heads, k_width=k_width, v_width=v_width
    )
