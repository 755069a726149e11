"""Asks for the name under which the question on screen is saved."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class NamingScreen(ModalScreen[str | None]):
    """Gives a name, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "close", id="close-naming", tooltip="Save nothing"),
    ]

    def compose(self) -> ComposeResult:
        """One line to type in."""
        with Vertical(id="naming"):
            yield Static("Save this question as a workload preset called:", markup=False)
            yield Input(placeholder="name, then Enter; Esc saves nothing")

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def take(self, event: Input.Submitted) -> None:
        """Enter takes the name; none saves nothing."""
        self.dismiss(event.value.strip() or None)
