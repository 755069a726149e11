"""Settings that only the screen can judge: which themes there are, and which keys are taken."""

from textual.theme import BUILTIN_THEMES

from kvtui.config import Settings
from kvtui.errors import InputError
from kvtui.tui.bindings import check_keymap


def check(settings: Settings) -> None:
    """Refuse what the screen does not have.

    Raises:
        InputError: the theme is unknown, or a key belongs to another action already.
    """
    theme = settings.theme
    if theme is not None and theme not in BUILTIN_THEMES:
        origin = settings.origins["theme"].origin
        field = "theme" if origin == "flag" else f"theme ({origin})"
        raise InputError(field, theme, "one of " + ", ".join(sorted(BUILTIN_THEMES)))
    check_keymap(settings.keys)
