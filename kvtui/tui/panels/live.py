"""The live run: three figures beside their predictions, the growing cache, the latency strip."""

from rich.text import Text

from kvtui.history import Extent, columns
from kvtui.session.flags import flags, regime
from kvtui.session.live import Live, predicted_kv_bytes
from kvtui.tui.palette import BLUE, DIM, LABEL, ORANGE
from kvtui.tui.panels.base import Panel, wrapped
from kvtui.tui.plots import Curve, dot_columns, line_plot, progress_bar, strip
from kvtui.units import (
    format_bytes,
    format_count,
    format_ms,
    format_per_s,
    format_rate,
    format_share,
)

_AXIS = 10
"""Cells left of a plot for its labels."""
_LEAST_PLOT = 3
"""Rows below which a plot says nothing."""


class LivePanel(Panel, can_focus=True):
    """Draws ``Live``; plots are kept between draws and renewed when asked."""

    def __init__(self, live: Live) -> None:
        """Show ``live``."""
        super().__init__("live", id="live")
        self._live = live
        self._plot: list[Text] = []
        self._plot_of: tuple[int, int, int] = (-1, 0, 0)
        self.renew_plots = True
        """The next draw may renew the plots (at most twice a second)."""
        self.refused: str | None = None
        """Why the last ``r`` did not start a run."""

    def lines(self, width: int, height: int) -> list[Text]:
        """Figures, progress, plot, strip, and the words for all of it."""
        live = self._live
        if self.refused is not None:
            found = wrapped(f"! {self.refused}", width, ORANGE, most=4)
            return [*found, Text(), *(self._figures(width) if live.steps else self._idle(width))]
        if live.phase == "idle":
            return self._idle(width)
        head = [*self._figures(width), self._progress(width)]
        foot = self._words(width)
        # The last words (which kernel ran) give way to the curve.
        while len(foot) > 2 and height - len(head) - len(foot) < _LEAST_PLOT:
            foot.pop()
        room = height - len(head) - len(foot)
        if room >= _LEAST_PLOT and live.run is not None:
            if self.renew_plots or self._plot_of[1:] != (width, room):
                self._plot = self._draw_plot(width, room)
                self._plot_of = (live.revision, width, room)
                self.renew_plots = False
            return [*head, *self._plot, *foot]
        return [*head, *foot]

    def _idle(self, width: int) -> list[Text]:
        return [
            Text("No run yet.", no_wrap=True),
            Text(),
            *wrapped(
                "r runs a real decode loop with the shapes on the left and grows their cache "
                "on this machine, step by step, up to T.",
                width,
                DIM,
            ),
        ]

    def _figures(self, width: int) -> list[Text]:
        live = self._live
        low, high = self.glyphs.at_least, self.glyphs.at_most
        rows = (
            (
                "step",
                f"{format_ms(live.step_ms)} p50  {format_ms(live.step_percentile_ms(99))} p99",
                f"floor {low} {format_ms(live.predicted_step_ms)}",
            ),
            (
                "KV read",
                (
                    f"{format_rate(live.achieved_bytes_per_s)}  "
                    f"{format_share(live.share_of_limit)} of limit"
                ),
                (
                    f"limit {format_rate(live.limit_bytes_per_s)}, weights "
                    f"{format_rate(live.weight_bytes_per_s)}"
                ),
            ),
            (
                "tokens/s",
                format_per_s(live.tokens_per_s),
                f"bound {high} {format_per_s(live.predicted_tokens_per_s)}",
            ),
            (
                "cache",
                f"{format_bytes(live.held_kv_bytes)} held",
                f"predicted {format_bytes(live.predicted_kv_bytes)}"
                + (", equal" if live.held_kv_bytes == live.predicted_kv_bytes else ", DIFFERS"),
            ),
        )
        found = []
        for label, measured, predicted in rows:
            line = Text(no_wrap=True).append(f"{label:<{_AXIS - 1}}", LABEL)
            line.append(f"{measured:<{max(26, width // 2 - _AXIS)}} ", f"bold {BLUE}")
            line.append(predicted, DIM)
            found.append(line)
        return found

    def _progress(self, width: int) -> Text:
        live = self._live
        if live.run is None:
            return Text()
        label = f"T {format_count(live.tokens)} of {format_count(live.run.target)} "
        left = live.seconds_left
        rest = f" {left:.0f} s left" if left is not None else f" {live.phase}"
        bar = max(8, width - len(label) - len(rest) - 1)
        line = Text(no_wrap=True).append(label, LABEL)
        line.append_text(progress_bar(live.progress, bar, BLUE, self.glyphs))
        return line.append(rest, DIM)

    def _words(self, width: int) -> list[Text]:
        """Regime and flags while it runs; stage before; the ending afterwards."""
        live = self._live
        found: list[Text] = []
        if live.phase == "starting" and live.stage is not None:
            return wrapped(live.stage.detail, width, DIM)
        if live.phase == "starting":
            return [Text("Starting the engine (importing torch).", DIM, no_wrap=True)]
        if live.steps:
            word, sentence = regime(live)
            line = Text(no_wrap=True).append(word, f"bold {ORANGE}")
            line.append(f"  {sentence}", DIM)
            found.append(line)
            found += [
                Text.assemble((flag.name, ORANGE), (f"  {flag.sentence}", DIM), no_wrap=True)
                for flag in flags(live)
                if word != "cache-resident" or flag.name != "L2-RESIDENT"
            ]
            ran = live.evidence.kernel if live.evidence and live.evidence.kernel else "not seen"
            backend = live.started.backend if live.started else ""
            found.append(Text(f"{backend}; ran {ran}", DIM, no_wrap=True))
        if live.ended is not None:
            style = "bold" if live.ended.reason in ("target", "stopped") else f"bold {ORANGE}"
            text = f"{live.ended.reason.upper()}  {live.ended.sentence}"
            found = [*wrapped(text, width, style, most=3), *found]
        return found

    def _draw_plot(self, width: int, height: int) -> list[Text]:
        """Cache over tokens with prediction and budget, and under it the latency strip."""
        live = self._live
        run = live.run
        assert run is not None
        strips = 1 if height >= 4 else 0
        axes = 1 if height >= 6 else 0
        plot_height, plot_width = height - strips - axes, max(4, width - _AXIS)
        dots = dot_columns(plot_width, self.glyphs)
        first, last = float(run.start), float(run.target)
        samples = list(live.samples)
        positions = [
            round(first + (last - first) * column / max(1, dots - 1)) for column in range(dots)
        ]
        predicted = [float(predicted_kv_bytes(run, position)) for position in positions]
        top = max(predicted)
        curves = [Curve([Extent(value, value) for value in predicted], DIM)]
        budget = live.budget_bytes
        on_scale = budget is not None and budget <= 2.5 * top
        if budget is not None and on_scale:
            top = max(top, float(budget))
            line = Extent(float(budget), float(budget))
            curves.append(
                Curve([line if x % 3 else Extent(None, None) for x in range(dots)], ORANGE)
            )
        held = columns([(s.tokens, s.held_kv_bytes) for s in samples], dots, first, last)
        curves.append(Curve(_joined(held), f"bold {BLUE}"))
        found = []
        plotted = line_plot(curves, plot_width, plot_height, 0.0, top * 1.02, self.glyphs)
        for row, line_text in enumerate(plotted):
            label = format_bytes(top) if row == 0 else "0" if row == plot_height - 1 else ""
            labelled = Text(no_wrap=True).append(f"{label:>{_AXIS - 1}} ", LABEL)
            found.append(labelled.append_text(line_text))
        if strips:
            times = columns([(s.tokens, s.step_ms) for s in samples], plot_width, first, last)
            highs = [one.high for one in times if one.high is not None]
            high = max(highs, default=0.0)
            label = format_ms(high) if highs else "step"
            row_text = Text(no_wrap=True).append(f"{label:>{_AXIS - 1}} ", LABEL)
            found.append(row_text.append_text(strip(times, 0.0, high, BLUE, self.glyphs)))
        if not axes:
            return found
        axis = f"T {format_count(run.start)}"
        end = format_count(run.target)
        legend = " cache held on predicted"
        if budget is not None:
            legend += ", budget dashed " if on_scale else f", budget {format_bytes(budget)} above "
        middle = legend.center(max(0, plot_width - len(axis) - len(end)))
        found.append(Text(f"{'':<{_AXIS}}{axis}{middle}{end}", DIM, no_wrap=True))
        return found


def _joined(extents: list[Extent]) -> list[Extent]:
    """Columns between two samples filled with the earlier one: a step record spans tokens."""
    known = [index for index, one in enumerate(extents) if one.high is not None]
    if not known:
        return extents
    found = list(extents)
    for index in range(known[0], known[-1] + 1):
        if found[index].high is None:
            found[index] = found[index - 1]
    return found
