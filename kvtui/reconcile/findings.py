"""A figure set against what it should be: explained, measured by the engine, or left over."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kvtui.reconcile.readings import Reading
from kvtui.units import format_bytes, format_count

_DECIMAL: Final = (" GB", " MB")
_BINARY: Final = "; this log's GB are 2^30 bytes, GiB"
Status = Literal["explained", "measured", "unexplained"]
Unit = Literal["bytes", "tokens", "blocks", "cells", "requests"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one figure of a log means."""

    figure: str
    """Its name, as the engine calls it."""
    printed: str
    line: int
    place: str
    unit: Unit
    value: float
    status: Status
    """``measured`` figures come from the engine's own profiling: nothing predicts them."""
    predicted: float | None
    unexplained: float
    """Printed less predicted where nothing explains it; 0 otherwise."""
    explanation: str
    assumes: str = ""
    """What must hold besides the question, where the plain definition does not fit."""

    @property
    def remainder(self) -> str:
        """The unexplained part in words: so much more, or less."""
        size = abs(self.unexplained)
        shown = format_bytes(size) if self.unit == "bytes" else _counted(size, self.unit)
        return f"{shown} {'more' if self.unexplained > 0 else 'less'}"


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One way a figure could have come about."""

    predicted: float
    words: str
    """The rule with its values."""
    slack: float = 0.0
    """How far the inputs' own rounding moves the prediction."""
    assumes: str = ""
    """What it takes for granted that the question does not say; empty for the plain rule."""


def settled(figure: str, reading: Reading, unit: Unit, hypotheses: Sequence[Hypothesis]) -> Finding:
    """The first hypothesis within rounding explains; else the first is what the rest is told of."""
    for one in hypotheses:
        if abs(reading.value - one.predicted) <= reading.half + one.slack + 1e-6 * abs(
            one.predicted
        ) * (unit == "bytes"):
            return _finding(figure, reading, unit, "explained", one, 0.0)
    plain = hypotheses[0]
    return _finding(figure, reading, unit, "unexplained", plain, reading.value - plain.predicted)


def measured(figure: str, reading: Reading, words: str, unit: Unit = "bytes") -> Finding:
    """A figure that only the engine can know, and what it is."""
    return Finding(
        figure,
        reading.printed,
        reading.line,
        reading.place,
        unit,
        reading.value,
        "measured",
        None,
        0.0,
        words,
    )


def _finding(
    figure: str, reading: Reading, unit: Unit, status: Status, one: Hypothesis, left: float
) -> Finding:
    return Finding(
        figure,
        reading.printed,
        reading.line,
        reading.place,
        unit,
        reading.value,
        status,
        one.predicted,
        left,
        one.words + (_BINARY if unit == "bytes" and reading.printed.endswith(_DECIMAL) else ""),
        one.assumes if status == "explained" else "",
    )


def _counted(size: float, unit: Unit) -> str:
    return f"{size:,.2f} {unit}" if unit == "requests" else f"{format_count(size)} {unit}"
