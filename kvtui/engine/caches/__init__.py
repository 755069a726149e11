"""One class per layout; ``layer_cache`` picks the one a layer group and a run ask for."""

import torch

from kvtui.engine.caches.base import LayerCache, tensor_bytes
from kvtui.engine.caches.concat import ConcatCache
from kvtui.engine.caches.contiguous import ContiguousCache
from kvtui.engine.caches.latent import LatentCache
from kvtui.engine.caches.paged import DeviceTable, PagedCache
from kvtui.engine.caches.quantised import Int8Cache
from kvtui.engine.caches.ring import RingCache
from kvtui.errors import InputError
from kvtui.spec import (
    DecodeRun,
    FullAttention,
    LatentAttention,
    LayerGroup,
    SinksWindow,
    SlidingWindow,
)

__all__ = ["LayerCache", "layer_cache", "tensor_bytes"]


def layer_cache(
    group: LayerGroup,
    run: DecodeRun,
    dtype: torch.dtype,
    device: torch.device,
    table: DeviceTable | None = None,
) -> LayerCache:
    """The cache of one layer of ``group``, with room for the run's target.

    ``table`` is the block table that all paged layers of a run share.
    """
    if run.cache != "contiguous" and type(group) is not FullAttention:
        raise InputError("cache", run.cache, f"contiguous for {group.kind} layers")
    if run.dtype == "int8" and type(group) is not FullAttention:
        raise InputError("dtype", "int8", f"fp32, bf16 or fp16 for {group.kind} layers")
    if isinstance(group, LatentAttention):
        return LatentCache(
            run.batch, run.target, group.kv_lora_rank, group.rope_dim, dtype=dtype, device=device
        )
    assert isinstance(group, FullAttention)
    widths = (group.k_width, group.v_width)
    if isinstance(group, SlidingWindow):
        return RingCache(
            run.batch,
            group.kv_heads,
            min(group.window, run.target),
            *widths,
            sinks=group.sinks if isinstance(group, SinksWindow) else 0,
            dtype=dtype,
            device=device,
        )
    if run.dtype == "int8":
        if run.cache != "contiguous":
            raise InputError("dtype", "int8", f"fp32, bf16 or fp16 in a {run.cache} cache")
        return Int8Cache(run.batch, group.kv_heads, run.target, *widths, device=device)
    if run.cache == "paged":
        assert table is not None
        return PagedCache(table, run.batch, group.kv_heads, *widths, dtype=dtype, device=device)
    if run.cache == "concat":
        return ConcatCache(
            run.batch, group.kv_heads, run.start, *widths, dtype=dtype, device=device
        )
    return ContiguousCache(
        run.batch, group.kv_heads, run.target, *widths, dtype=dtype, device=device
    )
