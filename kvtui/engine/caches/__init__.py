"""One class per layout; ``layer_cache`` picks the one a layer group and a run ask for."""

import torch

from kvtui.decode_run import DecodeRun, expanded
from kvtui.engine.caches.base import LayerCache, tensor_bytes
from kvtui.engine.caches.codecs import QUANTISED
from kvtui.engine.caches.concat import ConcatCache
from kvtui.engine.caches.contiguous import ContiguousCache
from kvtui.engine.caches.latent import LatentCache
from kvtui.engine.caches.offload import OffloadCache
from kvtui.engine.caches.paged import DeviceTable, PagedCache
from kvtui.engine.caches.quantised import QuantisedCache
from kvtui.engine.caches.ring import RingCache
from kvtui.errors import InputError
from kvtui.spec import (
    FullAttention,
    LatentAttention,
    LayerGroup,
    NoCache,
    SinksWindow,
    SlidingWindow,
)

__all__ = ["QUANTISED", "LayerCache", "check_cache", "layer_cache", "tensor_bytes"]


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
    if isinstance(group, LatentAttention) and run.cache == "expanded":
        heads = expanded(group)
        shape = (run.batch, heads.kv_heads, run.target, heads.k_width, heads.v_width)
        return ContiguousCache(*shape, dtype=dtype, device=device)
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
    shape = (run.batch, group.kv_heads, run.target, *widths)
    behind = run.behind
    if run.dtype in QUANTISED:
        return QuantisedCache(*shape, dtype=run.dtype, device=device, behind=behind)
    if run.cache == "paged":
        assert table is not None
        return PagedCache(
            table,
            run.batch,
            group.kv_heads,
            *widths,
            dtype=dtype,
            device=device,
            behind=behind,
            prefix=run.whole_block_prefix,
        )
    if run.cache == "concat":
        return ConcatCache(
            run.batch, group.kv_heads, run.start, *widths, dtype=dtype, device=device
        )
    if run.cache == "offload":
        return OffloadCache(*shape, hot=run.hot, dtype=dtype, device=device)
    return ContiguousCache(*shape, dtype=dtype, device=device, behind=behind)


def check_cache(run: DecodeRun) -> None:
    """Refuse, naming the field, a layout or a format that some layer group does not have."""
    shared, ragged = run.shared_prefix, any(run.behind)
    for group in run.groups:
        if isinstance(group, NoCache):
            continue
        full = type(group) is FullAttention
        if run.cache == "expanded":
            if not isinstance(group, LatentAttention):
                raise InputError("cache", run.cache, f"contiguous for {group.kind} layers")
            if run.work == "attention":
                raise InputError("work", run.work, "layer or block: expansion is a projection")
            if run.dtype in QUANTISED:
                raise InputError("dtype", run.dtype, f"fp32, bf16 or fp16 for {group.kind} layers")
            if ragged:
                raise InputError("lengths", "ragged", f"one length with {group.kind} layers")
        elif run.cache != "contiguous" and not full:
            raise InputError("cache", run.cache, f"contiguous for {group.kind} layers")
        if run.dtype in QUANTISED and not full:
            raise InputError("dtype", run.dtype, f"fp32, bf16 or fp16 for {group.kind} layers")
        if ragged and not full:
            raise InputError("lengths", "ragged", f"one length for all with {group.kind} layers")
    if run.dtype in QUANTISED and run.cache != "contiguous":
        raise InputError("dtype", run.dtype, f"fp32, bf16 or fp16 in a {run.cache} cache")
    if ragged and run.cache not in ("contiguous", "paged"):
        raise InputError("lengths", "ragged", f"one length for all in a {run.cache} cache")
    if shared and run.cache != "paged":
        raise InputError("shared prefix", shared, f"0 in a {run.cache} cache (paged shares blocks)")
    if run.dtype == "int4":
        for group in run.groups:
            if isinstance(group, FullAttention) and (group.k_width % 2 or group.v_width % 2):
                raise InputError("head dim", group.k_width, "even for int4, two values a byte")
