"""What each layer caches equals what transformers leaves in its cache, departures by name."""

from dataclasses import dataclass
from typing import Any

import pytest

from kvtui.spec import (
    ChunkedAttention,
    CompressedAttention,
    CrossAttention,
    FullAttention,
    IndexedLatent,
    LatentAttention,
    LayerGroup,
    NoCache,
    RecurrentState,
    SharedCache,
    SlidingWindow,
)
from tests.sources.oracle import measured, preset

BROADCAST = {"Falcon-40B": 16}
"""transformers stores K and V for every query head: 128 where the architecture has 8."""
KEEPS_ITS_WINDOW = {"MiMo-V2-Flash"}
"""Sliding layers keep window tokens; everywhere else window - 1 (the present token is apart)."""
NEVER_REACHED = 32768
"""Windows from here on were not reached in the measurement and show as growing."""


@dataclass(frozen=True, order=True)
class Kept:
    """Elements that one layer keeps of one sequence, as the oracle counts them."""

    grows: float = 0
    window: int = 0
    retained: int = 0
    constant: int = 0


def _kept(name: str, group: LayerGroup) -> Kept:
    """``group`` in the oracle's terms, with transformers' departures applied."""
    if isinstance(group, SharedCache | NoCache):
        return Kept()
    if isinstance(group, CrossAttention):
        return Kept(constant=group.kv_heads * (group.k_width + group.v_width) * group.source_tokens)
    if isinstance(group, SlidingWindow | ChunkedAttention):
        row = group.kv_heads * (group.k_width + group.v_width)
        window = group.window if isinstance(group, SlidingWindow) else group.chunk
        if window >= NEVER_REACHED:
            return Kept(grows=row)
        return Kept(window=row, retained=window if name in KEEPS_ITS_WINDOW else window - 1)
    if isinstance(group, FullAttention):
        row = group.kv_heads * (group.k_width + group.v_width)
        return Kept(grows=row * BROADCAST.get(name, 1))
    if isinstance(group, IndexedLatent):
        return Kept(grows=group.kv_lora_rank + group.rope_dim + group.index_width)
    if isinstance(group, LatentAttention):
        return Kept(grows=group.kv_lora_rank + group.rope_dim)
    if isinstance(group, RecurrentState):
        state = group.state_heads * group.state_rows * group.state_columns
        kernel_columns = group.conv_kernel if group.conv_channels else 0
        return Kept(constant=state + group.conv_channels * kernel_columns)
    assert isinstance(group, CompressedAttention)
    if not group.ratio:
        return Kept(window=2 * group.width, retained=group.window - 1)  # K = V is stored twice
    overlap = 2 * group.ratio * (group.width + group.index_width) if group.index_width else 0
    return Kept(
        grows=(group.width + group.index_width) / group.ratio,
        window=group.width,
        retained=group.window - 1,
        constant=overlap,
    )


def _measured(group: dict[str, Any]) -> Kept:
    return Kept(
        grows=group.get("kv_elements_per_token", 0),
        window=group.get("window_elements_per_token", 0),
        retained=max(group.get("window_retained_tokens", [0])),
        constant=group.get("constant_elements", 0),
    )


def _counted(pairs: list[tuple[Kept, int]]) -> dict[Kept, int]:
    """Layers by what they keep; kinds that keep the same count together."""
    found: dict[Kept, int] = {}
    for kept, layers in pairs:
        found[kept] = found.get(kept, 0) + layers
    return found


@pytest.mark.parametrize("name", measured())
def test_every_layer_keeps_what_transformers_measures(name: str) -> None:
    ours = _counted([(_kept(name, group), group.layers) for group in preset(name).groups])
    theirs = _counted([(_measured(one), one["count"]) for one in measured()[name]["layer_groups"]])
    assert ours == theirs


@pytest.mark.parametrize("name", measured())
def test_there_is_one_layer_group_entry_for_every_layer_transformers_has(name: str) -> None:
    layers = measured()[name]["resolved"].get("num_hidden_layers")
    assert preset(name).layers == (
        layers or sum(one["count"] for one in measured()[name]["layer_groups"])
    )


@pytest.mark.parametrize("name", measured())
def test_recurrent_state_has_the_dtype_transformers_keeps(name: str) -> None:
    formats = {"float32": "fp32", "bfloat16": "bf16"}
    theirs = {
        formats[tensor["dtype"]]
        for group in measured()[name]["layer_groups"]
        for part, tensor in group["tensors"].items()
        if part.startswith(("recurrent_states", "linear_cache"))
    }
    ours = {one.state_format for one in preset(name).groups if isinstance(one, RecurrentState)}
    assert ours == theirs


def test_the_kinds_of_the_hybrids_are_named() -> None:
    expected = {
        "Gemma-3-27B": {"window": 52, "full": 10},
        "gpt-oss-20b": {"window": 12, "full": 12},
        "Llama-4-Scout": {"chunked": 36, "full": 12},
        "DeepSeek-V3": {"mla": 61},
        "DeepSeek-V3.2": {"indexed": 61},
        "DeepSeek-V4-Flash": {"compressed": 43},
        "Qwen3-Next-80B-A3B": {"recurrent": 36, "full": 12},
        "Kimi-Linear-48B-A3B": {"recurrent": 20, "mla": 7},
        "Kimi-K3": {"recurrent": 69, "mla": 24},
        "MiniMax-M1": {"recurrent": 70, "full": 10},
        "Jamba-v0.1": {"recurrent": 28, "full": 4},
        "Nemotron-3-Nano-30B-A3B": {"recurrent": 23, "none": 23, "full": 6},
        "Llama-3.2-11B-Vision": {"full": 32, "cross": 8},
        "Gemma-3n-E2B": {"window": 16, "full": 4, "shared": 10},
    }
    for name, kinds in expected.items():
        found: dict[str, int] = {}
        for group in preset(name).groups:
            found[group.kind] = found.get(group.kind, 0) + group.layers
        assert found == kinds, name


def test_widths_that_differ_between_k_and_v_or_between_layers_are_kept_apart() -> None:
    full, window = preset("MiMo-V2-Flash").groups
    assert isinstance(full, FullAttention)
    assert isinstance(window, SlidingWindow)
    assert (full.kv_heads, full.k_width, full.v_width) == (4, 192, 128)
    assert (window.kv_heads, window.k_width, window.v_width) == (8, 192, 128)
    sliding, whole = preset("Gemma-4-31B").groups
    assert isinstance(sliding, SlidingWindow)
    assert isinstance(whole, FullAttention)
    assert (sliding.kv_heads, sliding.k_width) == (16, 256)
    assert (whole.kv_heads, whole.k_width) == (4, 512)


def test_shared_layers_remember_the_window_of_the_cache_they_read() -> None:
    shared = [one for one in preset("Gemma-4-E2B").groups if isinstance(one, SharedCache)]
    assert {one.window: one.layers for one in shared} == {512: 16, None: 4}


def test_the_context_a_model_was_trained_for_is_kept() -> None:
    assert preset("Llama-3.1-8B").trained_context == 131072
    assert preset("GPT-2").trained_context == 1024
    assert preset("BLOOM-176B").trained_context is None
