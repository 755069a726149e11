"""The picture of a run: cache over tokens with prediction and budget, step time and rate below.

Draws what the session knows and computes nothing but scales. Series are reduced to one extent a
column before they are drawn, whatever the length of the run.
"""

from functools import lru_cache
from typing import Final

from rich.text import Text

from kvtui.decode_run import DecodeRun
from kvtui.history import Extent, columns
from kvtui.session.live import Live
from kvtui.session.predictions import predicted_kv_bytes
from kvtui.tui.palette import BLUE, DIM, LABEL, ORANGE, Glyphs
from kvtui.tui.panels.base import LABEL_WIDTH
from kvtui.tui.plots import Curve, dot_columns, line_plot, row_of, strip
from kvtui.units import format_bytes, format_count, format_ms, format_rate

_ON_SCALE: Final = 2.5
"""A budget beyond this many times the curve is named, not drawn: it would flatten the curve."""
_AXIS: Final = LABEL_WIDTH + 1
"""Cells left of a plot for its labels."""


def growth_plot(
    run: DecodeRun, live: Live | None, width: int, height: int, glyphs: Glyphs
) -> list[Text]:
    """``height`` lines; without ``live`` the prediction alone."""
    strips = _strips(live, width, height) if live is not None and live.steps else []
    each = 2 if height >= 12 else 1
    axis = 1 if height >= 5 else 0
    plot_height = height - axis - each * len(strips)
    plot_width = max(4, width - _AXIS)
    found = _curve(run, live, plot_width, plot_height, glyphs)
    if axis:
        found.append(_axis_line(run, live, plot_width, glyphs))
    first, last = float(run.start), float(run.target)
    for name, series, top, shown in strips:
        extents = columns(series, plot_width, first, last)
        labels = (name,) if each == 1 else (shown, name)
        lines = strip(joined(extents), 0.0, top, BLUE, glyphs, each)
        found += [_labelled(label, line) for label, line in zip(labels, lines, strict=True)]
    return found


def _strips(
    live: Live, width: int, height: int
) -> list[tuple[str, list[tuple[float, float]], float, str]]:
    """Name, series, top of the scale and its text, of the strips there is room for.

    Step times reach up to the slowest, rates up to the measured limit: their height is the share.
    """
    samples = list(live.samples)
    times = [(float(one.tokens), one.step_ms) for one in samples]
    slowest = max((value for _, value in times), default=0.0)
    found = [("step", times, slowest, format_ms(slowest))]
    limit = live.limit_bytes_per_s
    if limit is not None and height >= 10 and width >= 40:
        rates = [(float(one.tokens), one.kv_bytes_per_s) for one in samples]
        found.append(("of limit", rates, limit, format_rate(limit)))
    return found if height >= 5 else []


def _curve(
    run: DecodeRun, live: Live | None, width: int, height: int, glyphs: Glyphs
) -> list[Text]:
    dots = dot_columns(width, glyphs)
    first, last = float(run.start), float(run.target)
    predicted = _predicted(run, dots) if run.groups else ()
    top = max(predicted, default=float(live.held_kv_bytes) if live is not None else 0.0)
    budget = live.budget_bytes if live is not None else None
    curves = []
    if budget is not None and budget <= _ON_SCALE * top:
        top = max(top, float(budget))
        level = Extent(float(budget), float(budget))
        curves.append(Curve([level] * dots, ORANGE, every=3, mark="-"))
    if predicted:
        curves.append(Curve([Extent(one, one) for one in predicted], DIM, every=2, mark="."))
    if live is not None and live.samples:
        held = columns([(one.tokens, one.held_kv_bytes) for one in live.samples], dots, first, last)
        curves.append(Curve(joined(held), BLUE, filled=True, mark="#"))
    labels = {height - 1: "0", 0: format_bytes(top)}
    if height >= 7:
        labels[row_of(top / 2, 0.0, top, height, glyphs)] = format_bytes(top / 2)
    plotted = line_plot(curves, width, height, 0.0, top, glyphs)
    return [_labelled(labels.get(row, ""), line) for row, line in enumerate(plotted)]


@lru_cache(maxsize=4)
def _predicted(run: DecodeRun, dots: int) -> tuple[float, ...]:
    """The predicted bytes at each dot column; the same for every redraw of one run."""
    way = (run.target - run.start) / max(1, dots - 1)
    return tuple(
        float(predicted_kv_bytes(run, round(run.start + way * column))) for column in range(dots)
    )


def _axis_line(run: DecodeRun, live: Live | None, width: int, glyphs: Glyphs) -> Text:
    """The ends of the axis, and which line is which as far as it fits."""
    start, end = format_count(run.start), format_count(run.target)
    pieces = []
    if live is not None and live.samples:
        pieces.append(Text(f"{glyphs.full} held", BLUE))
    if run.groups:
        pieces.append(Text(f"{'⠒⠒' if glyphs.braille else '..'} predicted", DIM))
    budget = live.budget_bytes if live is not None else None
    if budget is not None:
        named = f"budget {format_bytes(budget)}"
        if budget <= _ON_SCALE * predicted_kv_bytes(run, run.target):
            pieces.append(Text(f"{'⠒ ⠒' if glyphs.braille else '- -'} {named}", ORANGE))
        else:
            pieces.append(Text(f"{named} above", DIM))
    room = width - len(start) - len(end) - 2
    while pieces and sum(one.cell_len + 2 for one in pieces) > room:
        pieces.pop()
    legend = Text("  ").join(pieces)
    line = Text(no_wrap=True).append(f"{'T':>{LABEL_WIDTH}} {start}", LABEL)
    line.append(" " * (1 + max(0, (room - legend.cell_len) // 2))).append_text(legend)
    line.pad_right(max(0, _AXIS + width - len(end) - line.cell_len))
    return line.append(end, LABEL)


def _labelled(label: str, line: Text) -> Text:
    return Text(no_wrap=True).append(f"{label:>{LABEL_WIDTH}} ", LABEL).append_text(line)


def joined(extents: list[Extent]) -> list[Extent]:
    """Columns between two samples filled with the earlier one: a step record spans tokens."""
    known = [index for index, one in enumerate(extents) if one.high is not None]
    if not known:
        return extents
    found = list(extents)
    for index in range(known[0], known[-1] + 1):
        if found[index].high is None:
            found[index] = found[index - 1]
    return found
