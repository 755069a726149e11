"""The inputs: a grid of fields walked by arrows, edited in place, answered as they are typed."""

from dataclasses import dataclass
from typing import Final

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

_MOVES: Final = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
_LABELS: Final = (10, 6, 3)
"""Cells of the labels by column, where a row has three; two have the first two."""


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
        self._row_of_line: list[tuple[Field, ...]] = []
        """Fields of each line drawn, for the mouse."""

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
        """One line a row of fields, then the reason when the question cannot be answered.

        Where they do not all fit, those around the cursor are shown.
        """
        error = self._question.error
        wrong = _field_name(getattr(error, "field", "")) if error else ""
        found: list[Text] = []
        self._row_of_line = []
        cursor = 0
        for row in self._rows():
            if self.current in row:
                cursor = len(found)
            found.append(self._row(row, width, wrong))
            self._row_of_line.append(row)
            if error is not None and any(one.name == wrong for one in row):
                reason = wrapped(f"! {error}", width, ORANGE, most=4)
                found += reason
                self._row_of_line += [()] * len(reason)
                cursor = max(cursor, len(found) - 1) if self.current in row else cursor
                wrong = ""
        if error is not None and wrong:
            found = [*wrapped(f"! {error}", width, ORANGE), *found]
            self._row_of_line = [()] * (len(found) - len(self._row_of_line)) + self._row_of_line
        if len(found) > height:
            first = min(max(0, cursor - height + 1), len(found) - height)
            self._row_of_line = self._row_of_line[first:]
            return found[first : first + height]
        room = height - len(found) - 1
        if room > 0:
            found += [Text(), *wrapped(self._hint(), width, DIM, most=room)]
        return found

    def _rows(self) -> list[tuple[Field, ...]]:
        rows: dict[int, tuple[Field, ...]] = {}
        for one in self.fields:
            rows[one.row] = (*rows.get(one.row, ()), one)
        return list(rows.values())

    def _row(self, row: tuple[Field, ...], width: int, wrong: str) -> Text:
        """The fields of one row in columns; closer together where a value needs the room."""
        starts = _columns(len(row), width)
        cells = [self._cell(one, _LABELS[index], wrong) for index, one in enumerate(row)]
        ends = [*starts[1:], width + 1]
        if any(
            cell.cell_len >= end - at for cell, at, end in zip(cells, starts, ends, strict=True)
        ):
            cells = [self._cell(one, 0, wrong) for one in row]
            return Text("  ", no_wrap=True).join(cells)
        line = Text(no_wrap=True)
        for cell, start in zip(cells, starts, strict=True):
            line.pad_right(max(0, start - line.cell_len))
            line.append_text(cell)
        return line

    def _cell(self, one: Field, label_width: int, wrong: str) -> Text:
        value = self.shown(one)
        here = self.has_focus and one.name == self.current.name
        style = f"bold {BLUE}" if one.name in self._form.typed else ""
        if one.name == wrong:
            style = f"bold {ORANGE}"
        cell = Text(no_wrap=True)
        cell.append(f"{one.label:<{max(label_width, len(one.label) + 1)}}", LABEL)
        if here and self.editing:
            return cell.append(f"{value}{self.glyphs.cursor}", "bold underline")
        cell.append(value, CURSOR if here else style)
        if one.picker or len(one.choices) > 1:
            cell.append(f" {self.glyphs.opens}", DIM)
        return cell

    def _hint(self) -> str:
        one = self.current
        if self.editing:
            return f"{one.help}. Enter keeps, Esc takes back, empty gives it back to the preset."
        if one.picker:
            return f"{one.help}. Enter lists them, = types one."
        if one.choices:
            return f"{one.help}. Enter lists them, [ ] walk them."
        return f"{one.help}. Enter edits, [ ] halve and double, + - step."

    # -- keys --------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        """Text goes into the edited field; arrows, tab and Enter work the grid."""
        if self._buffer is not None:
            taken = self._edit(event)
        elif event.key in _MOVES:
            self._move(*_MOVES[event.key])
            taken = True
        elif event.key in ("tab", "shift+tab"):
            taken = self._tab(1 if event.key == "tab" else -1)
        elif event.key == "enter":
            self._open()
            taken = True
        elif event.key in ("backspace", "delete"):
            self._type(self.current, "")
            taken = True
        else:
            taken = event.key in ("equals_sign", "=") and bool(self.current.picker)
            if taken:
                self._begin()
        if taken:
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
        """Put the cursor on the field that was clicked; a second click opens it."""
        at = event.get_content_offset(self)
        if at is None or at.y >= len(self._row_of_line) or not self._row_of_line[at.y]:
            return
        row = self._row_of_line[at.y]
        starts = _columns(len(row), self.content_size.width)
        clicked = row[max(index for index, start in enumerate(starts) if start <= at.x)]
        again = clicked.name == self.current.name and event.chain > 1
        self._buffer = None
        self._cursor = clicked.name
        if again:
            self._open()
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
        rows = self._rows()
        here = next(index for index, row in enumerate(rows) if self.current in row)
        if across and len(rows[here]) == 1 and self.current.choices:
            self.step("double" if across > 0 else "halve")
            return
        if across:
            self._cursor = found[(found.index(self.current) + across) % len(found)].name
        else:
            row = rows[(here + down) % len(rows)]
            column = rows[here].index(self.current) * len(row) // len(rows[here])
            self._cursor = row[min(column, len(row) - 1)].name
        self.update()

    def _tab(self, by: int) -> bool:
        """Go to the next field; False at either end, where tab leaves the panel."""
        found = self.fields
        at = found.index(self.current) + by
        if not 0 <= at < len(found):
            return False
        self._cursor = found[at].name
        self.update()
        return True

    def _open(self) -> None:
        """Enter: a list where there is one, else the text itself."""
        one = self.current
        if one.picker or one.choices:
            self.post_message(self.PickerWanted(one.picker or one.name))
        else:
            self._begin()

    def _begin(self) -> None:
        self._before = self._form.typed.get(self.current.name, "")
        self._buffer = self._before
        self.update()

    def _edit(self, event: events.Key) -> bool:
        assert self._buffer is not None
        if event.key in ("enter", "tab", "shift+tab", "down", "up"):
            self._buffer = None
            if event.key == "enter":
                self.update()
                return True
            if event.key in ("down", "up"):
                self._move(*_MOVES[event.key])
                return True
            return self._tab(1 if event.key == "tab" else -1)
        if event.key == "escape":
            self._buffer = None
            self._type(self.current, self._before)
            return True
        if event.key == "backspace":
            self._buffer = self._buffer[:-1]
        elif event.key == "ctrl+u":
            self._buffer = ""
        elif event.character is not None and event.is_printable:
            self._buffer += event.character
        else:
            return False
        self._type(self.current, self._buffer)
        return True

    def choose(self, name: str, value: str) -> None:
        """Take ``value`` for a field from a list."""
        chosen = next(one for one in self.fields if one.name == name)
        self._type(chosen, value)

    def _type(self, one: Field, text: str) -> None:
        if one.name == "attention" and text in one.choices:
            self._form.choose_attention(text, self._question.scenario)
        else:
            self._form.set(one.name, text)
        self.post_message(self.Changed())


def _field_name(named: str) -> str:
    """The field that an error's own words mean."""
    return named.replace(" ", "_").replace("v_head_dim", "head_dim")


def _columns(fields: int, width: int) -> tuple[int, ...]:
    """Where the fields of a row start."""
    if fields == 3:
        return 0, width * 17 // 36, width * 27 // 36
    return (0, width * 19 // 36)[:fields]
