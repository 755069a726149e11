"""What each layer of a GGUF file's model keeps, as llama.cpp reads the keys.

Which layers slide, hold a state, share a cache or keep nothing follows ``llama-hparams.cpp`` and
the per-architecture loaders of llama.cpp. Recurrent state is f32 there, convolutions included.
Where nothing says which layers a window is for, it is left out and a warning says so.
"""

from dataclasses import replace
from typing import Final

from kvtui.errors import InputError
from kvtui.sources.gguf_keys import LAYERS_MAX, Keys
from kvtui.spec import (
    ChunkedAttention,
    FullAttention,
    IndexedLatent,
    LatentAttention,
    LayerGroup,
    NoCache,
    RecurrentState,
    SharedCache,
    SlidingWindow,
)

_PERIODS: Final = {
    "afmoe": 4, "cohere2": 4, "exaone-moe": 4, "exaone4": 4, "gemma2": 2, "gemma3": 6,
    "gemma3n": 5, "gpt-oss": 2, "laguna": 4, "llama4": 4, "olmo2": 4, "plamo3": 8,
    "smallthinker": 4,
}  # fmt: skip
"""Layers to a period of which one sees everything, where the file has no pattern of its own."""
_FULL_FIRST: Final = frozenset({"laguna", "smallthinker"})
"""The first layer of a period sees everything, elsewhere the last."""
_FIXED_WINDOWS: Final = {"llama4": 8192, "smallthinker": 4096}
"""Windows that llama.cpp sets whatever the file says, unless it says 0."""
_DEFAULT_WINDOWS: Final = {"gemma2": 4096, "llama4": 8192}
"""Windows of files that do not say."""
_HEADED_STATES: Final = frozenset(
    {
        "falcon-h1", "granitehybrid", "mamba2", "nemotron_h", "nemotron_h_moe", "plamo2",
        "qwen35", "qwen35moe", "qwen3next",
    }
)  # fmt: skip
"""``ssm.time_step_rank`` is the number of state heads (Mamba 2, delta nets), not a rank."""
_EVERY_FOURTH: Final = frozenset({"qwen35", "qwen35moe", "qwen3next"})
"""Attention every fourth layer where ``full_attention_interval`` is absent."""
_BOTH: Final = "falcon-h1"
"""Attention and a state side by side in every layer."""
_KV_FROM_START: Final = {"gemma3n": 20}
"""Layers that store K and V, where ``attention.shared_kv_layers`` is absent."""


def layer_groups(keys: Keys) -> tuple[LayerGroup, ...]:
    """All layers, equal ones counted together in the order they first appear.

    Raises:
        InputError: a key is missing or cannot be used.
    """
    layers = _layers(keys)
    if keys.value("attention.causal") is False:
        keys.warn("Attention is not causal in this model: nothing is kept between steps.")
        return (NoCache(layers=layers),)
    q_heads = keys.per_layer("attention.head_count", layers) or [0] * layers
    kv_heads = keys.per_layer("attention.head_count_kv", layers) or q_heads
    windows = _windows(keys, layers)
    states = _state_layers(keys, layers, kv_heads)
    stored = _stored_layers(keys, layers)
    state = _state(keys, max(q_heads))
    if keys.arch == _BOTH and state is not None:
        keys.warn(
            f"Each of the {layers} layers keeps K and V and a state: they are listed as {layers} "
            "layers of each."
        )
    found: dict[LayerGroup, int] = {}
    for layer in range(layers):
        parts: list[LayerGroup] = []
        if states[layer]:
            parts.append(state if state is not None else NoCache(layers=1))
        if kv_heads[layer] and (not states[layer] or keys.arch == _BOTH):
            one = _attention(keys, q_heads[layer], kv_heads[layer], windows[layer])
            parts.append(one if layer < stored else _sharing(one))
        for part in parts or [NoCache(layers=1)]:
            found[part] = found.get(part, 0) + 1
    return tuple(replace(group, layers=number) for group, number in found.items())


def _layers(keys: Keys) -> int:
    """Layers that generate: those of multi-token prediction, at the end, are left out."""
    layers = keys.number("block_count", high=LAYERS_MAX)
    if keys.arch == "t5":
        keys.warn("The cross attention of this encoder-decoder is not counted.")
        layers = keys.optional("decoder_block_count", high=LAYERS_MAX) or layers
    drafts = keys.optional("nextn_predict_layers", low=0, high=LAYERS_MAX) or 0
    if drafts >= layers:
        raise InputError(keys.name("nextn_predict_layers"), drafts, f"from 0 to {layers - 1}")
    if drafts:
        of = "layer of multi-token prediction is" if drafts == 1 else (
            "layers of multi-token prediction are"
        )  # fmt: skip
        keys.warn(f"{drafts} {of} in the file: its cache is not counted, its weights are.")
    return layers - drafts


def _attention(keys: Keys, q_heads: int, kv_heads: int, window: int) -> LayerGroup:
    if keys.value("attention.kv_lora_rank") is not None:
        return _latent(keys, q_heads, kv_heads)
    if q_heads % kv_heads:
        raise InputError(
            keys.name("attention.head_count"), q_heads, f"a multiple of {kv_heads} KV heads"
        )
    full = FullAttention(
        layers=1,
        q_heads=q_heads or None,
        kv_heads=kv_heads,
        k_width=_width(keys, "key_length", q_heads, windowed=bool(window)),
        v_width=_width(keys, "value_length", q_heads, windowed=bool(window)),
    )
    if not window:
        return full
    if keys.arch == "llama4":
        return ChunkedAttention(
            layers=1,
            q_heads=full.q_heads,
            kv_heads=kv_heads,
            k_width=full.k_width,
            v_width=full.v_width,
            chunk=window,
        )
    return SlidingWindow(
        layers=1,
        q_heads=full.q_heads,
        kv_heads=kv_heads,
        k_width=full.k_width,
        v_width=full.v_width,
        window=window,
    )


def _width(keys: Keys, key: str, q_heads: int, *, windowed: bool) -> int:
    """Width of a head: the window layers' own, the file's, or the embedding over the heads."""
    found = keys.optional(f"attention.{key}_swa") if windowed else None
    found = found or keys.optional(f"attention.{key}")
    if found is not None:
        return found
    embedding = keys.optional("embedding_length")
    if embedding is None or not q_heads or embedding % q_heads:
        raise InputError(
            keys.name(f"attention.{key}"),
            None,
            "given, or embedding_length a multiple of the heads",
        )
    return embedding // q_heads


def _latent(keys: Keys, q_heads: int, kv_heads: int) -> LatentAttention:
    """MLA: one latent and one RoPE row a token (llama.cpp, ``is_mla``)."""
    rank = keys.number("attention.kv_lora_rank")
    rope = keys.number("rope.dimension_count")
    k_width = keys.optional("attention.key_length_mla")
    v_width = keys.optional("attention.value_length_mla")
    if k_width is None and kv_heads != 1:
        keys.warn(
            "The file has no keys of a latent cache: it is sized as one, while llama.cpp keeps the "
            "K and V of all heads for it."
        )
        k_width = keys.optional("attention.key_length")
        v_width = v_width or keys.optional("attention.value_length")
    if k_width is not None and k_width <= rope:
        raise InputError("width of an MLA key", k_width, f"above rope.dimension_count ({rope})")
    latent = LatentAttention(
        layers=1,
        q_heads=q_heads or None,
        kv_lora_rank=rank,
        rope_dim=rope,
        nope_dim=None if k_width is None else k_width - rope,
        v_head_dim=v_width,
    )
    index = keys.optional("attention.indexer.key_length")
    if index is None:
        return latent
    return IndexedLatent(
        layers=1,
        q_heads=latent.q_heads,
        kv_lora_rank=rank,
        rope_dim=rope,
        nope_dim=latent.nope_dim,
        v_head_dim=v_width,
        index_width=index,
        index_heads=keys.optional("attention.indexer.head_count"),
        index_topk=keys.optional("attention.indexer.top_k"),
    )


def _sharing(layer: LayerGroup) -> LayerGroup:
    """The same attention over the cache of an earlier layer."""
    if not isinstance(layer, FullAttention):
        return layer
    return SharedCache(
        layers=1,
        q_heads=layer.q_heads,
        kv_heads=layer.kv_heads,
        k_width=layer.k_width,
        v_width=layer.v_width,
        window=layer.window if isinstance(layer, SlidingWindow) else None,
    )


def _stored_layers(keys: Keys, layers: int) -> int:
    """Layers, from the first, that store K and V of their own."""
    shared = keys.optional("attention.shared_kv_layers", low=0)
    if shared is None:
        return min(layers, _KV_FROM_START.get(keys.arch, layers))
    if shared >= layers:
        raise InputError(keys.name("attention.shared_kv_layers"), shared, f"from 0 to {layers - 1}")
    return layers - shared


def _windows(keys: Keys, layers: int) -> list[int]:
    """The window of each layer, 0 where it keeps everything."""
    arch = keys.arch
    window = keys.optional("attention.sliding_window", low=0, high=2**40)
    if window is None:
        window = _DEFAULT_WINDOWS.get(arch, 0)
    if not window:
        return [0] * layers
    window = _FIXED_WINDOWS.get(arch, window)
    marks = keys.marks("attention.sliding_window_pattern", layers)
    if marks is not None:
        return [window if one else 0 for one in marks]
    period = keys.optional("attention.sliding_window_pattern", low=0, high=LAYERS_MAX)
    if period is None:
        period = _PERIODS.get(arch)
    if period is None:
        keys.warn(
            f"{keys.name('attention.sliding_window')} is {window} but nothing says which layers "
            "it is for: the window was not applied."
        )
        return [0] * layers
    if period == 0:
        return [window] * layers
    full = 0 if arch in _FULL_FIRST else period - 1
    return [0 if layer % period == full else window for layer in range(layers)]


def _state_layers(keys: Keys, layers: int, kv_heads: list[int]) -> list[bool]:
    """Which layers hold a recurrent state."""
    arch = keys.arch
    if keys.value("wkv.head_size") is not None or arch == _BOTH:
        return [True] * layers
    interval = keys.optional("full_attention_interval", high=LAYERS_MAX)
    if interval is None and arch in _EVERY_FOURTH:
        interval = 4
    if interval is not None:
        return [bool((layer + 1) % interval) for layer in range(layers)]
    if arch.startswith("nemotron_h"):
        inner = keys.per_layer("feed_forward_length", layers) or [0] * layers
        return [not heads and not ff for heads, ff in zip(kv_heads, inner, strict=True)]
    return [not heads for heads in kv_heads]


def _state(keys: Keys, q_heads: int) -> RecurrentState | None:
    """The state of one layer (llama.cpp, ``n_embd_r`` and ``n_embd_s``); None without its keys."""
    kernel = keys.optional("ssm.conv_kernel") or 1
    head = keys.optional("wkv.head_size")
    if head is not None:
        embedding = keys.number("embedding_length")
        shifts = keys.optional("token_shift_count") or 2
        if embedding % head:
            raise InputError(keys.name("wkv.head_size"), head, f"a divisor of {embedding}")
        return _f32_state(embedding // head, head, head, shifts * embedding, 2)
    short = keys.optional("shortconv.l_cache")
    if short is not None:
        return _f32_state(1, 0, 0, keys.number("embedding_length"), short)
    head = keys.optional("kda.head_dim")
    if head is not None:
        return _f32_state(q_heads, head, head, 3 * q_heads * head, kernel)
    inner, columns = keys.optional("ssm.inner_size"), keys.optional("ssm.state_size")
    if inner is None or columns is None:
        return None
    channels = inner + 2 * (keys.optional("ssm.group_count", low=0) or 0) * columns
    heads = keys.optional("ssm.time_step_rank") if keys.arch in _HEADED_STATES else None
    if heads is None:
        # Mamba 1: ranks split channels, so a channel is what counts as a head.
        return _f32_state(inner, 1, columns, channels, kernel)
    if inner % heads:
        raise InputError(keys.name("ssm.time_step_rank"), heads, f"a divisor of {inner}")
    return _f32_state(heads, inner // heads, columns, channels, kernel)


def _f32_state(heads: int, rows: int, columns: int, channels: int, kernel: int) -> RecurrentState:
    return RecurrentState(
        layers=1,
        state_heads=heads,
        state_rows=rows,
        state_columns=columns,
        conv_channels=channels,
        conv_kernel=kernel,
        state_format="fp32",
        conv_format="fp32",
    )
