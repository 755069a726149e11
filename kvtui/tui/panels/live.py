"""The live run: three figures beside their predictions, the growing cache, the latency strip.

Before any run it shows what ``r`` would run, and the curve that is predicted for it.
"""

from collections.abc import Callable
from typing import Final

from rich.text import Text

from kvtui.decode_run import DecodeRun
from kvtui.errors import KvtuiError
from kvtui.session.flags import flags, regime
from kvtui.session.live import Live
from kvtui.session.predictions import predicted_kv_bytes
from kvtui.tui.growth import growth_plot
from kvtui.tui.palette import BLUE, DIM, LABEL, ORANGE
from kvtui.tui.panels.base import LABEL_WIDTH, Panel, flow, wrapped
from kvtui.tui.plots import progress_bar
from kvtui.units import (
    format_bytes,
    format_count,
    format_ms,
    format_per_s,
    format_rate,
    format_share,
)

_MEASURED: Final = 27
"""Cells of the measured column, so that predictions stand in one line."""
_LEAST_PLOT: Final = 3
"""Rows below which a plot says nothing."""
_GOOD_PLOT: Final = 10
"""Rows a plot should have before flags get a line each."""


class LivePanel(Panel, can_focus=True):
    """Draws ``Live``; plots are kept between draws and renewed when asked."""

    def __init__(self, live: Live, wanted: Callable[[], DecodeRun]) -> None:
        """Show ``live``; ``wanted`` is the run that ``r`` would start, or raises why not."""
        super().__init__("live", id="live")
        self._live, self._wanted = live, wanted
        self._plot: list[Text] = []
        self._plot_of: tuple[object, int, int] = (None, 0, 0)
        self._preview_of: tuple[DecodeRun, int, int] | None = None
        self._previewed: list[Text] = []
        self._titled = "live"
        self.renew_plots = True
        """The next draw may renew the plots (at most twice a second)."""
        self.refused: str | None = None
        """Why the last ``r`` did not start a run."""

    @property
    def plot_is_stale(self) -> bool:
        """Records came since the plot was drawn."""
        return self._live.run is not None and self._plot_of[0] != self._plotted

    @property
    def _plotted(self) -> tuple[object, ...]:
        """What the plot shows: host and GPU readings do not change it."""
        live = self._live
        return live.number, live.steps, live.budget_bytes, live.limit_bytes_per_s

    def lines(self, width: int, height: int) -> list[Text]:
        """Figures, progress, plot, strips, and the words for all of it."""
        live = self._live
        self._say_which_run()
        refused = wrapped(f"! {self.refused}", width, ORANGE, most=4) if self.refused else []
        if live.run is None:
            return [*refused, *self._preview(width, height - len(refused))]
        head = [*refused, *self._figures(width), self._progress(width)]
        foot = self._words(width, brief=False)
        if height - len(head) - len(foot) < _GOOD_PLOT:
            foot = self._words(width, brief=True)
        # The last words (which kernel ran) give way to the curve.
        while len(foot) > 1 and height - len(head) - len(foot) < _LEAST_PLOT:
            foot.pop()
        room = height - len(head) - len(foot)
        if room < _LEAST_PLOT:
            return [*head, *foot]
        if self.renew_plots or self._plot_of[1:] != (width, room):
            self._plot = self.picture(live.run, width, room)
            self._plot_of = (self._plotted, width, room)
            self.renew_plots = False
        return [*head, *self._plot, *foot]

    def picture(self, run: DecodeRun, width: int, height: int) -> list[Text]:
        """The curves of ``run``, in ``height`` lines."""
        return growth_plot(run, self._live, width, height, self.glyphs)

    def _say_which_run(self) -> None:
        """The title names the run: the inputs may have moved on."""
        live = self._live
        title = "live"
        if live.run is not None:
            dot = self.glyphs.separator
            target = f"T to {format_count(live.run.target)}"
            parts = (f"live: run {live.number}", *self._shape(live.run), target, live.run.cache)
            title = dot.join(parts)
        if title != self._titled:
            self._titled = title
            self.entitle(title)

    def _shape(self, run: DecodeRun) -> tuple[str, str, str]:
        layers = sum(group.layers for group in run.groups) or self._live.layers
        return f"L {layers}", f"B {run.batch}", run.dtype

    def _preview(self, width: int, height: int) -> list[Text]:
        """What ``r`` would do, and the curve it should follow."""
        try:
            run = self._wanted()
        except KvtuiError as error:
            if self.refused:
                return []
            return wrapped(f"No live run of this: {error}", width, DIM, most=4)
        if self._preview_of == (run, width, height):
            return [line.copy() for line in self._previewed]
        start, target = format_count(run.start), format_count(run.target)
        low, high = predicted_kv_bytes(run, run.start), predicted_kv_bytes(run, run.target)
        found = [
            Text.assemble(("r", f"bold {BLUE}"), " decodes this shape on this machine:"),
            *flow("steps", [f"T {start} to {target}", *self._shape(run)], width),
            *flow(
                "cache",
                [f"{format_bytes(low)} to {format_bytes(high)}", "read whole at every step"],
                width,
            ),
        ]
        if height - len(found) > _LEAST_PLOT:
            found += [Text(), *growth_plot(run, None, width, height - len(found) - 1, self.glyphs)]
        self._preview_of = (run, width, height)
        self._previewed = [line.copy() for line in found]
        return found

    def _figures(self, width: int) -> list[Text]:
        live = self._live
        low, high = self.glyphs.at_least, self.glyphs.at_most
        filled = live.tokens > 0  # before the prompt is in, 0 equals 0 and says nothing
        held = live.held_kv_bytes if filled else None
        expected = live.predicted_kv_bytes if filled else None
        equal = "" if expected is None else ", DIFFERS"
        if filled and held == expected:
            equal = ", equal"
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
                f"limit {format_rate(live.limit_bytes_per_s)}",
            ),
            (
                "tokens/s",
                format_per_s(live.tokens_per_s),
                f"bound {high} {format_per_s(live.predicted_tokens_per_s)}",
            ),
            (
                "cache",
                f"{format_bytes(held)} held",
                f"predicted {format_bytes(expected)}{equal}",
            ),
        )
        at = _MEASURED if width >= _MEASURED + 30 else 0
        found = []
        for label, measured, predicted in rows:
            line = Text(no_wrap=True).append(f"{label:<{LABEL_WIDTH}}", LABEL)
            line.append(f"{measured:<{at}}  ", f"bold {BLUE}")
            found.append(line.append(predicted, DIM))
        weights = f", weights {format_rate(live.weight_bytes_per_s)}"
        if found[1].cell_len + len(weights) <= width:
            found[1].append(weights, DIM)
        return found

    def _progress(self, width: int) -> Text:
        live = self._live
        if live.run is None:
            return Text()
        left = live.seconds_left
        rest = f" {left:.0f} s left" if left is not None else f" {live.phase}"
        reached = f" {format_count(live.tokens)} of {format_count(live.run.target)}"
        bar = max(8, width - LABEL_WIDTH - len(reached) - max(len(rest), 11))
        line = Text(no_wrap=True).append(f"{'T':<{LABEL_WIDTH}}", LABEL)
        line.append_text(progress_bar(live.progress, bar, BLUE, self.glyphs))
        return line.append(reached).append(rest, DIM)

    def _words(self, width: int, *, brief: bool) -> list[Text]:
        """How it ended; what bounds it and why; flags, with their sentences or in brief by name."""
        live = self._live
        found: list[Text] = []
        if live.ended is not None:
            style = "bold" if live.ended.reason in ("target", "stopped") else f"bold {ORANGE}"
            text = f"{live.ended.reason.upper()}  {live.ended.sentence}"
            found += wrapped(text, width, style, most=3)
        if live.phase == "starting":
            stage = live.stage.detail if live.stage is not None else ""
            return wrapped(stage or "Starting the engine: importing torch.", width)
        if live.steps:
            word, sentence = regime(live)
            found += _remark(word, f"bold {ORANGE}", sentence, width)
            raised = [
                flag
                for flag in flags(live)
                if word != "cache-resident" or flag.name != "L2-RESIDENT"
            ]
            if brief and len(raised) > 1:
                names = "  ".join(flag.name for flag in raised)
                found.append(Text(names, ORANGE, no_wrap=True))
            else:
                for flag in raised:
                    found += _remark(flag.name, ORANGE, flag.sentence, width)
            ran = live.evidence.kernel if live.evidence and live.evidence.kernel else "not seen"
            backend = live.started.backend if live.started else ""
            found.append(Text(f"{backend}; ran {ran}", DIM, no_wrap=True))
        return found


def _remark(word: str, style: str, sentence: str, width: int) -> list[Text]:
    """A word for a state and its sentence, on two lines at most."""
    lines = wrapped(f"{word}  {sentence}", width, DIM, most=2)
    lines[0].stylize(f"not dim {style}", 0, len(word))
    return lines
