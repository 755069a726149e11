"""One page of help: the keys of this screen and what its figures mean."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from kvtui.tui.bindings import EDITING, FIGURES, LIVE_KEYS, Keys, shown_key
from kvtui.tui.palette import ASCII, BLUE, DIM, glyphs


class HelpScreen(ModalScreen[None]):
    """Any of the usual keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter,f1", "dismiss", "close", id="close-help",
                tooltip="Close the help"),
    ]  # fmt: skip

    def __init__(self, keys: Keys = LIVE_KEYS) -> None:
        """Explain ``keys``."""
        super().__init__()
        self._keys = keys

    def on_mount(self) -> None:
        """Borders of the kind that the panels have."""
        self.set_class(glyphs() is ASCII, "ascii")

    def compose(self) -> ComposeResult:
        """A scrolling page."""
        with VerticalScroll(id="page"):
            yield Static(help_text(self._keys), markup=False)


def help_text(keys: Keys = LIVE_KEYS) -> Text:
    """Keys, editing, figures."""
    text = Text()
    text.append("KEYS\n", "bold")
    for binding in keys.bindings:
        if not binding.show:
            continue
        text.append(f"  {shown_key(binding):<10}", BLUE)
        text.append(f"{binding.tooltip}\n")
    text.append("\nFIELDS\n", "bold")
    for key, meaning in EDITING:
        text.append(f"  {key:<10}", BLUE)
        text.append(f"{meaning}\n")
    text.append("\nFIGURES\n", "bold")
    for label, meaning in FIGURES:
        text.append(f"  {label:<16}", BLUE)
        text.append(f"{meaning}\n")
    text.append(
        "\nBlue is measured or yours, orange asks for attention; a word says the same.", DIM
    )
    return text
