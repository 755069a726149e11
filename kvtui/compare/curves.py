"""The figure of the lessons: bytes of the cache over T, with the budget as a line."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kvtui.compare.reserving import available_bytes, reserved_bytes
from kvtui.compare.rows import Comparison, Row
from kvtui.spec import Scenario, SequenceRun, Workload

POINTS: Final = 65
"""Even steps from 0 to the right edge, beside the T asked for."""
_STRETCH: Final = 4
"""The axis reaches to where the budget is met, at most this many times T."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One variant: bytes on the fullest rank at each T of the figure."""

    name: str
    bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Budget:
    """What one rank has for its cache; negative where the weights alone exceed its memory."""

    name: str
    """Empty where it is the same for all curves."""
    bytes: int


@dataclass(frozen=True, slots=True)
class Figure:
    """Curves over one axis."""

    tokens: tuple[int, ...]
    """Tokens per sequence."""
    batch: int
    context: int
    """The T that was asked for."""
    curves: tuple[Curve, ...]
    budgets: tuple[Budget, ...]


def figure(comparison: Comparison) -> Figure:
    """Bytes over T for each row of ``comparison``, all sequences being equally long."""
    first = comparison.scenarios[0].workload
    right = _right_edge(first.longest, comparison.rows)
    steps = POINTS - 1
    grid = {round(right * point / steps) for point in range(POINTS)}
    tokens = tuple(sorted(grid | {first.longest}))
    pairs = list(zip(comparison.rows, comparison.scenarios, strict=True))
    curves = tuple(
        Curve(row.name, tuple(_held(scenario, row.runtime, count) for count in tokens))
        for row, scenario in pairs
    )
    return Figure(tokens, first.batch, first.longest, curves, _budgets(pairs))


def _right_edge(longest: int, rows: Sequence[Row]) -> int:
    """T itself, or as far as the nearest budget is met beyond it."""
    met = [row.max_context for row in rows if isinstance(row.max_context, int)]
    beyond = [count for count in met if longest < count <= longest * _STRETCH]
    return max(longest, round(min(beyond) * 1.125) if beyond else longest)


def _held(scenario: Scenario, runtime: str, tokens: int) -> int:
    if tokens == 0:
        return 0
    own = scenario.workload
    workload = Workload(
        runs=(SequenceRun(tokens, own.batch),), shared_prefix=min(own.shared_prefix, tokens)
    )
    return reserved_bytes(replace(scenario, workload=workload), runtime)


def _budgets(pairs: Sequence[tuple[Row, Scenario]]) -> tuple[Budget, ...]:
    rooms = [(row.name, available_bytes(scenario, row.runtime)) for row, scenario in pairs]
    known = [Budget(name, room) for name, room in rooms if room is not None]
    if len({one.bytes for one in known}) == 1:
        return (Budget("", known[0].bytes),)
    return tuple(known)
