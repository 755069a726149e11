"""Typed access to the fields of a config.json: aliases, nulls, ranges.

A field that is null counts as absent. Every value is checked where it is read; what cannot be
used is an ``InputError`` that names the field, the value and the range.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from kvtui.errors import InputError
from kvtui.units import count

_Item = TypeVar("_Item")

LAYERS_MAX: Final = 4096
"""Largest accepted number of layers or length of a per-layer list."""
WIDTH_MAX: Final = 2**24
"""Largest accepted width, head count or number of experts."""
VOCABULARY_MAX: Final = 2**30
CONTEXT_MAX: Final = 2**40
_KV_HEADS: Final = (
    "num_key_value_heads",
    "n_head_kv",
    "num_kv_heads",
    "multi_query_group_num",
    "num_attention_groups",
)
"""Names of the number of KV heads (vLLM ``model_arch_config_convertor.py``)."""


_WEIGHTS_ONLY: Final = frozenset(
    {
        "vocab_size",
        "intermediate_size",
        "moe_intermediate_size",
        "shared_expert_intermediate_size",
        "expert_intermediate_size",
        "num_experts_per_tok",
        "num_experts_per_token",
        "num_local_experts",
        "num_experts",
        "n_routed_experts",
        "q_lora_rank",
    }
)
"""Fields that weights depend on and the cache does not; without them only weights are unknown."""


class Facts:
    """The fields of one decoder, with the warnings that reading them gives rise to."""

    def __init__(self, fields: Mapping[str, object], defaults: Mapping[str, object]) -> None:
        """Read from ``fields``; ``defaults`` are the class defaults of a nested config."""
        self.fields = fields
        self.defaults = defaults
        self.warnings: list[str] = []
        self.missing_for_weights: list[str] = []
        """Fields whose absence leaves the weights unknown and the cache known."""
        self._numbers: dict[tuple[object, ...], int | None] = {}
        self._lists: dict[tuple[object, ...], list[int]] = {}

    def warn(self, sentence: str) -> None:
        """Say once what a reader of the answer should know."""
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def value(self, *names: str) -> object:
        """The first of ``names`` that is there and not null, else a nested config's default."""
        for name in names:
            if self.fields.get(name) is not None:
                return self.fields[name]
        for name in names:
            if name in self.defaults:
                value = self.defaults[name]
                self.warn(f"{name} is not in the file; the class default {value} is used.")
                return value
        return None

    def has(self, *names: str) -> bool:
        """Whether one of ``names`` is there and not null."""
        return any(self.fields.get(name) is not None for name in names)

    def optional(self, *names: str, low: int = 1, high: int = WIDTH_MAX) -> int | None:
        """The whole number under the first of ``names`` that is there, None where none is."""
        key = (*names, low, high)
        if key not in self._numbers:
            self._numbers[key] = self._optional(names, low, high)
        return self._numbers[key]

    def _optional(self, names: Sequence[str], low: int, high: int) -> int | None:
        value = self.value(*names)
        if value is None:
            return None
        present = next((name for name in names if self.fields.get(name) is not None), names[0])
        return _whole(present, value, low, high)

    def count(
        self, *names: str, default: int | None = None, low: int = 1, high: int = WIDTH_MAX
    ) -> int:
        """The whole number under the first of ``names``; required where no ``default`` is given."""
        value = self.optional(*names, low=low, high=high)
        if value is None:
            value = default
        if value is not None:
            return value
        if names[0] in _WEIGHTS_ONLY:
            if names[0] not in self.missing_for_weights:
                self.missing_for_weights.append(names[0])
            return max(1, low)
        return _whole(names[0], None, low, high)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A true or false field."""
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InputError(name, value, "true or false")
        return value

    def text(self, name: str, *, default: str = "") -> str:
        """A text field."""
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise InputError(name, value, "text")
        return value

    def table(self, name: str) -> Mapping[str, object]:
        """An object field, empty where it is absent."""
        value = self.value(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise InputError(name, value, "an object")
        return value

    def strings(self, name: str) -> list[str] | None:
        """A list of texts."""
        value = self.value(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise InputError(name, value, "a list of texts")
        return list(value)

    def counts(self, name: str, *, low: int = 0, high: int = CONTEXT_MAX) -> list[int] | None:
        """A list of whole numbers; one number is a list of one. Read once, asked for per layer."""
        value = self.value(name)
        if value is None:
            return None
        key = (name, low, high)
        if key not in self._lists:
            items: Sequence[object] = value if isinstance(value, list) else [value]
            if len(items) > LAYERS_MAX:
                raise InputError(name, f"{len(items)} entries", f"a list of at most {LAYERS_MAX}")
            self._lists[key] = [
                _whole(f"{name}[{index}]", one, low, high) for index, one in enumerate(items)
            ]
        return self._lists[key]

    def per_layer(self, names: Sequence[str], layers: int, *, low: int = 0) -> list[int] | None:
        """One whole number a layer: a list as long as the layers, or one number for all."""
        for name in names:
            value = self.value(name)
            if isinstance(value, list):
                numbers = self.counts(name, low=low, high=WIDTH_MAX) or []
                return checked_length(name, numbers, layers)
            if value is not None:
                return [_whole(name, value, low, WIDTH_MAX)] * layers
        return None

    @property
    def layers(self) -> int:
        """Number of layers."""
        return self.count("num_hidden_layers", "n_layer", "num_layers", "n_layers", high=LAYERS_MAX)

    @property
    def hidden(self) -> int:
        """Width of the residual stream; the cache needs it only where heads have no width."""
        names = ("hidden_size", "n_embd", "d_model", "dim")
        if not self.has(*names) and not self.defaults and self.has("head_dim", "kv_lora_rank"):
            if names[0] not in self.missing_for_weights:
                self.missing_for_weights.append(names[0])
            return 1
        return self.count(*names)

    @property
    def q_heads(self) -> int:
        """Query heads of a layer."""
        return self.count("num_attention_heads", "n_head", "n_heads", "num_heads")

    @property
    def kv_heads(self) -> int:
        """KV heads of a layer; query heads where no field says otherwise.

        Where the field is a list, one number is asked for only where all are equal.
        """
        value = self.value(*_KV_HEADS)
        if isinstance(value, list):
            name = next(name for name in _KV_HEADS if self.has(name))
            numbers = set(self.counts(name, low=1, high=WIDTH_MAX) or [])
            if len(numbers) != 1:
                raise InputError(name, value, "one number for this model type")
            return numbers.pop()
        found = self.optional(*_KV_HEADS, high=WIDTH_MAX)
        if found is None:
            return 1 if self.flag("multi_query") else self.q_heads
        return found

    def kv_heads_per_layer(self, layers: int) -> list[int]:
        """KV heads of each layer; a list in the file is taken entry by entry.

        An entry of 0 is a layer without attention.
        """
        name = next((name for name in _KV_HEADS if self.has(name)), None)
        if name is None or not isinstance(self.value(name), list):
            return [self.kv_heads] * layers
        return checked_length(name, self.counts(name, high=WIDTH_MAX) or [], layers)

    @property
    def vocabulary(self) -> int:
        """Rows of the token table."""
        return self.count("vocab_size", "padded_vocab_size", high=VOCABULARY_MAX)

    @property
    def inner(self) -> int:
        """Width of the MLP between its two matrices."""
        return self.count("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size")

    @property
    def head_dim(self) -> int:
        """Width of a head: ``head_dim`` above 0, else ``hidden_size_per_head``, else hidden/heads.

        Some files carry null or 0 (vLLM ``model_arch_config_convertor.py``).
        """
        given = self.optional("head_dim", "attention_head_dim", low=0)
        given = given or self.optional("hidden_size_per_head", "kv_channels", low=0)
        if given:
            return given
        hidden, heads = self.hidden, self.q_heads
        if hidden % heads:
            raise InputError("hidden_size", hidden, f"a multiple of the {heads} query heads")
        self.warn(
            f"head_dim is not in the file; {hidden // heads} = hidden_size / "
            "num_attention_heads is used."
        )
        return hidden // heads


def checked_length(name: str, items: list[_Item], layers: int) -> list[_Item]:
    """``items`` where there is one a layer."""
    if len(items) != layers:
        raise InputError(name, f"a list of {len(items)}", f"a list of {layers}, one a layer")
    return items


def _whole(name: str, value: object, low: int, high: int) -> int:
    if isinstance(value, list | dict):
        raise InputError(name, type(value).__name__, f"a whole number from {low} to {high}")
    return count(name, value, low=low, high=high)
