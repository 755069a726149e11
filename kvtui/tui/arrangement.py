"""Which arrangement a terminal of a given size gets, as classes that the style sheet knows.

80x24 is one group of panels at a time; from 120x36 all of them are on screen.
"""

from typing import Final

LEAST: Final = (40, 12)
"""Below this the screen only says which size it needs."""
FULL: Final = (120, 36)
_ONE_COLUMN: Final = 76
_SHORT_ROWS: Final = 18
"""Below this the formula line gives its rows to the panels."""
_WIDE: Final = 160
_TALL: Final = 48
TABS: Final = ("size", "live", "memory")


def classes(width: int, height: int, shown: str) -> dict[str, bool]:
    """Every class of the screen and whether it holds; ``shown`` is the open tab."""
    full = width >= FULL[0] and height >= FULL[1]
    return {
        "tiny": width < LEAST[0] or height < LEAST[1],
        "narrow": width < _ONE_COLUMN,
        "short": height < _SHORT_ROWS,
        "full": full,
        "tabs": not full,
        "tall": full and height >= _TALL,
        "wide": full and width >= _WIDE,
        **{f"show-{name}": name == shown for name in TABS},
    }


def size_needed(width: int, height: int) -> str:
    """The sentence of a terminal that is too small."""
    return f"Terminal too small: {LEAST[0]}x{LEAST[1]} cells needed, this is {width}x{height}."
