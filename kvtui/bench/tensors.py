"""Caches of every layout, filled with random data.

Caches are the engine's own. The first layer's storage is random, the other layers are copies of it
at addresses of their own, which a memory cannot tell from fresh random data and which takes a
fraction of the time. A cache holds one token less than its shape says, for the step to append.
"""

from typing import Final

import torch
from torch import Tensor

from kvtui.bench.case import Setup, Shape
from kvtui.decode_run import CacheName, DecodeRun
from kvtui.engine.caches import QUANTISED, LayerCache, layer_cache
from kvtui.engine.caches.paged import DeviceTable
from kvtui.engine.pages import BlockTable
from kvtui.engine.plan import checked_dtype
from kvtui.spec import FullAttention, LatentAttention, LayerGroup, SinksWindow, SlidingWindow

_SEED: Final = 20
_TILE: Final = 4_194_301
"""Elements drawn before they repeat: a prime, so that no two rows of a layer are alike."""
_PIECE: Final = 16
"""Tokens that decide a layer's static scales."""


def full_group(shape: Shape) -> FullAttention:
    """Heads that attend to everything."""
    return FullAttention(
        layers=shape.layers,
        q_heads=shape.q_heads,
        kv_heads=shape.kv_heads,
        k_width=shape.k_width,
        v_width=shape.v_width,
    )


def window_group(shape: Shape, window: int, sinks: int = 0) -> SlidingWindow:
    """Heads that attend to a window, and to ``sinks`` first tokens."""
    fields = {
        "layers": shape.layers,
        "kv_heads": shape.kv_heads,
        "q_heads": shape.q_heads,
        "k_width": shape.k_width,
        "v_width": shape.v_width,
        "window": window,
    }
    return SinksWindow(**fields, sinks=sinks) if sinks else SlidingWindow(**fields)


def latent_group(shape: Shape) -> LatentAttention:
    """Query heads that share one latent row a token."""
    return LatentAttention(
        layers=shape.layers,
        q_heads=shape.q_heads,
        kv_lora_rank=shape.v_width,
        rope_dim=shape.k_width - shape.v_width,
    )


def filled_caches(
    setup: Setup,
    shape: Shape,
    group: LayerGroup,
    *,
    dtype: str,
    cache: CacheName = "contiguous",
    block: int = 16,
    capacity: int | None = None,
) -> list[LayerCache]:
    """A cache a layer, each holding ``shape.tokens - 1`` tokens a sequence."""
    held, computed = shape.tokens - 1, checked_dtype(dtype)
    run = DecodeRun(
        groups=(group,),
        batch=shape.batch,
        start=held,
        target=capacity or shape.tokens,
        dtype=dtype,
        cache=cache,
        block=block,
    )
    table = None
    if cache == "paged":
        blocks = shape.batch * -(-shape.tokens // block)
        pages = BlockTable(shape.batch, blocks, block, seed=_SEED)
        for sequence in range(shape.batch):
            pages.extend(sequence, shape.tokens)
        table = DeviceTable(pages, setup.device)
    made: list[LayerCache] = []
    for _ in range(shape.layers):
        one = layer_cache(group, run, computed, setup.device, table)
        if dtype in QUANTISED:
            # Static scales come from the first piece; the other layers' values are copied.
            piece = tokens(setup, shape, computed, count=min(held, _PIECE) if made else held)
            one.fill(slice(0, shape.batch), 0, *piece)
        if made:
            for mine, first in zip(one.tensors, made[0].tensors, strict=True):
                mine.copy_(first)
        elif dtype not in QUANTISED:
            for index, tensor in enumerate(one.tensors):
                fill_random(tensor, _SEED + index)
        one.filled(held)
        made.append(one)
    return made


def queries(setup: Setup, shape: Shape, dtype: str) -> Tensor:
    """Random q ``[B, Hq, 1, Dk]``."""
    made = torch.empty(
        (shape.batch, shape.q_heads, 1, shape.k_width),
        dtype=checked_dtype(dtype),
        device=setup.device,
    )
    fill_random(made, _SEED + 7)
    return made


def fill_random(tensor: Tensor, seed: int) -> None:
    """Normal values, drawn once and repeated along the storage."""
    flat = tensor.view(-1)
    generator = torch.Generator(device=tensor.device).manual_seed(seed)
    tile = torch.randn(
        min(_TILE, flat.numel()), dtype=torch.float32, device=tensor.device, generator=generator
    ).to(tensor.dtype)
    for first in range(0, flat.numel(), _TILE):
        piece = flat[first : first + _TILE]
        piece.copy_(tile[: piece.numel()])


def token_bytes(shape: Shape, dtype: str) -> int:
    """Bytes of one token of one sequence in one layer, scales left out: for choosing sizes."""
    size = 1 if dtype in QUANTISED else torch.empty(0, dtype=checked_dtype(dtype)).element_size()
    return shape.kv_heads * (shape.k_width + shape.v_width) * size


def tokens(setup: Setup, shape: Shape, dtype: torch.dtype, count: int = 1) -> tuple[Tensor, Tensor]:
    """Random K ``[B, Hkv, count, Dk]`` and V alike."""
    found = []
    for index, width in enumerate((shape.k_width, shape.v_width)):
        made = torch.empty(
            (shape.batch, shape.kv_heads, count, width), dtype=dtype, device=setup.device
        )
        fill_random(made, _SEED + 10 + index)
        found.append(made)
    return found[0], found[1]
