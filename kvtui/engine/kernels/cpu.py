"""The CPU decode kernel as the engine uses it: which shapes it takes, on how many threads.

Importing this module imports numba, and the first call compiles (seconds, then cached on disk);
``compilation`` has both done in another process first. ``entries`` counts calls, since torch's
profiler cannot see the kernel: it is the evidence that it ran.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from time import perf_counter
from typing import Any, Final

import numpy as np
import torch
from llvmlite import binding
from torch import Tensor

from kvtui.engine.kernels.cpu_decode import attend_tasks
from kvtui.engine.kernels.rows import Rows, contiguous_rows

HINTS: Final = ("no prefetch", "prefetch T0", "prefetch T1", "prefetch NTA")
"""Which one helps differs between processors: T1 on Zen 4, where T0 and NTA do nothing."""
STORED: Final = (torch.float32, torch.bfloat16, torch.int8)
_LEAST_PART: Final = 512
"""Tokens below which cutting a head's keys costs more than an idle core."""
_TRIAL_TOKENS: Final = 8192
_TRIAL_HEADS: Final = 8
_TRIAL_WIDTH: Final = 128


class CpuKernel:
    """One token's attention over rows of fp32, bf16 or int8, on a pool of threads."""

    def __init__(self, threads: int = 1, *, hint: int | None = None) -> None:
        """Use ``threads`` threads, the caller's among them; ``hint`` is tried out when None."""
        self.threads = threads
        self.hint = best_hint() if hint is None else hint
        self.entries = 0
        """Calls so far."""
        self._pool = ThreadPoolExecutor(threads - 1, "kvtui-kernel") if threads > 1 else None

    @property
    def name(self) -> str:
        """What is run, for evidence."""
        return f"kvtui cpu_decode attention ({max_lanes() * 32}-bit vectors, {HINTS[self.hint]})"

    def takes(self, rows: Rows) -> bool:
        """Whether it attends over these: equal widths in multiples of 8, on the CPU."""
        width = rows.k.shape[-1]
        return (
            rows.k.device.type == "cpu"
            and rows.k.dtype in STORED
            and width % 8 == 0
            and width == rows.v.shape[-1]
        )

    def attend(self, q: Tensor, rows: Rows, *, scale: float | None = None) -> Tensor:
        """Attention of one token per sequence.

        Args:
            q: ``[B, Hq, 1, D]``.
            rows: the cache, ``B`` sequences of ``Hkv`` heads.
            scale: of the scores; 1/sqrt(D) when None.

        Returns:
            ``[B, Hq, 1, D]`` in q's dtype; zeros for a sequence without keys.
        """
        self.entries += 1
        batch, q_heads, _, width = q.shape
        heads = batch * rows.kv_heads
        group = q_heads // rows.kv_heads
        parts = self._parts(heads, int(rows.lengths.max()) if batch else 0)
        tasks = heads * parts
        factor = 1 / math.sqrt(width) if scale is None else scale
        query = q.float().mul(factor).reshape(-1).numpy()
        out = np.zeros(tasks * group * width, np.float32)
        most, total = np.empty(tasks * group, np.float32), np.empty(tasks * group, np.float32)
        flat = (_flat(rows.k), _flat(rows.v), _flat(rows.k_scale), _flat(rows.v_scale))
        table, lengths = rows.table.numpy(), rows.lengths.numpy()
        shape = (rows.block, rows.kv_heads, rows.sequence_rows, rows.head_rows, width, group, parts)

        def carry_out(first: int, end: int) -> None:
            found = (out, most, total, self.hint, lanes(width))
            attend_tasks(query, *flat, table, lengths, *shape, first, end, *found)

        self._deal(tasks, carry_out)
        answer = torch.from_numpy(out)
        if parts > 1:
            answer = _merged(answer, most, total, (heads, parts, group, width))
        return answer.to(q.dtype).view(batch, q_heads, 1, width)

    def _deal(self, tasks: int, carry_out: Callable[[int, int], None]) -> None:
        """Cut the tasks evenly; the last share is the caller's own."""
        shares = min(self.threads, tasks) or 1
        edges = [tasks * one // shares for one in range(shares + 1)]
        waiting = []
        if self._pool is not None:
            waiting = [
                self._pool.submit(carry_out, edges[one], edges[one + 1])
                for one in range(shares - 1)
            ]
        carry_out(edges[-2], edges[-1])
        for one in waiting:
            one.result()

    def _parts(self, heads: int, tokens: int) -> int:
        """Parts of each head's keys, so that few heads still occupy all threads."""
        if not heads or heads >= self.threads:
            return 1
        return max(1, min(-(-self.threads // heads), tokens // _LEAST_PART))

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()


def lanes(width: int) -> tuple[int, ...]:
    """A tuple as long as the vectors for rows of ``width``: the kernel is compiled for that."""
    return (0,) * (max_lanes() if width % max_lanes() == 0 else 8)


@lru_cache(maxsize=1)
def max_lanes() -> int:
    """fp32 lanes of this processor's vectors: 16 with AVX-512, else 8."""
    return 16 if binding.get_host_cpu_features().get("avx512f") else 8


@lru_cache(maxsize=1)
def best_hint() -> int:
    """The fastest prefetch hint of this machine, by a trial of tens of milliseconds.

    Over 64 MiB at four query heads a KV head, where the order of reading needs it most.
    """
    shape = (1, _TRIAL_HEADS, _TRIAL_TOKENS, _TRIAL_WIDTH)
    k, v = torch.full(shape, 0.5), torch.full(shape, 0.5)
    q = torch.full((1, 4 * _TRIAL_HEADS, 1, _TRIAL_WIDTH), 0.1)
    rows = contiguous_rows(k, v, torch.tensor([_TRIAL_TOKENS]))
    spent = []
    for hint in (2, *range(len(HINTS))):  # the first one warms up
        kernel = CpuKernel(hint=hint)
        begun = perf_counter()
        kernel.attend(q, rows)
        spent.append(perf_counter() - begun)
    return spent.index(min(spent[1:]), 1) - 1


def _flat(tensor: Tensor | None) -> Any:
    """The storage as one numpy axis; bf16, which numpy lacks, as its bits."""
    if tensor is None:
        return None
    flat = tensor.reshape(-1)
    if tensor.dtype == torch.bfloat16:
        return flat.view(torch.int16).numpy().view(np.uint16)
    return flat.numpy()


def _merged(out: Tensor, most: Any, total: Any, shape: tuple[int, int, int, int]) -> Tensor:
    """Parts of each head merged by their maxima and sums."""
    heads, parts, group, width = shape
    largest = torch.from_numpy(most).view(heads, parts, group, 1)
    sums = torch.from_numpy(total).view(heads, parts, group, 1)
    weight = (largest - largest.amax(dim=1, keepdim=True)).exp()
    summed = (out.view(heads, parts, group, width) * weight).sum(dim=1)
    return summed / (sums * weight).sum(dim=1).clamp_min(1e-38)
