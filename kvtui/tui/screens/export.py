"""The choice of what to write: a picture of the screen, or its data in one of three forms."""

from dataclasses import dataclass
from typing import ClassVar, Final

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from kvtui.tui.palette import ASCII, BLUE, glyphs


@dataclass(frozen=True, slots=True)
class Form:
    """One form of an export."""

    name: str
    key: str
    meaning: str


FORMS: Final = (
    Form("svg", "s", "SVG: the screen as it stands, as a picture"),
    Form("csv", "c", "CSV: the run's curve, or the answer's figures before any run"),
    Form("json", "j", "JSON: answer, run, curve and memory, everything"),
    Form("markdown", "m", "Markdown: tables for a page or an issue"),
)


class ExportScreen(ModalScreen[str | None]):
    """Gives the name of a form, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,e", "dismiss(None)", "close", id="close-export", tooltip="Write nothing"),
        *(
            Binding(one.key, f"dismiss('{one.name}')", one.name, id=f"export-{one.name}",
                    tooltip=one.meaning)
            for one in FORMS
        ),
    ]  # fmt: skip

    def compose(self) -> ComposeResult:
        """A short list."""
        with Vertical(id="export"):
            yield Static("Write a new file to the present folder:", markup=False)
            yield OptionList(
                *(
                    Option(Text.assemble((f"{one.key}  ", BLUE), one.meaning), id=one.name)
                    for one in FORMS
                ),
                markup=False,
            )

    def on_mount(self) -> None:
        """Walk the list at once."""
        self.set_class(glyphs() is ASCII, "ascii")
        self.query_one(OptionList).focus()

    @on(OptionList.OptionSelected)
    def take(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click takes a form."""
        self.dismiss(event.option.id)
