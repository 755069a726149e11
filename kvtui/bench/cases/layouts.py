"""Layouts and formats of a cache, each beside the plain one: pages, rings, fewer bits, latents."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kvtui.bench.case import Candidate, Group, Setup, Shape, Skip
from kvtui.bench.cases.dense import GQA, full_caches, kernel_takes, sized
from kvtui.bench.steps import COPIES, stepped
from kvtui.bench.tensors import (
    filled_caches,
    full_group,
    latent_group,
    token_bytes,
    window_group,
)
from kvtui.decode_run import IN_PLACE_TOKENS

_BLOCKS: Final = (16, 64, 256)
_RANK: Final = 512
_ROPE: Final = 64
_UNABSORBED: Final = 192
"""128 + 64: the width of an unabsorbed head of DeepSeek-V2 and V3, whose root scales the scores."""
_WINDOWS: Final = (1024, 4096)
_FAR: Final = 65_536
"""Tokens at which a window is looked at again."""
_SINKS: Final = 4
"""StreamingLLM's number of first tokens (arXiv:2309.17453)."""


def paged(setup: Setup) -> Iterator[Group]:
    """Blocks of 16, 64 and 256 tokens in shuffled order, beside contiguous rows."""
    dtype = setup.dtype
    tokens = 32_768 if setup.on_cuda else 8192
    shape = sized(setup, replace(GQA, tokens=tokens), dtype, caches=1 + len(_BLOCKS))
    made = [stepped(setup, "contiguous", shape, full_caches(setup, shape, dtype), dtype=dtype)]
    skipped: list[Skip] = []
    pools = {
        block: filled_caches(
            setup, shape, full_group(shape), dtype=dtype, cache="paged", block=block
        )
        for block in _BLOCKS
    }
    for block, caches in pools.items():
        in_place = setup.device.type != "cuda" and block >= IN_PLACE_TOKENS
        made.append(
            stepped(
                setup,
                f"paged-{block}",
                shape,
                caches,
                dtype=dtype,
                against=("contiguous",),
                copies="" if in_place else COPIES["paged"],
            )
        )
    if kernel_takes(setup, pools[_BLOCKS[-1]][0]):
        made += [
            stepped(
                setup,
                f"kernel-paged-{block}",
                shape,
                caches,
                dtype=dtype,
                kernel=True,
                against=("contiguous",),
            )
            for block, caches in pools.items()
        ]
    elif not setup.on_cuda:
        why = f"The kernel does not take {dtype} pages." if setup.kernel else setup.kernel_why
        skipped.append(Skip("kernel-paged", why))
    yield Group(tuple(made), tuple(skipped))


def window(setup: Setup) -> Iterator[Group]:
    """Windows of 1,024 and 4,096 tokens, soon after they are full and at 65,536."""
    for width in _WINDOWS:
        yield _ring(setup, width, 0)


def sink(setup: Setup) -> Iterator[Group]:
    """The same beside four first tokens that stay."""
    for width in _WINDOWS:
        yield _ring(setup, width, _SINKS)


def quant(setup: Setup) -> Iterator[Group]:
    """The same tokens in 16 bits and in 8, where the engine has the format."""
    formats = ["bf16", "int8", "int8-channel"] + (["fp8"] if setup.on_cuda else [])
    skipped = [] if setup.on_cuda else [Skip("fp8", "A CPU converts fp8 at 0.3 GB/s.")]
    shape = sized(setup, replace(GQA, tokens=16_384), "bf16", caches=3)
    made: list[Candidate] = []
    for dtype in formats:
        caches = full_caches(setup, shape, dtype)
        plain = dtype == "bf16"
        made.append(
            stepped(
                setup,
                dtype,
                shape,
                caches,
                dtype=dtype,
                against=() if plain else ("bf16",),
                copies="" if plain else COPIES["quantised"],
            )
        )
        if kernel_takes(setup, caches[0]):
            made.append(
                stepped(
                    setup,
                    f"kernel-{dtype}",
                    shape,
                    caches,
                    dtype=dtype,
                    kernel=True,
                    against=("bf16",),
                )
            )
    if setup.kernel is None and not setup.on_cuda:
        skipped.append(Skip("kernel", setup.kernel_why))
    yield Group(tuple(made), tuple(skipped))


def mla(setup: Setup) -> Iterator[Group]:
    """Absorbed latents of 512 + 64, by 16 query heads; by 128 as well on a GPU."""
    sizes = [(16, 1, 16_384)]
    if setup.on_cuda:
        sizes = [
            (heads, batch, tokens)
            for heads in (16, 128)
            for batch, tokens in ((1, 32_768), (32, 4096), (128, 4096))
        ]
    for heads, batch, tokens in sizes:
        yield _absorbed(setup, heads, batch, tokens)


def _absorbed(setup: Setup, heads: int, batch: int, tokens: int) -> Group:
    dtype = setup.dtype
    shape = Shape(
        layers=27,
        batch=batch,
        q_heads=heads,
        kv_heads=1,
        k_width=_RANK + _ROPE,
        v_width=_RANK,
        tokens=tokens,
    )
    # K and V are one row, so K's width alone is stored.
    row_bytes = token_bytes(replace(shape, v_width=0), dtype)
    shape = shape.fitted(row_bytes, min(setup.sweep_bytes, setup.room_bytes))
    caches = filled_caches(setup, shape, latent_group(shape), dtype=dtype)
    scale = 1 / math.sqrt(_UNABSORBED)
    return Group((stepped(setup, f"absorbed-{heads}", shape, caches, dtype=dtype, scale=scale),))


def _ring(setup: Setup, width: int, sinks: int) -> Group:
    """One window soon after it has wrapped, and far later: the step must take the same time."""
    dtype = setup.dtype
    shape = sized(setup, replace(GQA, tokens=sinks + width), dtype, caches=2)
    kept = shape.tokens - sinks
    made: list[Candidate] = []
    for tokens in (2 * kept, _FAR * kept // width):
        reached = replace(shape, tokens=tokens)
        caches = filled_caches(setup, reached, window_group(reached, kept, sinks), dtype=dtype)
        made.append(
            stepped(
                setup,
                f"{'sink' if sinks else 'window'}-{kept}-at-{tokens}",
                reached,
                caches,
                dtype=dtype,
                work=1.0,
                attended=shape.tokens,
                against=(made[0].name,) if made else (),
            )
        )
    return Group(tuple(made))
