"""A GGUF file as a model: layer groups from its metadata, weight bytes from its tensor table.

Keys and their meaning as llama.cpp reads them (``llama-hparams.cpp``, ``llama-model.cpp``). Lists
hold one figure a layer and are never averaged; the layers of multi-token prediction are left out;
recurrent state is f32, as llama.cpp keeps it.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from kvtui.errors import InputError, SourceError
from kvtui.sources.gguf_file import GgufHeader, Value, read_header
from kvtui.spec import (
    FullAttention,
    LatentAttention,
    LayerGroup,
    Model,
    NoCache,
    RecurrentState,
    SlidingWindow,
)
from kvtui.units import count

_LAYERS_MAX: Final = 4096
_WIDTH_MAX: Final = 2**24

_PATTERNS: Final = {
    "gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4, "olmo3": 4,
    "llama4": 4, "exaone4": 4,
}  # fmt: skip
"""Layers to a period whose last sees everything, where the file has no pattern of its own
(llama.cpp ``llama-model.cpp``, ``set_swa_pattern``)."""
_LLAMA4_CHUNK: Final = 8192


def read(path: Path) -> Model:
    """The model in ``path``.

    Raises:
        SourceError: it is no usable GGUF file.
        InputError: a key is missing or cannot be used; names key, value and range.
    """
    header = read_header(path)
    arch = header.metadata.get("general.architecture")
    if not isinstance(arch, str) or not arch:
        raise SourceError(f"{path} does not say its general.architecture.")
    keys = _Keys(header, arch)
    groups = _groups(keys, arch)
    named = header.metadata.get("general.name")
    return Model(
        name=named if isinstance(named, str) and named else path.stem,
        groups=groups,
        family=arch,
        hidden_size=keys.optional("embedding_length"),
        trained_context=keys.optional("context_length", high=2**40),
        stored_weights_bytes=header.weights_bytes or None,
        source=f"{path.name}, metadata and tensor table",
        confidence="file",
        warnings=tuple(keys.warnings),
    )


class _Keys:
    """Typed access to ``<arch>.*``."""

    def __init__(self, header: GgufHeader, arch: str) -> None:
        self._header, self._arch = header, arch
        self.warnings: list[str] = []

    def value(self, key: str) -> Value:
        return self._header.metadata.get(f"{self._arch}.{key}")

    def optional(self, key: str, *, low: int = 1, high: int = _WIDTH_MAX) -> int | None:
        value = self.value(key)
        if value is None:
            return None
        if isinstance(value, list):
            raise InputError(f"{self._arch}.{key}", "a list", "one whole number")
        return count(f"{self._arch}.{key}", value, low=low, high=high)

    def number(self, key: str, *, low: int = 1, high: int = _WIDTH_MAX) -> int:
        found = self.optional(key, low=low, high=high)
        if found is None:
            raise InputError(f"{self._arch}.{key}", None, "given in the file")
        return found

    def per_layer(self, key: str, layers: int, *, default: int) -> list[int]:
        """One figure a layer, 0 allowed: a list, or one number for all."""
        value = self.value(key)
        name = f"{self._arch}.{key}"
        if value is None:
            return [default] * layers
        if isinstance(value, list):
            if len(value) < layers:
                raise InputError(name, f"a list of {len(value)}", f"a list of {layers}")
            return [count(name, one, low=0, high=_WIDTH_MAX) for one in value[:layers]]
        return [count(name, value, low=0, high=_WIDTH_MAX)] * layers


def _groups(keys: _Keys, arch: str) -> tuple[LayerGroup, ...]:
    layers = keys.number("block_count", high=_LAYERS_MAX)
    drafts = keys.optional("nextn_predict_layers", low=0) or 0
    if drafts:
        keys.warnings.append(f"{drafts} layers of multi-token prediction are not counted.")
    layers = max(1, layers - drafts)
    q_heads = keys.per_layer("attention.head_count", layers, default=0)
    kv_heads = keys.per_layer("attention.head_count_kv", layers, default=max(q_heads, default=0))
    if keys.value("attention.head_count_kv") is None:
        kv_heads = list(q_heads)
    windows = _windows(keys, arch, layers)
    recurrent = _recurrent(keys)
    interval = keys.optional("full_attention_interval")
    found: dict[LayerGroup, int] = {}
    for layer in range(layers):
        if interval and recurrent is not None and (layer + 1) % interval:
            one: LayerGroup = recurrent
        elif not kv_heads[layer]:
            one = recurrent if recurrent is not None else NoCache(layers=1)
        else:
            one = _attention(keys, q_heads[layer], kv_heads[layer], windows[layer])
        found[one] = found.get(one, 0) + 1
    return tuple(replace(group, layers=number) for group, number in found.items())


def _attention(keys: _Keys, q_heads: int, kv_heads: int, window: int) -> LayerGroup:
    rank = keys.optional("attention.kv_lora_rank")
    if rank is not None:
        return LatentAttention(
            layers=1,
            q_heads=q_heads or None,
            kv_lora_rank=rank,
            rope_dim=keys.number("rope.dimension_count"),
            v_head_dim=keys.optional("attention.value_length_mla"),
        )
    if q_heads and q_heads % kv_heads:
        raise InputError("attention.head_count", q_heads, f"a multiple of {kv_heads} KV heads")
    embedding = keys.optional("embedding_length")
    default = embedding // q_heads if embedding and q_heads else None
    if window:
        swa = keys.optional("attention.key_length_swa")
        swa_v = keys.optional("attention.value_length_swa")
    else:
        swa = swa_v = None
    k_width = swa or keys.optional("attention.key_length") or default
    v_width = swa_v or keys.optional("attention.value_length") or default
    if k_width is None or v_width is None:
        raise InputError("attention.key_length", None, "given, or embedding_length with it")
    if window:
        return SlidingWindow(
            layers=1, q_heads=q_heads or None, kv_heads=kv_heads, k_width=k_width,
            v_width=v_width, window=window,
        )  # fmt: skip
    return FullAttention(
        layers=1, q_heads=q_heads or None, kv_heads=kv_heads, k_width=k_width, v_width=v_width
    )


def _windows(keys: _Keys, arch: str, layers: int) -> list[int]:
    """The window of each layer, 0 where it keeps everything."""
    window = keys.optional("attention.sliding_window", low=0)
    if arch == "llama4" and not window:
        window = _LLAMA4_CHUNK
    if not window:
        return [0] * layers
    pattern = keys.value("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        if len(pattern) < layers:
            name = f"{arch}.attention.sliding_window_pattern"
            raise InputError(name, f"a list of {len(pattern)}", f"a list of {layers}")
        return [window if one else 0 for one in pattern[:layers]]
    period = pattern if isinstance(pattern, int) and pattern > 0 else _PATTERNS.get(arch)
    if period is None:
        keys.warnings.append(
            f"sliding_window {window} is in the file but nothing says which layers it is for: "
            "the window was not applied."
        )
        return [0] * layers
    return [0 if layer % period == period - 1 else window for layer in range(layers)]


def _recurrent(keys: _Keys) -> RecurrentState | None:
    """The state of a recurrent layer (llama.cpp ``n_embd_r`` and ``n_embd_s``), f32."""
    inner, state = keys.optional("ssm.inner_size"), keys.optional("ssm.state_size")
    if inner is None or state is None:
        return None
    kernel = keys.optional("ssm.conv_kernel") or 1
    groups = keys.optional("ssm.group_count", low=0) or 0
    return RecurrentState(
        layers=1,
        state_heads=1,
        state_rows=inner,
        state_columns=state,
        conv_channels=inner + 2 * groups * state,
        conv_kernel=kernel,
        state_format="fp32",
        conv_format="fp32",
    )
