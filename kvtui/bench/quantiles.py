"""Percentiles of a handful of samples, and the interval of their median."""

import math
from collections.abc import Sequence
from typing import Final

_DOUBT: Final = 0.05
"""An interval holds the true median in 95 of 100 repetitions."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which ``percent`` of ``values`` lie, interpolated between neighbours."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the median of the population lies, by counting signs: no distribution is assumed.

    The k-th smallest and largest of n values enclose it unless fewer than k fall on one side, which
    has the binomial probability 2 P(X < k). With fewer than 6 values the range is all there is.
    """
    ordered = sorted(values)
    n, k, tail = len(ordered), 1, 0.5 ** len(ordered)
    while k < n // 2 and 2 * (tail + math.comb(n, k) * 0.5**n) <= _DOUBT:
        tail += math.comb(n, k) * 0.5**n
        k += 1
    return ordered[k - 1], ordered[n - k]
