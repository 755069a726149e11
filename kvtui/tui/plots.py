"""Drawing without widgets: lines of braille, strips and stacked bars, as text.

Pure functions over numbers that are already reduced to columns; two values a column at most.
Nothing here knows what the numbers mean.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from kvtui.history import Extent
from kvtui.tui.palette import DIM, Glyphs

_BRAILLE_BASE = 0x2800
_BRAILLE_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a plot: an extent for each dot column, and its style."""

    extents: Sequence[Extent]
    style: str


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
    styles = [[""] * width for _ in range(height)]
    if not high > low:
        high = low + 1.0
    for curve in curves:
        previous: tuple[int, int] | None = None
        for x, extent in enumerate(curve.extents[: width * per_cell_x]):
            if extent.low is None or extent.high is None:
                previous = None
                continue
            bottom = _dot_row(extent.high, low, high, rows)
            top = _dot_row(extent.low, low, high, rows)
            first, last = min(bottom, top), max(bottom, top)
            if previous is not None:
                # Join to the column before, so that a steep line has no holes.
                first, last = min(first, previous[1]), max(last, previous[0])
            previous = (min(bottom, top), max(bottom, top))
            for y in range(first, last + 1):
                cell_x, cell_y = x // per_cell_x, y // per_cell_y
                masks[cell_y][cell_x] |= (
                    _BRAILLE_DOTS[y % per_cell_y][x % per_cell_x] if glyphs.braille else 1
                )
                styles[cell_y][cell_x] = curve.style
    lines = []
    for mask_row, style_row in zip(masks, styles, strict=True):
        line = Text(no_wrap=True)
        for mask, style in zip(mask_row, style_row, strict=True):
            line.append(_cell(mask, glyphs), style)
        lines.append(line)
    return lines


def strip(extents: Sequence[Extent], low: float, high: float, style: str, glyphs: Glyphs) -> Text:
    """One row of rising blocks, each column at the height of its highest value."""
    line = Text(no_wrap=True)
    top = len(glyphs.levels) - 1
    for extent in extents:
        if extent.high is None or not math.isfinite(extent.high):
            line.append(" ")
            continue
        share = (extent.high - low) / (high - low) if high > low else 0.0
        line.append(glyphs.levels[round(min(1.0, max(0.0, share)) * top)], style)
    return line


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


def _dot_row(value: float, low: float, high: float, rows: int) -> int:
    share = (value - low) / (high - low)
    return min(rows - 1, max(0, round((1 - share) * (rows - 1))))


def _cell(mask: int, glyphs: Glyphs) -> str:
    if glyphs.braille:
        return chr(_BRAILLE_BASE + mask) if mask else " "
    return glyphs.dot if mask else " "
