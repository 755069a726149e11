"""Heads that attend to everything, in one piece: how near SDPA and our kernel come to the limit.

Shapes are those of an 8-billion model with 32 layers, 32 query heads, 8 KV heads 128 wide, and of
one rank of a 70-billion model on eight. Sizes shrink to what the set-up allows, layers first.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from kvtui.bench.case import Candidate, Group, Setup, Shape, Skip
from kvtui.bench.steps import bare, stepped
from kvtui.bench.tensors import filled_caches, full_group, token_bytes
from kvtui.engine.attention import decode_attention
from kvtui.engine.caches import LayerCache

WIDTH = 128
GQA = Shape(layers=32, batch=1, q_heads=32, kv_heads=8, k_width=WIDTH, v_width=WIDTH, tokens=8192)


def sized(setup: Setup, shape: Shape, dtype: str, *, caches: int = 1) -> Shape:
    """``shape`` cut to the sweep of the set-up, ``caches`` of them to its room."""
    most = min(setup.sweep_bytes, setup.room_bytes // caches)
    return shape.fitted(token_bytes(shape, dtype), most)


def full_caches(setup: Setup, shape: Shape, dtype: str) -> list[LayerCache]:
    """Contiguous caches of heads that attend to everything."""
    return filled_caches(setup, shape, full_group(shape), dtype=dtype)


def folded_sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """SDPA alone, the queries of a group as rows of one matrix."""
    batch, q_heads, _, width = q.shape
    rows = q.view(batch, k.shape[1], q_heads // k.shape[1], width)
    return scaled_dot_product_attention(rows, k, v).reshape(batch, q_heads, 1, -1)


def kernel_takes(setup: Setup, cache: LayerCache) -> bool:
    """Whether there is a CPU kernel and it can read this storage."""
    rows = None if setup.kernel is None else cache.rows()
    return setup.kernel is not None and rows is not None and setup.kernel.takes(rows)


def gqa_long(setup: Setup) -> Iterator[Group]:
    """One sequence of 8, 32 and 128 thousand tokens."""
    for tokens in (8192, 32_768, 131_072):
        yield _against_sdpa(setup, replace(GQA, tokens=tokens))


def gqa_batch(setup: Setup) -> Iterator[Group]:
    """64 sequences of 4,096 tokens: 34 GB in bf16, fewer where memory is."""
    yield _against_sdpa(setup, replace(GQA, batch=64, tokens=4096))


def mha(setup: Setup) -> Iterator[Group]:
    """A KV head for each query head."""
    shape = Shape(
        layers=32, batch=1, q_heads=32, kv_heads=32, k_width=WIDTH, v_width=WIDTH, tokens=16_384
    )
    yield _against_sdpa(setup, shape)


def tp_slice(setup: Setup) -> Iterator[Group]:
    """One KV head: on a CPU with and without the split of its tokens over the threads."""
    shape = Shape(
        layers=80, batch=1, q_heads=8, kv_heads=1, k_width=WIDTH, v_width=WIDTH, tokens=16_384
    )
    dtype = setup.dtype
    shape = sized(setup, shape, dtype)
    caches = full_caches(setup, shape, dtype)
    skipped: list[Skip] = []
    made: list[Candidate] = []
    if setup.on_cuda or setup.threads < 2:
        made.append(stepped(setup, "contiguous", shape, caches, dtype=dtype))
        if not setup.on_cuda:
            skipped.append(Skip("split", "Splitting one head needs --threads 2 or more."))
    else:
        whole = partial(decode_attention, threads=1)
        made.append(bare(setup, "unsplit", shape, caches, whole, dtype=dtype))
        split = partial(decode_attention, threads=setup.threads)
        made.append(bare(setup, "split", shape, caches, split, dtype=dtype, against=("unsplit",)))
    _add_kernel(setup, made, skipped, shape, caches, dtype, against=(made[-1].name,))
    yield Group(tuple(made), tuple(skipped))


def kernel(setup: Setup) -> Iterator[Group]:
    """Our CPU kernel and folded SDPA over fp32, bf16 and int8, at g = 4 and g = 1.

    The formats differ in tokens and not in bytes, so that each is read from memory; ratios are of
    tokens/s at the same context.
    """
    if setup.kernel is None:
        yield Group((), (Skip("kernel", setup.kernel_why),))
        return
    made: list[Candidate] = []
    for dtype, tokens in (("fp32", 8192), ("bf16", 16_384), ("int8", 32_768)):
        shape = sized(setup, replace(GQA, tokens=tokens), dtype, caches=3)
        caches = full_caches(setup, shape, dtype)
        for group in (4, 1):
            each = replace(shape, q_heads=group * shape.kv_heads)
            base = f"sdpa-fp32-g{group}"
            if dtype == "fp32":
                made.append(bare(setup, base, each, caches, folded_sdpa, dtype=dtype))
            made.append(
                stepped(
                    setup,
                    f"kernel-{dtype}-g{group}",
                    each,
                    caches,
                    dtype=dtype,
                    kernel=True,
                    against=(base,),
                )
            )
    yield Group(tuple(made))


def _against_sdpa(setup: Setup, shape: Shape) -> Group:
    """The engine's step, SDPA alone on the same tensors, and the kernel where there is one."""
    dtype = setup.dtype
    shape = sized(setup, shape, dtype)
    caches = full_caches(setup, shape, dtype)
    made = [
        stepped(setup, "contiguous", shape, caches, dtype=dtype, against=("sdpa-alone",)),
        bare(setup, "sdpa-alone", shape, caches, folded_sdpa, dtype=dtype),
    ]
    skipped: list[Skip] = []
    _add_kernel(setup, made, skipped, shape, caches, dtype, against=("contiguous",))
    return Group(tuple(made), tuple(skipped))


def _add_kernel(
    setup: Setup,
    made: list[Candidate],
    skipped: list[Skip],
    shape: Shape,
    caches: list[LayerCache],
    dtype: str,
    against: tuple[str, ...],
) -> None:
    """The same step by our kernel, on a CPU."""
    if setup.on_cuda:
        return
    if setup.kernel is None:
        skipped.append(Skip("kernel", setup.kernel_why))
    elif not kernel_takes(setup, caches[0]):
        skipped.append(Skip("kernel", f"The kernel does not take {dtype} rows of {WIDTH}."))
    else:
        made.append(
            stepped(setup, "kernel", shape, caches, dtype=dtype, kernel=True, against=against)
        )
