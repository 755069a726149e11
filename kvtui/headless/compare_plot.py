"""The figure of a comparison, drawn with plotext: bytes over T and the budget as a line.

Curves differ by mark as well as by colour, so that the figure reads without colour; ``NO_COLOR``
and a stdout that is no terminal leave colour out. The only module here that imports plotext.
"""

import math
import os
import shutil
import sys
from typing import Final

import plotext

from kvtui.compare import Figure
from kvtui.units import GIB, MIB, format_bytes, format_count

_MARKS: Final = "abcdefghijklmnopqrstuvwxyz"
_COLOURS: Final = ("blue", "orange", "cyan", "magenta", "green", "red", "yellow", "white")
_ASCII_FRAME: Final = str.maketrans("─│┌┐└┘├┤┬┴┼", "-|+++++++++")
_BUDGET_COLOUR: Final = "red"
_BUDGET_STRETCH: Final = 3
"""A budget further above the curves than this would press them flat; it is said in words."""
_WIDTHS: Final = (40, 200)
_HEIGHTS: Final = (16, 40)


def drawn(figure: Figure) -> str:
    """The figure at the terminal's width (``COLUMNS`` where there is none)."""
    size = shutil.get_terminal_size((80, 24))
    return render(
        figure,
        width=min(max(size.columns, _WIDTHS[0]), _WIDTHS[1]),
        height=min(max(size.lines - 2, _HEIGHTS[0]), _HEIGHTS[1]),
        colour=_colour_wanted(),
        plain=_plain_wanted(),
    )


def render(figure: Figure, *, width: int, height: int, colour: bool, plain: bool = False) -> str:
    """The figure as lines of text, ``width`` columns by about ``height`` rows.

    Args:
        figure: curves and budget.
        width: columns.
        height: rows of the drawing; legend and notes stand below it.
        colour: curves are coloured as well as marked.
        plain: the frame is of ASCII characters.
    """
    top = max(1, *(one for curve in figure.curves for one in curve.bytes))
    unit, name = (GIB, "GiB") if top >= GIB else (MIB, "MiB")
    asked = figure.tokens.index(figure.context)
    plotext.clear_figure()
    plotext.plotsize(width, height)
    plotext.theme("clear")
    for at, curve in enumerate(figure.curves):
        plotext.plot(
            list(figure.tokens),
            [one / unit for one in curve.bytes],
            marker=_mark(at),
            color=_COLOURS[at % len(_COLOURS)],
        )
    sequences = "1 sequence" if figure.batch == 1 else f"{figure.batch:,} sequences"
    plotext.title(f"Cache of {sequences} over T, sizes at T = {figure.context:,}")
    plotext.xlabel("T, tokens per sequence")
    plotext.ylabel(name)
    ticks = sorted({0, figure.context, figure.tokens[-1]})
    plotext.xticks(ticks, [format_count(one) for one in ticks])
    notes, high = [], top
    for line in figure.budgets:
        whose = f" of {line.name}" if line.name else ""
        shown = 0 < line.bytes <= top * _BUDGET_STRETCH
        if shown:
            plotext.hline(line.bytes / unit, _BUDGET_COLOUR)
            high = max(high, line.bytes)
        where = "the line at " if shown else "off the figure, " if line.bytes > 0 else ""
        notes.append(f"budget{whose}: {where}{format_bytes(line.bytes)}")
    heights = _steps(high / unit)
    plotext.ylim(0, heights[-1])
    plotext.yticks(heights, [f"{one:g}" for one in heights])
    text = plotext.build()
    plotext.clear_figure()
    text = text if colour else plotext.uncolorize(text)
    text = text.translate(_ASCII_FRAME) if plain else text
    legend = [
        f"{_mark(at)} {curve.name} {format_bytes(curve.bytes[asked])}"
        for at, curve in enumerate(figure.curves)
    ]
    lines = [one.rstrip() for one in text.splitlines()]
    return "\n".join((*lines, *_side_by_side(legend, width), *notes))


def _mark(at: int) -> str:
    return _MARKS[at % len(_MARKS)]


def _side_by_side(entries: list[str], width: int) -> list[str]:
    """Entries in columns, as many as ``width`` has room for."""
    wide = min(width, max(map(len, entries)) + 3)
    across = max(1, width // wide)
    rows = [entries[at : at + across] for at in range(0, len(entries), across)]
    return ["".join(f"{one:<{wide}}" for one in row).rstrip()[:width] for row in rows]


def _steps(top: float) -> list[float]:
    """Round values from 0 to just above ``top``, five or so."""
    rough = top / 5
    scale = 10 ** math.floor(math.log10(rough))
    step = next(one * scale for one in (1, 2, 2.5, 5, 10) if one * scale >= rough)
    return [step * at for at in range(math.ceil(top / step) + 1)]


def _plain_wanted() -> bool:
    """ASCII where KVTUI_ASCII says so, as on the screen, or stdout takes nothing else."""
    if os.environ.get("KVTUI_ASCII", "").lower() not in ("", "0", "false", "no", "off"):
        return True
    encoding = (getattr(sys.stdout, "encoding", None) or "utf8").lower().replace("-", "")
    return encoding != "utf8"


def _colour_wanted() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
