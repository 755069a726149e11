"""Drawing without widgets: lines of braille, strips and stacked bars, as text.

Pure functions over numbers that are already reduced to columns; two values a column at most.
Nothing here knows what the numbers mean.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.text import Text

from kvtui.history import Extent
from kvtui.tui.palette import DIM, Glyphs

_BRAILLE_BASE = 0x2800
_BRAILLE_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a plot: an extent for each dot column, and how it is drawn."""

    extents: Sequence[Extent]
    style: str
    filled: bool = False
    """The area below it is filled: told from a bare line without colour."""
    every: int = 1
    """Draw one column in this many, for dotted lines."""
    mark: str = ""
    """Stands for the curve where there is no braille; empty takes the common dot."""


def dot_columns(width: int, glyphs: Glyphs) -> int:
    """Columns of dots in ``width`` cells: two a cell in braille, one otherwise."""
    return width * 2 if glyphs.braille else width


def line_plot(
    curves: Sequence[Curve], width: int, height: int, low: float, high: float, glyphs: Glyphs
) -> list[Text]:
    """``curves`` over ``width`` x ``height`` cells, y from ``low`` (bottom) to ``high`` (top).

    Later curves take the cells they touch; gaps stay gaps; values outside are clipped to the edge.
    """
    per_cell_x, per_cell_y = (2, 4) if glyphs.braille else (1, 1)
    rows = height * per_cell_y
    masks = [[0] * width for _ in range(height)]
    owners: list[list[Curve | None]] = [[None] * width for _ in range(height)]
    if not high > low:
        high = low + 1.0
    for curve in curves:
        for x, (first, last) in _spans(curve, width * per_cell_x, low, high, rows):
            for y in range(first, last + 1):
                cell_x, cell_y = x // per_cell_x, y // per_cell_y
                masks[cell_y][cell_x] |= (
                    _BRAILLE_DOTS[y % per_cell_y][x % per_cell_x] if glyphs.braille else 1
                )
                owners[cell_y][cell_x] = curve
    return [
        _run_lengths(
            (_cell(mask, owner, glyphs), owner.style if owner else "")
            for mask, owner in zip(mask_row, owner_row, strict=True)
        )
        for mask_row, owner_row in zip(masks, owners, strict=True)
    ]


def row_of(value: float, low: float, high: float, height: int, glyphs: Glyphs) -> int:
    """The row of cells in which ``line_plot`` draws ``value``; 0 is on top."""
    per_cell = 4 if glyphs.braille else 1
    return _dot_row(value, low, high, height * per_cell) // per_cell


def strip(
    extents: Sequence[Extent], low: float, high: float, style: str, glyphs: Glyphs, rows: int = 1
) -> list[Text]:
    """``rows`` rows of rising blocks, each column at the height of its highest value.

    A value is never invisible: the lowest block stands for ``low``. Gaps stay gaps.
    """
    steps = len(glyphs.levels)
    heights: list[int | None] = []
    for extent in extents:
        if extent.high is None or not math.isfinite(extent.high):
            heights.append(None)
            continue
        share = (extent.high - low) / (high - low) if high > low else 0.0
        heights.append(max(1, round(min(1.0, max(0.0, share)) * steps * rows)))
    found = []
    for row in range(rows):
        below = (rows - 1 - row) * steps
        cells = "".join(
            " " if one is None or one <= below else glyphs.levels[min(steps, one - below) - 1]
            for one in heights
        )
        found.append(Text(cells, style, no_wrap=True))
    return found


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a stacked bar."""

    value: float
    glyph: str
    style: str


def stacked_bar(parts: Sequence[Part], total: float, width: int, glyphs: Glyphs) -> Text:
    """``parts`` side by side as shares of ``total``; every part above 0 gets a cell if it can.

    Where the parts exceed the total the bar is full and ends in ``>``.
    """
    inner = max(1, width - 2)
    used = sum(max(0.0, part.value) for part in parts)
    over = used > total
    scale = inner / max(used, total, 1e-9)
    line = Text(no_wrap=True).append(glyphs.left, DIM)
    filled, reached = 0, 0.0
    for part in parts:
        if part.value <= 0:
            continue
        reached += part.value
        cells = max(1 if filled < inner else 0, round(reached * scale) - filled)
        cells = min(cells, inner - filled)
        line.append(part.glyph * cells, part.style)
        filled += cells
    line.append(glyphs.empty * (inner - filled), DIM)
    line.append(">" if over else glyphs.right, DIM)
    return line


def progress_bar(share: float, width: int, style: str, glyphs: Glyphs) -> Text:
    """A bar filled to ``share``."""
    return stacked_bar([Part(share, glyphs.full, style)], 1.0, width, glyphs)


def _spans(
    curve: Curve, columns: int, low: float, high: float, rows: int
) -> Iterator[tuple[int, tuple[int, int]]]:
    """Column and first to last dot row (0 on top) of each column that holds something."""
    previous: tuple[int, int] | None = None
    for x, extent in enumerate(curve.extents[:columns]):
        if extent.low is None or extent.high is None:
            previous = None
            continue
        top = _dot_row(extent.high, low, high, rows)
        bottom = _dot_row(extent.low, low, high, rows)
        first, last = top, bottom
        if previous is not None:
            # Join to the column before, so that a steep line has no holes.
            first, last = min(first, previous[1]), max(last, previous[0])
        previous = (top, bottom)
        if x % curve.every == 0:
            yield x, (top, rows - 1) if curve.filled else (first, last)


def _dot_row(value: float, low: float, high: float, rows: int) -> int:
    share = (value - low) / (high - low)
    return min(rows - 1, max(0, round((1 - share) * (rows - 1))))


def _cell(mask: int, owner: Curve | None, glyphs: Glyphs) -> str:
    if not mask or owner is None:
        return " "
    return chr(_BRAILLE_BASE + mask) if glyphs.braille else owner.mark or glyphs.dot


def _run_lengths(cells: Iterable[tuple[str, str]]) -> Text:
    """One line, a span for each run of one style: what a terminal has to be told."""
    line = Text(no_wrap=True)
    for style, run in groupby(cells, key=lambda cell: cell[1]):
        line.append("".join(char for char, _ in run), style)
    return line
