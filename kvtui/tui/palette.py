"""Styles and glyphs: few, named by meaning, readable without colour.

Blue and orange are the only pair that carries meaning, and a word always says the same. ASCII
mode replaces every glyph that a plain font lacks.
"""

import locale
import os
from dataclasses import dataclass
from typing import Final

BLUE: Final = "#5fafff"
ORANGE: Final = "#ff9f40"
DIM: Final = "dim"
LABEL: Final = "dim"
STRONG: Final = "bold"
CURSOR: Final = "reverse"
STALE: Final = "dim italic"

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
    dash: str
    separator: str
    border: str
    """Textual border type of panels."""
    at_least: str
    at_most: str


UNICODE: Final = Glyphs(
    full="█", light="░", medium="▓", empty="·", left="▕", right="▏", levels="▁▂▃▄▅▆▇█",
    braille=True, dot="•", dash="┄", separator=" · ", border="round", at_least="≥", at_most="≤",
)  # fmt: skip
ASCII: Final = Glyphs(
    full="#", light="-", medium="=", empty=".", left="[", right="]", levels="_.-=+*#@",
    braille=False, dot="*", dash="-", separator=" | ", border="ascii", at_least=">=", at_most="<=",
)  # fmt: skip


def glyphs() -> Glyphs:
    """ASCII where KVTUI_ASCII is set or the locale is not UTF-8."""
    if os.environ.get("KVTUI_ASCII"):
        return ASCII
    encoding = locale.getpreferredencoding(do_setlocale=False).lower().replace("-", "")
    return UNICODE if encoding == "utf8" else ASCII
