"""Styles and glyphs: few, named by meaning, readable without colour.

Blue and orange are the only pair that carries meaning, and a word always says the same. ASCII
mode replaces every glyph that a plain font lacks. On a light theme both take darker shades.
"""

import locale
import os
from dataclasses import dataclass
from typing import Final

from rich.text import Span, Text

BLUE: Final = "#5fafff"
ORANGE: Final = "#ff9f40"
DIM: Final = "dim"
LABEL: Final = "dim"
STRONG: Final = "bold"
CURSOR: Final = "reverse"
STALE: Final = "dim italic"

_ON_LIGHT: Final = ((BLUE, "#0a58b0"), (ORANGE, "#a34f00"))
"""Shades of the pair that keep a contrast of 5 and more on a light background."""

VERDICT_STYLE: Final = {
    "fits": f"bold {BLUE}",
    "tight": f"bold {ORANGE}",
    "over": f"bold reverse {ORANGE}",
}


@dataclass(frozen=True, slots=True)
class Glyphs:
    """What plots and bars are made of."""

    full: str
    light: str
    medium: str
    empty: str
    left: str
    right: str
    levels: str
    """Rising heights of a strip."""
    braille: bool
    dot: str
    """A line where there is no braille."""
    cursor: str
    """Where typed text goes."""
    opens: str
    """A field that opens a list."""
    separator: str
    border: str
    """Textual border type of panels."""
    at_least: str
    at_most: str


UNICODE: Final = Glyphs(
    full="█", light="░", medium="▓", empty="·", left="▕", right="▏", levels="▁▂▃▄▅▆▇█",
    braille=True, dot="•", cursor="▏", opens="▾", separator=" · ",
    border="round", at_least="≥", at_most="≤",
)  # fmt: skip
ASCII: Final = Glyphs(
    full="#", light="-", medium="=", empty=".", left="[", right="]", levels="_.-=+*#@",
    braille=False, dot="*", cursor="_", opens="v", separator=" | ",
    border="ascii", at_least=">=", at_most="<=",
)  # fmt: skip


def glyphs() -> Glyphs:
    """ASCII where KVTUI_ASCII says so or the locale is not UTF-8."""
    if os.environ.get("KVTUI_ASCII", "").lower() not in ("", "0", "false", "no", "off"):
        return ASCII
    encoding = locale.getpreferredencoding(do_setlocale=False).lower().replace("-", "")
    return UNICODE if encoding == "utf8" else ASCII


_PLAIN: Final = str.maketrans("·×≥≤→←↑↓−–—…µ°⠒⠂⠄█▓░▏▕▌▾✓", "*x><><^v---.u ...#=-||>v*")
"""One character for one, so that nothing moves: styles and columns stay where they are."""


def plain(text: Text) -> Text:
    """``text`` in ASCII alone; what has no likeness becomes a question mark."""
    found = text.copy()
    found.plain = "".join(one if one < "\x80" else "?" for one in text.plain.translate(_PLAIN))
    found.spans = text.spans
    return found


def tinted(text: Text, *, dark: bool) -> Text:
    """``text`` in the shades that suit the background."""
    if dark:
        return text
    spans = []
    for span in text.spans:
        style = span.style
        if isinstance(style, str):
            for bright, deep in _ON_LIGHT:
                style = style.replace(bright, deep)
        spans.append(Span(span.start, span.end, style))
    found = text.copy()
    found.spans = spans
    return found
