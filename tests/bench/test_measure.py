"""Samples, percentiles, intervals of a median, and ratios within rounds."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvtui.bench import measure
from kvtui.bench.case import Candidate, Group
from kvtui.bench.launches import counted
from kvtui.bench.measure import ratios, timed
from kvtui.bench.quantiles import median_interval, percentile
from tests.bench.small import CPU


def candidate(name: str, calls: list[str], done: bool = False) -> Candidate:
    return Candidate(
        name=name,
        shape=None,
        dtype="fp32",
        sweep=lambda: calls.append(name),
        bytes=1,
        done=(lambda: 2 * calls.count(name)) if done else None,
    )


def test_candidates_take_turns() -> None:
    """After warm-up every round asks each candidate once, in the same order."""
    calls: list[str] = []
    group = Group((candidate("a", calls), candidate("b", calls)), least_rounds=7)
    found = timed(group, CPU, 0.0)
    assert [len(one.step_ms) for one in found] == [7, 7]
    runs = [name for at, name in enumerate(calls) if at == 0 or calls[at - 1] != name]
    assert runs[-14:] == ["a", "b"] * 7


def test_a_slow_group_does_not_take_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates far slower than thought give three rounds, and the bench goes on."""
    monkeypatch.setattr(measure, "_PATIENCE_S", 0.0)
    (found,) = timed(Group((candidate("a", []),), least_rounds=50), CPU, 0.0)
    assert len(found.step_ms) == 3


def test_a_sweep_may_be_more_than_one_step() -> None:
    """Time is a step's where the candidate counts its own steps."""
    calls: list[str] = []
    alone, double = timed(
        Group((candidate("a", calls), candidate("b", calls, done=True))), CPU, 0.0
    )
    assert all(one > 0 for one in alone.step_ms + double.step_ms)


def test_ratios_are_taken_within_rounds() -> None:
    """What slows a whole round down cancels; work is counted for each."""
    mine, other = [1.0, 10.0], [2.0, 20.0]
    assert ratios(mine, other, 1.0, 1.0) == [2.0, 2.0]
    assert ratios(mine, other, 3.0, 1.0) == pytest.approx([6.0, 6.0])


def test_percentiles_lie_between_neighbours() -> None:
    """The median of an even count is the middle of the two in the middle."""
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile([4.0, 1.0, 2.0, 3.0], 50) == 2.5
    assert percentile([5.0], 90) == 5.0
    assert percentile([0.0, 10.0], 90) == 9.0


@pytest.mark.parametrize(
    ("n", "rank"), [(5, 1), (6, 1), (8, 1), (9, 2), (15, 4), (25, 8), (50, 18)]
)
def test_the_interval_of_a_median_is_that_of_the_sign_test(n: int, rank: int) -> None:
    """The ranks are those of published tables of the sign test at 95 %."""
    values = [float(one) for one in range(1, n + 1)]
    assert median_interval(values) == (float(rank), float(n + 1 - rank))


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=60))
def test_the_interval_holds_the_median(values: list[float]) -> None:
    low, high = median_interval(values)
    assert low <= percentile(values, 50) <= high


def test_only_what_ran_on_the_device_counts_as_launched() -> None:
    """Host operators in the profiler's list are no kernels; an empty list says nothing."""

    class Event:
        def __init__(self, kind: object, count: int, spent_us: float) -> None:
            self.device_type, self.count, self.self_device_time_total = kind, count, spent_us

    kinds = torch.autograd.DeviceType  # type: ignore[attr-defined]
    found = counted(
        [Event(kinds.CUDA, 3, 40.0), Event(kinds.CUDA, 1, 2.0), Event(kinds.CPU, 9, 0.0)]
    )
    assert found is not None
    assert found.count == 4
    assert found.busy_ms == pytest.approx(0.042)
    assert counted([Event(kinds.CPU, 9, 0.0)]) is None
