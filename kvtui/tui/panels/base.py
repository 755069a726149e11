"""What every panel is: a bordered block of text lines, repainted only when they changed."""

from typing import ClassVar

from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget

from kvtui.tui.palette import Glyphs, glyphs


class Panel(Widget):
    """A titled block of lines; subclasses say which lines for which size."""

    allow_maximize: ClassVar[bool] = True

    def __init__(self, title: str, *, id: str) -> None:  # noqa: A002  # Textual's own name
        """Title the border."""
        super().__init__(id=id)
        self.border_title = title
        self.glyphs: Glyphs = glyphs()
        self._drawn = Text()
        self.paints = 0
        """How often the content really changed."""

    def lines(self, width: int, height: int) -> list[Text]:
        """The lines to draw in ``width`` x ``height`` cells."""
        raise NotImplementedError

    def update(self) -> None:
        """Draw again if the lines differ from those on screen."""
        if not self.display or self.size.width == 0:
            return
        drawn = self._compose_text(self.content_size)
        if drawn != self._drawn:
            self._drawn = drawn
            self.paints += 1
            self.refresh()

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
        return Text("\n", no_wrap=True).join(found)


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
