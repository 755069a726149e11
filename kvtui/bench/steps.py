"""The steps that candidates take: the engine's own, and attention called alone.

Every step can be taken again and again on the same tensors, and can be asked once for what it
gives and for the K and V it attended to.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from kvtui.bench.case import Candidate, Check, Setup, Shape
from kvtui.bench.tensors import queries, tokens
from kvtui.engine.caches import LayerCache
from kvtui.engine.caches.paged import PagedCache
from kvtui.engine.compute import Compute
from kvtui.engine.plan import checked_dtype

if TYPE_CHECKING:  # importing it imports numba
    from kvtui.engine.kernels.cpu import CpuKernel

COPIES: Final = {
    "concat": "torch.cat copies the whole cache every step, beside reading it.",
    "paged": "Blocks are gathered into contiguous rows before attention reads them.",
    "quantised": "Entries are converted to fp32 before attention reads them.",
}


def stepped(
    setup: Setup,
    name: str,
    shape: Shape,
    caches: Sequence[LayerCache],
    *,
    dtype: str,
    kernel: bool = False,
    threads: int | None = None,
    scale: float | None = None,
    against: tuple[str, ...] = (),
    copies: str = "",
    work: float | None = None,
    attended: int | None = None,
) -> Candidate:
    """The engine's own step: append to each layer's cache and attend, from the same length again.

    ``kernel`` attends with the CPU kernel where the cache is storage it can read.
    """
    compute = Compute(
        threads=setup.threads if threads is None else threads,
        kernel=setup.kernel if kernel else None,
    )
    q = queries(setup, shape, dtype)
    k, v = tokens(setup, shape, checked_dtype(dtype))
    first = caches[0]
    # What was concatenated stays: taking it back would copy everything again.
    start = None if first.name == "concat" else first.seen

    def layer(cache: LayerCache) -> Tensor:
        if start is not None:
            cache.filled(start)
        cache.append(k, v)
        return cache.attend(q, scale=scale, compute=compute)

    def sweep() -> Tensor | None:
        out = None
        for cache in caches:
            out = layer(cache)
        return out

    used = setup.kernel if kernel else None
    return Candidate(
        name=name,
        shape=shape,
        dtype=dtype,
        sweep=sweep,
        bytes=len(caches) * step_bytes(first),
        check=Check(output=lambda: layer(first), q=q, truth=lambda: held(first), scale=scale),
        against=against,
        threads=threads,
        copies=copies,
        work=work,
        attended=attended,
        kernel=None if used is None else lambda: _entered(used, lambda: layer(first)),
    )


def bare(
    setup: Setup,
    name: str,
    shape: Shape,
    caches: Sequence[LayerCache],
    attend: Callable[[Tensor, Tensor, Tensor], Tensor],
    *,
    dtype: str,
    against: tuple[str, ...] = (),
    copies: str = "",
    read_tokens: int | None = None,
) -> Candidate:
    """``attend(q, k, v)`` called alone on the storage of contiguous ``caches``, with no append.

    ``attend`` gets all the capacity where ``read_tokens`` is given, else the tokens of the shape.
    """
    q, until = queries(setup, shape, dtype), read_tokens or shape.tokens
    storage = [[tensor[:, :, :until] for tensor in cache.tensors] for cache in caches]

    def sweep() -> Tensor | None:
        out = None
        for k, v in storage:
            out = attend(q, k, v)
        return out

    def truth() -> tuple[Tensor, Tensor]:
        k, v = storage[0]
        return k[:, :, : shape.tokens], v[:, :, : shape.tokens]

    return Candidate(
        name=name,
        shape=shape,
        dtype=dtype,
        sweep=sweep,
        bytes=len(caches) * shape.tokens * caches[0].entry_bytes,
        check=Check(output=lambda: attend(q, *storage[0]), q=q, truth=truth),
        against=against,
        copies=copies,
        read_tokens=read_tokens,
    )


def step_bytes(cache: LayerCache) -> int:
    """What one step over ``cache`` reads once and appends, counted from its tensors."""
    cache.seen += 1
    read = cache.held_bytes
    cache.seen -= 1
    return read + cache.entry_bytes


def held(cache: LayerCache) -> tuple[Tensor, Tensor]:
    """K and V that the last query attended to, found without the cache's own ``views``.

    Rows of a pool are looked up through its table one block at a time; converted rows and rings,
    whose contents only the cache can tell, are its views.
    """
    if isinstance(cache, PagedCache):
        return _by_table(cache, cache.tensors[0]), _by_table(cache, cache.tensors[1])
    if cache.name in ("contiguous", "concat"):
        return cache.tensors[0][:, :, : cache.seen], cache.tensors[1][:, :, : cache.seen]
    return cache.views()


def _by_table(cache: PagedCache, pool: Tensor) -> Tensor:
    """``[B, Hkv, t, D]`` out of a pool ``[Hkv, blocks, block, D]``."""
    rows = []
    for sequence in range(cache.batch):
        blocks = [pool[:, one] for one in cache.table.ids(sequence)]
        rows.append(torch.cat(blocks, dim=1)[:, : cache.seen])
    return torch.stack(rows)


def _entered(kernel: "CpuKernel", step: Callable[[], object]) -> str | None:
    """The kernel's name if ``step`` really enters it: the profiler cannot see it."""
    before = kernel.entries
    step()
    return kernel.name if kernel.entries > before else None
