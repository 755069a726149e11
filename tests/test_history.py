"""Bounded memory of measured values."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtui.history import LogHistogram, Thinned, columns

durations = st.floats(1.0, 1e12)


@given(st.lists(durations, min_size=1, max_size=200))
def test_percentiles_are_within_a_percent(values: list[float]) -> None:
    """The median of a histogram is within 1 % of the sample median; the mean is exact."""
    histogram = LogHistogram()
    for value in values:
        histogram.add(value)
    assert histogram.count == len(values)
    assert histogram.percentile(50) == pytest.approx(statistics.median_low(values), rel=0.01)
    assert histogram.mean == pytest.approx(statistics.fmean(values))


@given(st.lists(durations, max_size=50), st.lists(durations, max_size=50))
def test_merging_is_counting_together(first: list[float], second: list[float]) -> None:
    """Two merged histograms equal one that counted everything."""
    together, merged, other = LogHistogram(), LogHistogram(), LogHistogram()
    for value in first:
        together.add(value)
        merged.add(value)
    for value in second:
        together.add(value)
        other.add(value)
    merged.merge(other.buckets, other.total)
    assert merged.buckets == together.buckets
    assert merged.total == pytest.approx(together.total)


def test_an_empty_histogram_knows_nothing() -> None:
    """Nothing counted means no percentile and no mean, never 0."""
    assert LogHistogram().percentile(50) is None
    assert LogHistogram().mean is None


@given(st.integers(1, 20_000), st.integers(2, 100))
def test_a_thinned_series_keeps_its_ends(count: int, capacity: int) -> None:
    """However many samples come, at most the capacity stays, with the first and the newest."""
    series: Thinned[int] = Thinned(capacity)
    for value in range(count):
        series.append(value)
    kept = list(series)
    assert len(kept) <= capacity + 1
    assert kept[0] == 0
    assert kept[-1] == count - 1
    assert kept == sorted(set(kept))


@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(allow_nan=True, allow_infinity=True))),
    st.integers(1, 40),
)
def test_no_column_gets_more_than_two_values(
    samples: list[tuple[float, float]], width: int
) -> None:
    """Each column carries its lowest and highest finite sample and nothing else."""
    found = columns(samples, width, 0, 10)
    assert len(found) == width
    finite = [y for _, y in samples if math.isfinite(y)]
    lows = [one.low for one in found if one.low is not None]
    highs = [one.high for one in found if one.high is not None]
    assert (min(lows), max(highs)) == (min(finite), max(finite)) if finite else not lows
