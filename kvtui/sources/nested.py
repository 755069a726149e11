"""The fields of the text decoder in a file that may describe more than one.

Multimodal files keep them in an object of their own; dtype and quantisation stay at the root. A
nested config leaves out what equals its class's default, so those defaults are kept here: they
are transformers 5.24's, and apply to nested configs alone.
"""

from collections.abc import Mapping
from typing import Final

from kvtui.errors import InputError

_NESTED: Final = ("text_config", "llm_config", "language_config")
_OUTER: Final = ("thinker_config",)
"""Parts that hold a text decoder of their own (omni models: thinker before talker)."""
_FROM_ROOT: Final = (
    "torch_dtype",
    "dtype",
    "quantization_config",
    "tie_word_embeddings",
    "vision_config",
    "model_type",
)

_LLAMA: Final[Mapping[str, object]] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}
_MISTRAL: Final[Mapping[str, object]] = {
    **_LLAMA,
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
}
_GEMMA3: Final[Mapping[str, object]] = {
    "vocab_size": 262208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131072,
    "sliding_window": 4096,
}
_CLASS_DEFAULTS: Final[Mapping[str, Mapping[str, object]]] = {
    "llama": _LLAMA,
    "mistral": _MISTRAL,
    "gemma3_text": _GEMMA3,
}


def decoder_fields(
    facts: Mapping[str, object],
) -> tuple[Mapping[str, object], Mapping[str, object], str]:
    """The decoder's own fields, class defaults of what is left out, and which part it is.

    The last is a sentence where the file holds more than one language part, else empty.
    """
    for name in _OUTER:
        outer = facts.get(name)
        if isinstance(outer, dict):
            fields, defaults, _ = decoder_fields({**_root(facts), **outer})
            others = [one for one in facts if one.endswith("_config") and one != name]
            apart = f"; {', '.join(others)} not counted" if others else ""
            return fields, defaults, f"{name} is the part that is sized{apart}."
    for name in _NESTED:
        inner = facts.get(name)
        if inner is None:
            continue
        if not isinstance(inner, dict):
            raise InputError(name, type(inner).__name__, "an object")
        stated = {key: value for key, value in inner.items() if value is not None}
        fields = {**_root(facts), **stated}
        return fields, _CLASS_DEFAULTS.get(str(fields.get("model_type")), {}), ""
    return facts, {}, ""


def _root(facts: Mapping[str, object]) -> dict[str, object]:
    """What a nested part takes from the root of the file."""
    return {one: facts[one] for one in _FROM_ROOT if facts.get(one) is not None}
