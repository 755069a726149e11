"""One figure of the lab beside what the lessons report of theirs, and on which hardware.

A figure without a reported value says so: the lessons report some of them only, on one card, for
one shape. Another machine gives other figures; what is set side by side is not a score.
"""

from typing import Final, Literal

import msgspec

from kvtui.units import MIB, format_bytes, format_exact, format_flops, format_ms, format_per_s

Unit = Literal["ms", "bytes", "flop", "times", "tokens", "tokens_per_s", "difference"]

RTX_3080: Final = "RTX 3080 20 GiB, Python 3.11.12, torch 2.13.0+cu130, B=2 prompt 256, 32 steps"
RTX_3080_SMALL: Final = "RTX 3080 20 GiB, Python 3.11.12, torch 2.13.0+cu130"
RTX_3080_IDLE: Final = "RTX 3080 20 GiB, otherwise idle"
DESK: Final = "by arithmetic for one card of 80 GB at 3 TB/s and 1e15 FLOP/s, not measured"
BY_HAND: Final = "by arithmetic, on no hardware"


class Reported(msgspec.Struct, frozen=True):
    """A lesson's figure, as it is printed there."""

    text: str
    value: float
    """In the unit of the figure beside it."""
    on: str
    """Hardware and shape it was had on."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of this machine and its counterpart."""

    name: str
    here: float | None
    """None where this device has no such figure."""
    unit: Unit
    reported: Reported | None = None
    """None where the lessons report none."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one experiment."""

    title: str
    notes: list[str]
    figures: list[Figure]


def milliseconds(value: float, on: str, *, digits: int = 3) -> Reported:
    """A reported time."""
    return Reported(f"{value:.{digits}f} ms", value, on)


def mebibytes(value: float, on: str) -> Reported:
    """A reported size in MiB, three decimals."""
    return Reported(f"{value:.3f} MiB", value * MIB, on)


def shown(value: float | None, unit: Unit) -> str:
    """``value`` for a reader; bytes to the byte."""
    if value is None:
        return "n/a here"
    if unit == "ms":
        return format_ms(value)
    if unit == "bytes":
        return f"{format_exact(int(value))} ({format_bytes(value)})"
    if unit == "flop":
        return format_flops(value)
    if unit == "times":
        return f"{value:,.2f} ×"
    if unit == "tokens":
        return f"{value:,.4g} tokens"
    if unit == "tokens_per_s":
        return f"{format_per_s(value)} tokens/s"
    return f"{value:.3e}"


def lines(section: Section) -> list[str]:
    """A section as text: each figure, the reported one beside it, and below where that was had."""
    places = list(dict.fromkeys(one.reported.on for one in section.figures if one.reported))
    width = max(len(one.name) for one in section.figures)
    here = max(len(shown(one.here, one.unit)) for one in section.figures)
    rows = [section.title, *(f"  {note}" for note in section.notes)]
    for one in section.figures:
        beside = "none reported"
        if one.reported is not None:
            beside = f"reported {one.reported.text} [{places.index(one.reported.on) + 1}]"
        rows.append(f"  {one.name:<{width}}  {shown(one.here, one.unit):>{here}}  {beside}")
    rows += [f"  [{number}] {place}" for number, place in enumerate(places, start=1)]
    return rows
