"""Figures in a log: what a line of an engine says, with how exactly it says it.

A pattern's named groups become readings. The part after two underscores is the unit the engine
means: ``gib``, ``mib``, ``bytes``, ``count``, ``ratio``, ``exact`` (a setting), ``text``, or
``size`` where the log names one of several. Engines print powers of 1024 whatever letters follow.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kvtui.reconcile.stream import Line
from kvtui.units import GIB, KIB, MIB

KEPT: Final = 64
"""Readings of one name that are kept; ranks and devices repeat a line, restarts too."""

REPEATS: Final = 48
"""Longest run of digits, blanks or letters that a line of an engine has."""
_REPEAT: Final = re.compile(r"(?<!\\)[+*]")

ABSURD: Final = 2.0**60
"""No figure of a machine's memory is larger; what claims to be is no figure."""

_UNITS: Final = {"gib": GIB, "mib": MIB, "bytes": 1, "count": 1, "ratio": 1, "exact": 1}
_SIZES: Final = {"b": 1, "bytes": 1, "k": KIB, "m": MIB, "g": GIB}
_UNIT_TEXT: Final = re.compile(r"\s*(GiB|GB|MiB|MB|KiB|KB|bytes|B\b|tokens|cells|x\b)")
_PLACE: Final = re.compile(
    r"\b(?:Worker_|VllmWorker )?((?:TP|PP|DP|EP)\d+(?:[_ ](?:TP|PP|DP|EP)\d+)*)\b|rank[= ](\d+)"
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One wording of one line."""

    anchor: str
    """A part of the line that hardly any other line has; looked for first."""
    regex: re.Pattern[str]
    telling: bool = True
    """The line tells this engine from others."""


def pattern(anchor: str, regex: str, *, telling: bool = True) -> Pattern:
    """A pattern from its text, in which ``+`` and ``*`` stand for at most ``REPEATS``.

    Without a bound a hostile line of some ten thousand digits takes a minute to search.
    """
    bounded = _REPEAT.sub(lambda one: f"{{{int(one[0] == '+')},{REPEATS}}}", regex)
    return Pattern(anchor, re.compile(bounded), telling)


@dataclass(frozen=True, slots=True)
class Reading:
    """One figure as it was printed."""

    name: str
    value: float
    """Bytes, or a count or ratio."""
    half: float
    """Half a step of the last digit printed: the value is within this."""
    printed: str
    line: int
    place: str
    """The rank, where the line names one."""
    group: int = 0
    """Figures of one line share it."""


@dataclass(frozen=True, slots=True)
class Log:
    """What was found, by name, in the order of the log."""

    readings: dict[str, deque[Reading]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """The last value of each setting that is a word."""
    telling: int = 0
    """Lines that only this engine writes."""

    def all(self, name: str) -> tuple[Reading, ...]:
        """Every reading of ``name``."""
        return tuple(self.readings.get(name, ()))

    def last(self, name: str) -> Reading | None:
        """The last reading of ``name``."""
        found = self.readings.get(name)
        return found[-1] if found else None

    def least(self, name: str) -> Reading | None:
        """The smallest reading of ``name``: what an engine takes over its ranks."""
        found = self.readings.get(name)
        return min(found, key=lambda one: one.value) if found else None

    def value(self, name: str) -> float | None:
        """The value of the last reading."""
        found = self.last(name)
        return None if found is None else found.value

    def text(self, name: str) -> str | None:
        """The last word of ``name``."""
        return self.texts.get(name)

    def beside(self, name: str, other: Reading) -> Reading | None:
        """The reading of ``name`` from the same line as ``other``."""
        return next((one for one in self.all(name) if one.group == other.group), None)


def logs(found: Iterable[Line], engines: dict[str, tuple[Pattern, ...]]) -> dict[str, Log]:
    """One log an engine, from the lines that any of them knows."""
    by_engine = {name: _Collector() for name in engines}
    by_anchor: dict[str, list[tuple[_Collector, Pattern]]] = {}
    for name, patterns in engines.items():
        for one in patterns:
            by_anchor.setdefault(one.anchor, []).append((by_engine[name], one))
    for line in found:
        for anchor in line.anchors:
            for collector, one in by_anchor[anchor]:
                collector.take(one, line)
    return {name: collector.log() for name, collector in by_engine.items()}


class _Collector:
    """Gathers the readings of one engine."""

    def __init__(self) -> None:
        self._readings: dict[str, deque[Reading]] = {}
        self._texts: dict[str, str] = {}
        self._telling = 0
        self._group = 0

    def take(self, one: Pattern, line: Line) -> None:
        match = one.regex.search(line.text)
        if match is None:
            return
        self._group += 1
        self._telling += one.telling
        place = _PLACE.search(line.text[:200])
        where = (place[1] or f"rank {place[2]}") if place else ""
        for reading in _read(match, line, where, self._group):
            kept = self._readings.setdefault(reading.name, deque(maxlen=KEPT))
            kept.append(reading)
        for key, value in match.groupdict().items():
            name, _, unit = key.partition("__")
            if unit == "text" and value is not None:
                self._texts[name] = value

    def log(self) -> Log:
        return Log(self._readings, self._texts, self._telling)


def _read(match: re.Match[str], line: Line, place: str, group: int) -> Iterator[Reading]:
    for key, text in match.groupdict().items():
        name, _, unit = key.partition("__")
        if text is None or unit == "text":
            continue
        after = _UNIT_TEXT.match(line.text, match.end(key))
        shown = line.text[match.start(key) : after.end() if after else match.end(key)]
        scale = _UNITS.get(unit) or _scale(after[1] if after else "B")
        digits = text.replace(",", "")
        try:
            value = float(digits) * scale
        except ValueError:
            continue
        if abs(value) > ABSURD:
            continue
        # Two decimals are what all of them round to; trailing zeros may be dropped ("0.4 GiB").
        decimals = max(2, len(digits.partition(".")[2]))
        half = 0.0 if unit in ("count", "bytes", "exact") else 0.5 * 10**-decimals * scale
        yield Reading(name, value, half, " ".join(shown.split()), line.number, place, group)


def _scale(unit: str) -> int:
    return _SIZES.get(unit.lower(), 0) or _SIZES.get(unit[0].lower(), 1)
