"""Bounded memory of measured values: histograms, ring buffers, min/max buckets.

Standard library only and no clock: both the worker (which fills histograms) and the session
(which merges them) use these, and nothing here knows what the numbers mean.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, TypeVar

Sample = TypeVar("Sample")

_RATIO = 1.01
_LOG_RATIO = math.log(_RATIO)


@dataclass(slots=True)
class LogHistogram:
    """Counts of positive values in buckets 1 % wide, so that percentiles survive merging.

    A percentile read back is within 0.5 % of the sample it stands for; count, and the sum kept
    beside it, are exact.
    """

    buckets: dict[int, int] = field(default_factory=dict)
    total: float = 0.0

    def add(self, value: float) -> None:
        """Count one value above 0; others are ignored since no duration or rate is one."""
        if value > 0 and math.isfinite(value):
            bucket = math.floor(math.log(value) / _LOG_RATIO)
            self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
            self.total += value

    def merge(self, buckets: Mapping[int, int], total: float) -> None:
        """Add the counts of another histogram."""
        mine = self.buckets
        for bucket, counted in buckets.items():
            mine[bucket] = mine[bucket] + counted if bucket in mine else counted
        self.total += total

    def copy(self) -> "LogHistogram":
        """The same counts, on their own."""
        return LogHistogram(dict(self.buckets), self.total)

    @property
    def count(self) -> int:
        """Values counted."""
        return sum(self.buckets.values())

    @property
    def mean(self) -> float | None:
        """Exact mean, None when empty."""
        counted = self.count
        return self.total / counted if counted else None

    def percentile(self, percent: float) -> float | None:
        """The value below which ``percent`` of the counted ones lie; None when empty."""
        return self.percentiles(percent)[0]

    def percentiles(self, *percents: float) -> tuple[float | None, ...]:
        """Several percentiles, given in rising order, in one pass."""
        counted, ordered = self.count, sorted(self.buckets)
        found: list[float | None] = []
        reached, index = 0, -1
        for percent in percents:
            rank = max(1, math.ceil(counted * percent / 100))
            while reached < rank and index + 1 < len(ordered):
                index += 1
                reached += self.buckets[ordered[index]]
            found.append(_middle(ordered[index]) if reached >= rank else None)
        return tuple(found)


@lru_cache(maxsize=2**14)
def _middle(bucket: int) -> float:
    """The value a bucket stands for; infinite for one that no measurement ever fills."""
    try:
        return math.exp((bucket + 0.5) * _LOG_RATIO)
    except OverflowError:
        return math.inf


@dataclass(frozen=True, slots=True)
class Extent:
    """Lowest and highest of the samples that fall in one column; None where there are none."""

    low: float | None
    high: float | None


def columns(
    samples: Sequence[tuple[float, float]], width: int, low: float, high: float
) -> list[Extent]:
    """``samples`` (x, y) reduced to ``width`` columns over x in [low, high].

    At most two values a column leave here, whatever came in; non-finite values are gaps.
    """
    lows: list[float | None] = [None] * width
    highs: list[float | None] = [None] * width
    if width <= 0 or not high > low:
        return [Extent(None, None)] * max(width, 0)
    scale = width / (high - low)
    for x, y in samples:
        if not (math.isfinite(x) and math.isfinite(y)) or not low <= x <= high:
            continue
        column = min(width - 1, int((x - low) * scale))
        at_low, at_high = lows[column], highs[column]
        lows[column] = y if at_low is None or y < at_low else at_low
        highs[column] = y if at_high is None or y > at_high else at_high
    return [Extent(a, b) for a, b in zip(lows, highs, strict=True)]


class Thinned(Generic[Sample]):
    """A series that never outgrows ``capacity``: when full, every second sample is dropped.

    The whole span stays covered at falling resolution, which is what a growth curve needs; the
    newest sample is always kept.
    """

    def __init__(self, capacity: int = 4096) -> None:
        """Hold at most ``capacity`` samples."""
        self._capacity = max(2, capacity)
        self._samples: list[Sample] = []
        self._stride = 1
        self._seen = 0
        self._newest: Sample | None = None

    def append(self, sample: Sample) -> None:
        """Add the next sample."""
        self._newest = sample
        if self._seen % self._stride == 0:
            self._samples.append(sample)
            if len(self._samples) >= self._capacity:
                del self._samples[1::2]
                self._stride *= 2
        self._seen += 1

    def copy(self) -> "Thinned[Sample]":
        """The same samples, on their own."""
        found: Thinned[Sample] = Thinned(self._capacity)
        found._samples = list(self._samples)
        found._stride, found._seen, found._newest = self._stride, self._seen, self._newest
        return found

    def __len__(self) -> int:
        """Samples that iteration yields."""
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Sample]:
        """Kept samples, oldest first, the newest always last."""
        yield from self._samples
        newest = self._newest
        if newest is not None and (not self._samples or self._samples[-1] is not newest):
            yield newest


def recent(samples: Iterable[Sample], length: int) -> deque[Sample]:
    """A ring buffer of the last ``length`` samples."""
    return deque(samples, maxlen=length)
