"""One key from the payload: the same question under other kinds, formats and engines."""

from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Static

from kvtui.compare import Comparison, Figure, compared, figure
from kvtui.errors import KvtuiError
from kvtui.runtimes import Reservation, reservations
from kvtui.spec import Scenario
from kvtui.tui.palette import ASCII, BLUE, DIM, glyphs, plain
from kvtui.tui.panels.comparison import CurvePanel, EnginesPanel, RowsPanel, VariantsPanel

_FULL_WIDTH, _FULL_HEIGHT = 100, 28
"""From here all three panels stand together; below one at a time."""


class ComparisonScreen(Screen[None]):
    """Made once from the question that was on screen; the dashboard waits behind it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,c,4,q", "dismiss", "back", id="close-comparison",
                tooltip="Back to the dashboard"),
        Binding("tab", "turn(1)", "next panel", id="comparison-next", tooltip="Next panel"),
        Binding("shift+tab", "turn(-1)", "panel before", id="comparison-previous",
                tooltip="Panel before"),
    ]  # fmt: skip

    def __init__(self, scenario: Scenario) -> None:
        """Compare around ``scenario``."""
        super().__init__()
        self._scenario = scenario
        self.variants, self.engines, self.curve = VariantsPanel(), EnginesPanel(), CurvePanel()
        self._figure: Figure | None = None

    def compose(self) -> ComposeResult:
        """Variants above, engines and the curve below."""
        yield Static(id="comparison-header", markup=False)
        yield self.variants
        with Horizontal(id="comparison-below"):
            yield self.engines
            yield self.curve
        yield Static(id="comparison-footer", markup=False)

    def on_mount(self) -> None:
        """Show the frame at once; the rows follow."""
        workload = self._scenario.workload
        header = Text(f" {self._scenario.model.name}", "bold", no_wrap=True)
        asked = (
            f" · {workload.batch:,} × {workload.longest:,} tokens · {self._scenario.device.name}"
        )
        self.set_class(glyphs() is ASCII, "ascii")
        header.append(asked, DIM)
        shown = plain(header) if glyphs() is ASCII else header
        self.query_one("#comparison-header", Static).update(shown)
        footer = Text(no_wrap=True)
        for key, meaning in (("arrows", "row"), ("tab", "panel"), ("c", "back")):
            footer.append(f" {key}", BLUE).append(f" {meaning} ")
        self.query_one("#comparison-footer", Static).update(footer)
        self.variants.focus()
        self._compare()

    @work(thread=True, exclusive=True)
    def _compare(self) -> None:
        """Dozens of sizings: too many for one frame."""
        try:
            found = compared((self._scenario,))
            self.app.call_from_thread(
                self._show, found, figure(found), reservations(self._scenario)
            )
        except KvtuiError as error:
            self.app.call_from_thread(self._refuse, str(error))

    def _show(self, found: Comparison, drawn: Figure, engines: tuple[Reservation, ...]) -> None:
        self._figure = drawn
        self.variants.show(found)
        self.engines.show(engines)
        self.curve.show(drawn, self.variants.at)

    def _refuse(self, sentence: str) -> None:
        self.query_one("#comparison-header", Static).update(Text(f" {sentence}", "bold"))

    def on_resize(self) -> None:
        """All panels where there is room, else the one with the focus."""
        full = self.size.width >= _FULL_WIDTH and self.size.height >= _FULL_HEIGHT
        self.set_class(not full, "one")
        self._reveal()

    def on_descendant_focus(self) -> None:
        """Show what has the focus."""
        self._reveal()

    @on(RowsPanel.Walked)
    def _follow(self) -> None:
        """The curve of the row under the cursor."""
        if self._figure is not None:
            self.curve.show(self._figure, self.variants.at)

    def action_turn(self, by: int) -> None:
        """Focus the next panel."""
        panels = (self.variants, self.engines, self.curve)
        at = next((index for index, one in enumerate(panels) if one.has_focus), 0)
        target = panels[(at + by) % len(panels)]
        if self.has_class("one"):
            for one in panels:
                one.display = one is target
            self.query_one("#comparison-below").display = target is not self.variants
        target.focus()

    def _reveal(self) -> None:
        panels = (self.variants, self.engines, self.curve)
        chosen = next((one for one in panels if one.has_focus), self.variants)
        one = self.has_class("one")
        for panel in panels:
            panel.display = not one or panel is chosen
        self.query_one("#comparison-below").display = not one or chosen is not self.variants
