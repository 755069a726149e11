"""The same question otherwise: variants side by side, engines side by side, bytes over T.

Three panels over one comparison that is made elsewhere; a cursor walks the rows, and what the row
under it costs stands below them.
"""

from collections.abc import Sequence
from typing import Final

from rich.text import Text
from textual import events
from textual.message import Message

from kvtui.compare import Comparison, Figure
from kvtui.history import Extent
from kvtui.runtimes import Reservation
from kvtui.tui.palette import BLUE, CURSOR, DIM, LABEL, ORANGE
from kvtui.tui.panels.base import LABEL_WIDTH, Panel, wrapped
from kvtui.tui.plots import Curve, dot_columns, line_plot, row_of
from kvtui.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_ms,
    format_share,
)

_GAP: Final = 2
_NOTES: Final = 6
"""Lines below a table for the row under the cursor, at most."""


class RowsPanel(Panel, can_focus=True):
    """A table with a cursor, and notes on the row under it."""

    class Walked(Message):
        """The cursor stands on another row."""

    def __init__(self, title: str, *, id: str) -> None:  # noqa: A002  # Textual's own name
        """Start at the first row."""
        super().__init__(title, id=id)
        self.at = 0

    def on_key(self, event: events.Key) -> None:
        """Walk the rows."""
        step = {"up": -1, "k": -1, "down": 1, "j": 1}.get(event.key)
        if step is None or not self.rows():
            return
        event.stop()
        event.prevent_default()
        self.at = (self.at + step) % len(self.rows())
        self.update()
        self.post_message(self.Walked())

    def on_focus(self) -> None:
        """Show the cursor."""
        self.update()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.update()

    def rows(self) -> list[tuple[str, ...]]:
        """Cells of each row under ``header``."""
        return []

    def header(self) -> tuple[str, ...]:
        """Names of the columns."""
        return ()

    def styles_of(self, row: int) -> str:
        """How a row is drawn."""
        del row
        return ""

    def notes(self) -> str:
        """What is said of the row under the cursor."""
        return ""

    def lines(self, width: int, height: int) -> list[Text]:
        """Header, as many rows as there is room for around the cursor, notes."""
        rows = self.rows()
        if not rows:
            return wrapped("Nothing to compare yet.", width)
        notes = min(_NOTES, max(0, height - len(rows) - 1)) or (2 if height > 6 else 0)
        room = max(1, height - 1 - notes)
        first = min(max(0, self.at - room + 1), max(0, len(rows) - room))
        table = _aligned((self.header(), *rows), width)
        found = [Text(table[0], LABEL, no_wrap=True)]
        for index in range(first, min(len(rows), first + room)):
            here = self.has_focus and index == self.at
            style = CURSOR if here else self.styles_of(index)
            found.append(Text(table[index + 1], style, no_wrap=True))
        if notes:
            found += wrapped(self.notes(), width, DIM, most=notes)
        return found


class VariantsPanel(RowsPanel):
    """Kinds, formats and layouts of the same workload."""

    def __init__(self) -> None:
        """Empty until ``show``."""
        super().__init__("the same workload otherwise", id="variants")
        self._comparison: Comparison | None = None

    def show(self, comparison: Comparison) -> None:
        """Set the rows."""
        self._comparison = comparison
        asked = (index for index, row in enumerate(comparison.rows) if row.asked)
        self.at = next(asked, 0)
        self.update()

    def header(self) -> tuple[str, ...]:
        """Columns, the most asked for first: narrow screens lose the last ones."""
        return ("variant", "bytes", "share", "max B", "max T", "step floor", "verdict", "per token")

    def rows(self) -> list[tuple[str, ...]]:
        """One a variant; ``>`` marks the question as asked."""
        if self._comparison is None:
            return []
        return [
            (
                f"{'>' if row.asked else ' '} {row.name}",
                format_bytes(row.bytes),
                format_share(row.share),
                format_count(row.max_batch),
                format_count(row.max_context),
                format_ms(row.step_ms),
                (row.verdict or "").upper(),
                format_bytes(row.bytes_per_token),
            )
            for row in self._comparison.rows
        ]

    def styles_of(self, row: int) -> str:
        """What does not fit in orange; the word says the same."""
        assert self._comparison is not None
        verdict = self._comparison.rows[row].verdict
        return {"over": f"bold {ORANGE}", "tight": ORANGE}.get(verdict or "", "")

    def notes(self) -> str:
        """What the variant costs in quality or complexity."""
        assert self._comparison is not None
        row = self._comparison.rows[self.at]
        assumed = f" Assumed: {row.assumes}." if row.assumes else ""
        return f"{row.name}: {row.price}.{assumed}"


class EnginesPanel(RowsPanel):
    """What each engine would reserve for the same question."""

    def __init__(self) -> None:
        """Empty until ``show``."""
        super().__init__("engines: what each would reserve", id="engines")
        self._reservations: tuple[Reservation, ...] = ()

    def show(self, reservations: tuple[Reservation, ...]) -> None:
        """Set the rows."""
        self._reservations, self.at = reservations, 0
        self.update()

    def header(self) -> tuple[str, ...]:
        """Columns, the most asked for first; ``at once`` are sequences of the longest length."""
        return ("engine", "reserves", "over ideal", "tokens", "at once", "version")

    def rows(self) -> list[tuple[str, ...]]:
        """One an engine."""
        return [
            (
                one.runtime,
                format_bytes(one.bytes),
                _signed(one.more_bytes),
                format_count(one.pool.tokens),
                NOT_AVAILABLE if one.pool.concurrency is None else f"{one.pool.concurrency:,.1f}",
                one.version,
            )
            for one in self._reservations
        ]

    def notes(self) -> str:
        """Each difference to the ideal, what its share of memory means, and what it would log."""
        one = self._reservations[self.at]
        why = "; ".join(map(str, one.differences)) or "nothing beside the ideal"
        share = f"Its share: {one.share_of}." if one.share_of else ""
        noted = " ".join(f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in one.notes)
        logged = " ".join(f"It would log: {line}." for line in one.pool.log)
        return " ".join(part for part in (f"{one.runtime}: {why}.", share, noted, logged) if part)


class CurvePanel(Panel, can_focus=True):
    """Bytes over T: the question as asked, all variants dim, the budget as a line."""

    def __init__(self) -> None:
        """Empty until ``show``."""
        super().__init__("bytes over T, and the budget", id="curve")
        self._figure: Figure | None = None
        self._at = 0

    def show(self, figure: Figure, at: int = 0) -> None:
        """Set the curves; ``at`` is the one drawn in full."""
        self._figure, self._at = figure, at
        self.update()

    def lines(self, width: int, height: int) -> list[Text]:
        """The plot with its axis."""
        figure = self._figure
        if figure is None or height < 3 or width < LABEL_WIDTH + 8:
            return []
        plot_width, plot_height = width - LABEL_WIDTH - 1, height - 2
        dots = dot_columns(plot_width, self.glyphs)
        chosen = figure.curves[min(self._at, len(figure.curves) - 1)]
        budget = next((one.bytes for one in figure.budgets if one.name in ("", chosen.name)), None)
        top = float(max(chosen.bytes[-1], 1))
        if budget is not None and 0 < budget <= 2 * top:
            top = max(top, budget * 1.05)
        curves = [
            Curve(_below(_extents(figure.tokens, one.bytes, dots), top), DIM, every=2, mark=".")
            for one in figure.curves
            if one is not chosen
        ]
        if budget is not None and 0 <= budget <= top:
            level = Extent(float(budget), float(budget))
            curves.append(Curve([level] * dots, ORANGE, every=3, mark="-"))
        curves.append(Curve(_extents(figure.tokens, chosen.bytes, dots), BLUE, mark="#"))
        labels = {0: format_bytes(top), plot_height - 1: "0"}
        if budget is not None and 0 < budget < top:
            labels[row_of(float(budget), 0.0, top, plot_height, self.glyphs)] = format_bytes(budget)
        plotted = line_plot(curves, plot_width, plot_height, 0.0, top, self.glyphs)
        found = [
            Text(f"{labels.get(row, ''):>{LABEL_WIDTH}} ", LABEL, no_wrap=True).append_text(line)
            for row, line in enumerate(plotted)
        ]
        found.append(_axis(figure, width))
        found.append(self._legend(chosen.name, budget, top))
        return found

    def _legend(self, name: str, budget: int | None, top: float) -> Text:
        legend = Text(" " * (LABEL_WIDTH + 1), no_wrap=True)
        braille = self.glyphs.braille
        legend.append(f"{'⠒⠒' if braille else '##'} {name}", BLUE)
        legend.append(f"  {'⠂⠂' if braille else '..'} the others", DIM)
        if budget is not None:
            above = "" if budget <= top else " above"
            dashes = "⠒ ⠒" if braille else "- -"
            legend.append(f"  {dashes} budget {format_bytes(budget)}{above}", ORANGE)
        return legend


def _extents(tokens: Sequence[int], held: Sequence[int], dots: int) -> list[Extent]:
    """A straight line between neighbouring points, one value a column of dots."""
    found, right, at = [], tokens[-1], 0
    for column in range(dots):
        where = right * column / max(1, dots - 1)
        while at + 2 < len(tokens) and tokens[at + 1] < where:
            at += 1
        width = tokens[at + 1] - tokens[at] if len(tokens) > 1 else 1
        share = (where - tokens[at]) / max(1, width)
        last = held[min(at + 1, len(held) - 1)]
        value = held[at] + (last - held[at]) * share
        found.append(Extent(value, value))
    return found


def _below(extents: list[Extent], top: float) -> list[Extent]:
    """Gaps above ``top``: clipped lines would crowd its edge."""
    return [
        one if one.high is not None and one.high <= top else Extent(None, None) for one in extents
    ]


def _axis(figure: Figure, width: int) -> Text:
    start, end = "T 0", format_count(figure.tokens[-1])
    asked = f"asked {figure.context:,}" if figure.context != figure.tokens[-1] else ""
    room = width - LABEL_WIDTH - 1 - len(start) - len(end)
    line = Text(" " * (LABEL_WIDTH + 1), LABEL, no_wrap=True)
    return line.append(start).append(f"{asked:^{max(0, room)}}").append(end)


def _aligned(rows: Sequence[tuple[str, ...]], width: int) -> list[str]:
    """Cells in columns, the first to the left, the others to the right, as many as fit."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    used, columns = widths[0], 1
    for one in widths[1:]:
        if used + _GAP + one > width:
            break
        used, columns = used + _GAP + one, columns + 1
    return [
        row[0].ljust(widths[0])
        + "".join(" " * _GAP + row[at].rjust(widths[at]) for at in range(1, columns))
        for row in rows
    ]


def _signed(size: int) -> str:
    return f"+{format_bytes(size)}" if size >= 0 else format_bytes(size)
