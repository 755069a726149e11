"""Is the output right: each candidate against dense attention in fp32, once, before it is timed.

The first and the last sequence are compared, every KV head by itself, so that the scores of long
contexts fit into memory; of very long ones the first, the middle and the last head.
"""

import math
from dataclasses import dataclass
from typing import Final

import torch

from kvtui.bench.case import Check
from kvtui.engine.attention import dense_attention

_ULPS: Final = 4
"""Units in the last place of the largest value, in 16 bits: weights and outputs are rounded."""

_MOST_ROWS: Final = 2**19
"""Cached tokens of all heads of a sequence up to which every head is compared."""

_HEADS: Final = 8
"""Query heads at once: dense attention repeats K and V for each in fp32."""


@dataclass(frozen=True, slots=True)
class Compared:
    """How far an output is from the reference."""

    error: float
    """Largest absolute difference."""
    bound: float
    """What it may be at most: rtol 1e-4 and atol 1e-5 in fp32."""

    @property
    def right(self) -> bool:
        """Within the bound; what is not a number is not."""
        return self.error <= self.bound


def compared(check: Check) -> Compared:
    """Take the output, then compute what it should be."""
    out = check.output()
    k, v = check.truth()
    heads = k.shape[1]
    group = check.q.shape[1] // heads
    chosen = range(heads) if heads * k.shape[2] <= _MOST_ROWS else {0, heads // 2, heads - 1}
    error, largest = 0.0, 0.0
    for sequence in {0, out.shape[0] - 1}:
        for head in chosen:
            kv = (slice(sequence, sequence + 1), slice(head, head + 1))
            for first in range(head * group, (head + 1) * group, _HEADS):
                at = (kv[0], slice(first, min(first + _HEADS, (head + 1) * group)))
                expected = dense_attention(check.q[at], k[kv], v[kv], scale=check.scale)
                apart = float((out[at].float() - expected).abs().max())
                # Not a number is further off than any number.
                error = max(error, apart if apart == apart else math.inf)
                largest = max(largest, float(expected.abs().max()))
    half = check.q.dtype in (torch.bfloat16, torch.float16)
    bound = _ULPS * torch.finfo(check.q.dtype).eps * largest if half else 1e-5 + 1e-4 * largest
    return Compared(error, bound)
