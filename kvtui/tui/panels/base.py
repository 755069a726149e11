"""What every panel is: a bordered block of text lines, repainted only when they changed."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.geometry import Region, Size
from textual.widget import Widget

from kvtui.tui.palette import ASCII, DIM, LABEL, Glyphs, glyphs, plain, tinted

LABEL_WIDTH = 9
"""Cells of the label column, the same in every panel, so that values stand in one line."""


class Panel(Widget):
    """A titled block of lines; subclasses say which lines for which size."""

    allow_maximize: ClassVar[bool] = True

    def __init__(self, title: str, *, id: str) -> None:  # noqa: A002  # Textual's own name
        """Title the border."""
        super().__init__(id=id)
        self.glyphs: Glyphs = glyphs()
        self.entitle(title)
        self._drawn = Text()
        self.paints = 0
        """How often the content really changed."""

    def entitle(self, title: str) -> None:
        """Set the border's title; no markup."""
        text = Text(title)
        self.border_title = plain(text) if self.glyphs is ASCII else text

    def lines(self, width: int, height: int) -> list[Text]:
        """The lines to draw in ``width`` x ``height`` cells; none where a panel has nothing."""
        del width, height
        return []

    def explanation(self) -> tuple[str, str] | None:
        """What stands behind the figure under the cursor, and where the rule comes from."""
        return None

    def update(self) -> None:
        """Draw again if the lines differ from those on screen."""
        if not self.display or self.size.width == 0:
            return
        drawn = self._compose_text(self.content_size)
        if drawn == self._drawn:
            return
        changed = _changed_lines(self._drawn, drawn)
        self._drawn = drawn
        self.paints += 1
        width = self.content_size.width
        self.refresh(*(Region(0, line, width, 1) for line in changed))

    def on_resize(self) -> None:
        """Lines depend on the size."""
        self._drawn = self._compose_text(self.content_size)
        self.refresh()

    def render(self) -> Text:
        """The lines drawn last."""
        return self._drawn

    def _compose_text(self, size: Size) -> Text:
        if size.width < 1 or size.height < 1:
            return Text()
        found = self.lines(size.width, size.height)[: size.height]
        for line in found:
            line.truncate(size.width, overflow="ellipsis")
        joined = Text("\n", no_wrap=True).join(found)
        if self.glyphs is ASCII:
            joined = plain(joined)
        return tinted(joined, dark=self.app.current_theme.dark)


def _changed_lines(before: Text, after: Text) -> list[int]:
    """Numbers of the lines that differ: all that a terminal far away has to be told."""
    old, new = before.split("\n", allow_blank=True), after.split("\n", allow_blank=True)
    return [
        index
        for index in range(max(len(old), len(new)))
        if index >= len(old) or index >= len(new) or old[index] != new[index]
    ]


def wrapped(text: str, width: int, style: str = "", *, most: int = 3) -> list[Text]:
    """``text`` in at most ``most`` lines of ``width``, broken at spaces."""
    lines: list[str] = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}".strip()
        if len(joined) <= width or not lines[-1]:
            lines[-1] = joined
        elif len(lines) < most:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1][: max(0, width - 1)]}…"
            break
    return [Text(line, style, no_wrap=True) for line in lines if line]


def flow(
    label: str, chunks: Sequence[Text | str], width: int, *, indent: int = LABEL_WIDTH
) -> list[Text]:
    """``label``, then ``chunks`` side by side, on as many lines as ``width`` asks for.

    A chunk is never broken, so no figure is torn from its unit; empty chunks are left out.
    """
    line = Text(no_wrap=True).append(f"{label:<{indent}}", LABEL)
    lines = [line]
    for chunk in chunks:
        piece = chunk if isinstance(chunk, Text) else Text(chunk)
        if not piece.cell_len:
            continue
        gap = 2 if line.cell_len > indent else 0
        if gap and line.cell_len + gap + piece.cell_len > width:
            line, gap = Text(" " * indent, no_wrap=True), 0
            lines.append(line)
        line.append(" " * gap)
        line.append_text(piece)
    return lines


def pair(name: str, value: Text | str, style: str = "") -> Text:
    """A small label and its value, one chunk."""
    chunk = Text(no_wrap=True).append(f"{name} ", LABEL)
    return chunk.append_text(value) if isinstance(value, Text) else chunk.append(value, style)


def beside(left: Sequence[Text], right: Sequence[Text], width: int) -> list[Text]:
    """Two columns, the right one from ``width`` cells on."""
    found = []
    for index in range(max(len(left), len(right))):
        line = left[index].copy() if index < len(left) else Text(no_wrap=True)
        if index < len(right):
            line.truncate(width - 2, overflow="ellipsis")
            line.pad_right(max(0, width - line.cell_len))
            line.append_text(right[index])
        found.append(line)
    return found


def notes(sentences: Sequence[str], width: int, *, most: int = 2) -> list[Text]:
    """Side remarks, dim, each on its own lines."""
    return [line for one in sentences for line in wrapped(one, width, DIM, most=most)]
