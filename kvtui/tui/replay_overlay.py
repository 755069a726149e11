"""Two recordings in one plot: the one that plays, and the one it is held against.

The other is drawn whole; its figures are those it had at the length this one has reached. They are
told apart by their marks as well as by colour: this one solid, the other dotted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from kvtui.decode_run import DecodeRun
from kvtui.history import Extent, columns
from kvtui.session.comparison import Versus, shape, versus
from kvtui.session.live import Live, Sample
from kvtui.tui.growth import joined
from kvtui.tui.palette import BLUE, DIM, LABEL, ORANGE, Glyphs
from kvtui.tui.panels.base import LABEL_WIDTH, flow, pair
from kvtui.tui.plots import Curve, dot_columns, line_plot
from kvtui.tui.replay_panel import ReplayLivePanel
from kvtui.tui.replay_timeline import Timeline
from kvtui.units import NOT_AVAILABLE, format_bytes, format_count, format_ms

_AXIS: Final = LABEL_WIDTH + 1
_TABLE_ROWS: Final = 15
"""From this height the figures stand over the plots."""
_RATIO_ROWS: Final = 7
"""From this one their ratios do, in one line."""
_TWO_PLOTS: Final = 9
_VALUE: Final = 12


@dataclass(frozen=True, slots=True)
class Against:
    """The other recording, and how far the one that plays goes."""

    name: str
    timeline: Timeline
    own: Timeline

    @property
    def reached(self) -> int:
        """The longest cache of a sequence in either recording."""
        return max(self.timeline.end.tokens, self.own.end.tokens)


class OverlaidLivePanel(ReplayLivePanel):
    """The live panel of a replay that is held against another recording."""

    def __init__(self, live: Live, wanted: Callable[[], DecodeRun], against: Against) -> None:
        """Show ``live`` over ``against``."""
        super().__init__(live, wanted)
        self._against = against

    @property
    def _plotted(self) -> tuple[object, ...]:
        return (*super()._plotted, self._against.timeline.end.revision)

    def picture(self, run: DecodeRun, width: int, height: int) -> list[Text]:
        """Figures side by side where there is room, then both curves."""
        return overlay(self._live, self._against, run, width, height, self.glyphs)


def overlay(
    live: Live, against: Against, run: DecodeRun, width: int, height: int, glyphs: Glyphs
) -> list[Text]:
    """``height`` lines over the lengths of both runs."""
    other = against.timeline.end
    if height >= _TABLE_ROWS:
        found = _figures(live, against, width)
    else:
        found = _ratios(live, against, width) if height >= _RATIO_ROWS else []
    samples, others = list(live.samples), list(other.samples)
    low, high = _span(run, other.run, against.reached)
    plot_width = max(4, width - _AXIS)
    rows = height - len(found) - 2
    both = rows >= _TWO_PLOTS
    if both:
        bytes_rows = rows // 2
        found += _plot(
            samples, others, _held, (low, high), (plot_width, bytes_rows), glyphs, format_bytes
        )
        rows -= bytes_rows
    found += _plot(samples, others, _step_ms, (low, high), (plot_width, rows), glyphs, format_ms)
    what = "cache, then step time, over T" if both else "step time over T"
    axis = Text(no_wrap=True).append(f"{'T':>{LABEL_WIDTH}} {format_count(low)}", LABEL)
    end = format_count(high)
    axis.append(f"  {what}"[: max(0, width - axis.cell_len - len(end) - 1)], DIM)
    axis.pad_right(max(0, width - len(end) - axis.cell_len))
    return [*found, axis.append(end, LABEL), _legend(against, glyphs)]


def _held(sample: Sample) -> float:
    return float(sample.held_kv_bytes)


def _step_ms(sample: Sample) -> float:
    return sample.step_ms


def _figures(live: Live, against: Against, width: int) -> list[Text]:
    """A line a figure: this, the other at the same length, and how they compare."""
    other = against.timeline.at_length(live.tokens)
    head = Text(" " * LABEL_WIDTH, LABEL, no_wrap=True)
    head.append(f"{'this':>{_VALUE}}", f"bold {BLUE}").append(f"{'against':>{_VALUE}}", ORANGE)
    head.append(f"{'ratio':>8}", LABEL)
    head.append(f"  at T = {format_count(other.tokens)} of it", DIM)
    lines = [head]
    for one in versus(live, other):
        line = Text(no_wrap=True).append(f"{one.name:<{LABEL_WIDTH}}", LABEL)
        line.append(f"{one.this:>{_VALUE}}", f"bold {BLUE}").append(f"{one.other:>{_VALUE}}")
        lines.append(line.append(f"{_ratio(one):>8}"))
    for line in lines:
        line.truncate(width)
    return lines


def _ratios(live: Live, against: Against, width: int) -> list[Text]:
    """This over the other, in as much of one line as fits."""
    found = versus(live, against.timeline.at_length(live.tokens))
    return flow("ratio", [pair(one.name, _ratio(one)) for one in found], width)[:1]


def _ratio(one: Versus) -> str:
    return NOT_AVAILABLE if one.ratio is None else f"{one.ratio:.3f}"


def _legend(against: Against, glyphs: Glyphs) -> Text:
    """Which mark is which, and what the other run was."""
    line = Text(no_wrap=True).append(f"{'⠒⠒⠒' if glyphs.braille else '###'} this", BLUE)
    line.append(f"  {'⠒ ⠒' if glyphs.braille else 'x x'} against {against.name}", ORANGE)
    timeline = against.timeline
    if timeline.complete:
        words = glyphs.separator.join(shape(timeline.end))
    else:
        words = f"reading {timeline.share:.0%}"
    return line.append(f"  {words}", DIM)


def _span(run: DecodeRun, other: DecodeRun | None, reached: int) -> tuple[int, int]:
    """From the shorter start to where either recording ends; targets never reached are left out."""
    low = run.start if other is None else min(run.start, other.start)
    return low, max(low + 1, reached)


def _plot(
    samples: Sequence[Sample],
    others: Sequence[Sample],
    value: Callable[[Sample], float],
    span: tuple[int, int],
    size: tuple[int, int],
    glyphs: Glyphs,
    shown: Callable[[float], str],
) -> list[Text]:
    """Both series on one scale from 0."""
    width, height = size
    if height < 1:
        return []
    top = max((value(one) for one in (*samples, *others)), default=0.0)
    dots = dot_columns(width, glyphs)

    def extents(series: Sequence[Sample]) -> list[Extent]:
        points = [(float(one.tokens), value(one)) for one in series]
        return columns(points, dots, float(span[0]), float(span[1]))

    mine, theirs = joined(extents(samples)), joined(extents(others))
    curves = [
        Curve(mine, BLUE, mark="#"),
        Curve(theirs, ORANGE, every=3 if glyphs.braille else 2, mark="x"),
    ]
    lines = line_plot(curves, width, height, 0.0, top, glyphs)
    labels = {height - 1: "0", 0: shown(top) if top else ""}
    return [
        Text(no_wrap=True).append(f"{labels.get(row, ''):>{LABEL_WIDTH}} ", LABEL).append_text(line)
        for row, line in enumerate(lines)
    ]
