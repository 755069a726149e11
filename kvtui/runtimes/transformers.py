"""Hugging Face transformers: its dynamic cache, one tensor a layer, no pages.

Read from what transformers 5.24.0 leaves in its cache when each model is run on tensors without
storage. It departs from the ideal in a few named ways, each of which changes the geometry here.
"""

from dataclasses import replace
from typing import Final

from kvtui.sizing.payload import held_bytes
from kvtui.sizing.rank import fullest_rank
from kvtui.spec import (
    ChunkedAttention,
    CompressedAttention,
    FullAttention,
    LayerGroup,
    Model,
    RecurrentState,
    Scenario,
    SinksWindow,
    SlidingWindow,
)

NAME: Final = "transformers"
VERSION: Final = "5.24.0"

_KEEPS_ITS_WINDOW: Final = ("mimo_v2_flash", "mimo_v2")
"""Its window is set one larger, so that ``window`` tokens stay."""
_BROADCASTS: Final = ("falcon",)
"""With more than one KV head, K and V are stored for every query head."""


def reserved_bytes(scenario: Scenario) -> int:
    """Bytes of the cache tensors after a decode step, on the fullest rank."""
    rank = fullest_rank(scenario)
    return held_bytes(
        cached_model(rank.model), rank.workload, scenario.storage, tp=rank.tp, dcp=rank.dcp
    )


def departures(model: Model) -> tuple[str, ...]:
    """In which ways the cache of ``model`` departs from the ideal, in words."""
    found = []
    for group in model.groups:
        if isinstance(group, SlidingWindow) and model.family not in _KEEPS_ITS_WINDOW:
            found.append("windows keep one token less: the present one is apart")
        elif isinstance(group, ChunkedAttention):
            found.append("chunked layers keep a sliding window of the chunk, less one token")
        elif isinstance(group, RecurrentState) and group.conv_channels:
            found.append("convolution states keep one column more than they need")
        elif isinstance(group, CompressedAttention):
            found.append("window-only layers store K = V twice; compressors keep their overlap")
        elif _broadcast(model, group):
            found.append("K and V are stored for every query head")
    return tuple(dict.fromkeys(found))


def cached_model(model: Model) -> Model:
    """``model`` with the geometry that transformers' cache really has."""
    groups: list[LayerGroup] = []
    for group in model.groups:
        groups += _cached(model, group)
    return replace(model, groups=tuple(groups))


def _cached(model: Model, group: LayerGroup) -> list[LayerGroup]:
    if isinstance(group, SinksWindow):
        return [group]
    if isinstance(group, SlidingWindow):
        kept = group.window - (model.family not in _KEEPS_ITS_WINDOW)
        return [replace(group, window=kept)]
    if isinstance(group, ChunkedAttention):
        return [
            SlidingWindow(
                layers=group.layers,
                kv_heads=group.kv_heads,
                k_width=group.k_width,
                v_width=group.v_width,
                q_heads=group.q_heads,
                window=group.chunk - 1,
            )
        ]
    if isinstance(group, RecurrentState) and group.conv_channels:
        return [replace(group, conv_kernel=group.conv_kernel + 1)]
    if isinstance(group, CompressedAttention):
        return _compressed(group)
    if _broadcast(model, group):
        assert isinstance(group, FullAttention)
        return [replace(group, kv_heads=group.q_heads or group.kv_heads)]
    return [group]


def _broadcast(model: Model, group: LayerGroup) -> bool:
    several = isinstance(group, FullAttention) and group.kv_heads > 1
    return several and model.family in _BROADCASTS


def _compressed(group: CompressedAttention) -> list[LayerGroup]:
    """Windows one short; K = V twice without compression; the compressor's overlap as state."""
    window = group.window - 1
    if not group.ratio:
        return [replace(group, window=window, width=2 * group.width)]
    kept: list[LayerGroup] = [replace(group, window=window)]
    if group.index_width:
        overlap = group.ratio * (group.width + group.index_width)
        kept.append(
            RecurrentState(
                layers=group.layers,
                state_heads=1,
                state_rows=1,
                state_columns=overlap,
                state_format="fp32",
                conv_channels=overlap,
                conv_kernel=2,
                conv_format="bf16",
            )
        )
    return kept
