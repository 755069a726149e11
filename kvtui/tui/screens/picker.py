"""A searchable list: type to narrow, Enter takes."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from kvtui.tui.palette import ASCII, glyphs


class PickerScreen(ModalScreen[str | None]):
    """Gives the chosen name, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "close", id="close-picker", tooltip="Take nothing"),
        Binding("down", "move(1)", "down", id="picker-down", tooltip="Next name", show=False),
        Binding("up", "move(-1)", "up", id="picker-up", tooltip="Name before", show=False),
    ]

    def __init__(self, title: str, names: list[str]) -> None:
        """Offer ``names``."""
        super().__init__()
        self._title, self._names = title, names

    def compose(self) -> ComposeResult:
        """A search line over the list."""
        with Vertical(id="picker"):
            yield Input(placeholder=f"{self._title}: type to search")
            yield OptionList(*(Option(name, id=name) for name in self._names), markup=False)

    def on_mount(self) -> None:
        """Type at once."""
        self.set_class(glyphs() is ASCII, "ascii")
        self.query_one(Input).focus()

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        """Show the names that hold every word typed."""
        words = event.value.lower().split()
        listed = self.query_one(OptionList)
        listed.clear_options()
        listed.add_options(
            Option(name, id=name)
            for name in self._names
            if all(word in name.lower() for word in words)
        )
        listed.highlighted = 0 if listed.option_count else None

    @on(Input.Submitted)
    def take_highlighted(self) -> None:
        """Enter takes the highlighted name."""
        listed = self.query_one(OptionList)
        if listed.highlighted is not None:
            self.dismiss(listed.get_option_at_index(listed.highlighted).id)

    @on(OptionList.OptionSelected)
    def take_clicked(self, event: OptionList.OptionSelected) -> None:
        """A click takes the name."""
        self.dismiss(event.option.id)

    def action_move(self, by: int) -> None:
        """Move the highlight while the search line keeps the focus."""
        listed = self.query_one(OptionList)
        if listed.option_count:
            listed.highlighted = ((listed.highlighted or 0) + by) % listed.option_count
