"""The inputs: a grid of fields walked by arrows, edited in place, answered as they are typed."""

from dataclasses import dataclass

from rich.text import Text
from textual import events
from textual.message import Message

from kvtui.session.question import Question
from kvtui.tui.fields import (
    Field,
    Form,
    adjusted,
    attention_kind,
    placeholders,
    visible_fields,
)
from kvtui.tui.palette import BLUE, CURSOR, DIM, LABEL, ORANGE
from kvtui.tui.panels.base import Panel, wrapped
from kvtui.units import NOT_AVAILABLE, format_bytes


class InputsPanel(Panel, can_focus=True):
    """Walks fields; while one is edited it takes all text, otherwise it leaves keys alone."""

    @dataclass
    class Changed(Message):
        """The form differs from before: answer it."""

    @dataclass
    class PickerWanted(Message):
        """Enter on a field that has a list."""

        picker: str

    def __init__(self, form: Form, question: Question) -> None:
        """Edit ``form``; show what ``question`` made of it."""
        super().__init__("inputs", id="inputs")
        self._form, self._question = form, question
        self._cursor = "model"
        self._buffer: str | None = None
        self._before = ""

    # -- what is where -----------------------------------------------------------------------

    @property
    def editing(self) -> bool:
        """A field takes text."""
        return self._buffer is not None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields that matter for the kind chosen or answered."""
        kind = self._form.typed.get("attention") or attention_kind(self._question.scenario)
        return visible_fields(kind)

    @property
    def current(self) -> Field:
        """The field under the cursor."""
        found = self.fields
        return next((one for one in found if one.name == self._cursor), found[0])

    def shown(self, one: Field) -> str:
        """Typed text, else what the field stands at."""
        if self._buffer is not None and one.name == self.current.name:
            return self._buffer
        typed = self._form.typed.get(one.name)
        if typed is not None:
            return typed
        if one.name == "weights" and self._question.answer is not None:
            # Per rank in the answer; the field is of the whole model.
            answer = self._question.answer
            if answer.per_rank.tp == 1:
                return format_bytes(answer.budget.weights_bytes)
            return "of the model" if answer.budget.weights_bytes is not None else NOT_AVAILABLE
        standing = placeholders(self._question.scenario).get(one.name)
        return standing or self._form.request().given().get(one.name) or "-"

    # -- drawing -----------------------------------------------------------------------------

    def lines(self, width: int, height: int) -> list[Text]:
        """One line a row of fields, then the reason when the question cannot be answered."""
        rows: dict[int, list[Field]] = {}
        for one in self.fields:
            rows.setdefault(one.row, []).append(one)
        found = []
        error = self._question.error
        wrong = _field_name(getattr(error, "field", "")) if error else ""
        for row in rows.values():
            found.append(self._row(row, width, wrong))
            if any(one.name == wrong for one in row) and error is not None:
                found += wrapped(f"! {error}", width, ORANGE, most=2)
                wrong = ""
        if error is not None and wrong:
            found += wrapped(f"! {error}", width, ORANGE)
        room = height - len(found) - 1
        if room > 0:
            found.append(Text())
            found += wrapped(self._hint(), width, DIM, most=max(1, min(3, room)))
        return found

    def _row(self, row: list[Field], width: int, wrong: str) -> Text:
        line = Text(no_wrap=True)
        for index, one in enumerate(row):
            column = 10 if len(row) == 1 else 0
            label = f"{one.label:<{column}}" if column else f"{one.label} "
            value = self.shown(one)
            here = self.has_focus and one.name == self.current.name
            style = BLUE if one.name in self._form.typed else ""
            if one.name == wrong:
                style = ORANGE
            cell = Text(no_wrap=True)
            cell.append(label, LABEL)
            if here and self.editing:
                cell.append(f"{value}▏" if self.glyphs.braille else f"{value}_", "bold underline")
            else:
                cell.append(value, CURSOR if here else style or "bold")
                if len(row) == 1 and (one.picker or one.choices):
                    cell.append(" ▾" if self.glyphs.braille else " v", DIM)
            share = width // len(row)
            if index < len(row) - 1:
                cell.truncate(share - 1, overflow="ellipsis")
                cell.pad_right(max(0, share - cell.cell_len))
            line.append_text(cell)
        return line

    def _hint(self) -> str:
        one = self.current
        if self.editing:
            return f"{one.help}. Enter keeps, Esc takes back, empty gives it back to the preset."
        if one.picker:
            return f"{one.help}. Enter lists presets; type to name one."
        if one.choices:
            return f"{one.help}. [ ] walk the choices; Enter edits."
        return f"{one.help}. Enter edits, [ ] halve and double, + - step."

    # -- keys --------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        """Text goes into the edited field; arrows and Enter work the grid."""
        if self._buffer is not None:
            self._edit(event)
            return
        moves = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
        if event.key in moves:
            self._move(*moves[event.key])
        elif event.key == "enter":
            if self.current.picker:
                self.post_message(self.PickerWanted(self.current.picker))
            else:
                self._begin()
        elif event.key == "backspace":
            self._type(self.current, "")
        else:
            return
        event.stop()
        event.prevent_default()

    def on_focus(self) -> None:
        """Show the cursor."""
        self.update()

    def on_blur(self) -> None:
        """Keep what was typed and hide the cursor."""
        self._buffer = None
        self.update()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the field that was clicked."""
        rows = sorted({one.row for one in self.fields})
        line = event.get_content_offset(self)
        if line is None or line.y >= len(rows):
            return
        row = [one for one in self.fields if one.row == rows[line.y]]
        self._buffer = None
        self._cursor = row[min(len(row) - 1, line.x * len(row) // self.content_size.width)].name
        self.update()

    def step(self, change: str) -> None:
        """Halve, double, raise or lower the number; walk the choices."""
        one = self.current
        forward = change in ("double", "raise")
        if one.choices:
            now = self.shown(one)
            at = one.choices.index(now) if now in one.choices else 0
            chosen = one.choices[(at + (1 if forward else -1)) % len(one.choices)]
            self._type(one, chosen)
            return
        arithmetic = {
            "halve": lambda value: value // 2,
            "double": lambda value: value * 2,
            "raise": lambda value: value + (2**30 if one.size else 1),
            "lower": lambda value: value - (2**30 if one.size else 1),
        }
        moved = adjusted(one, self.shown(one), arithmetic[change])
        if moved is not None:
            self._type(one, moved)

    def _move(self, down: int, across: int) -> None:
        found = self.fields
        at = found.index(self.current)
        if across:
            self._cursor = found[(at + across) % len(found)].name
        else:
            rows = sorted({one.row for one in found})
            here = rows.index(self.current.row)
            row = [one for one in found if one.row == rows[(here + down) % len(rows)]]
            peers = [one for one in found if one.row == self.current.row]
            column = peers.index(self.current) * len(row) // len(peers)
            self._cursor = row[min(column, len(row) - 1)].name
        self.update()

    def _begin(self) -> None:
        self._before = self._form.typed.get(self.current.name, "")
        self._buffer = self._before
        self.update()

    def _edit(self, event: events.Key) -> None:
        assert self._buffer is not None
        event.stop()
        event.prevent_default()
        if event.key in ("enter", "tab", "down", "up"):
            self._buffer = None
            self.update()
            return
        if event.key == "escape":
            self._buffer = None
            self._type(self.current, self._before)
            return
        if event.key == "backspace":
            self._buffer = self._buffer[:-1]
        elif event.key == "ctrl+u":
            self._buffer = ""
        elif event.character is not None and event.is_printable:
            self._buffer += event.character
        else:
            return
        self._type(self.current, self._buffer)

    def _type(self, one: Field, text: str) -> None:
        if one.name == "attention" and text in one.choices:
            self._form.choose_attention(text, self._question.scenario)
        else:
            self._form.set(one.name, text)
        self.post_message(self.Changed())


def _field_name(named: str) -> str:
    """The field that an error's own words mean."""
    return named.replace(" ", "_").replace("v_head_dim", "head_dim")
