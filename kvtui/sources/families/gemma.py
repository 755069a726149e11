"""Gemma 1 to 3: tied head, norms before and after, sliding layers from Gemma 2 on."""

from kvtui.sources.draft import Draft
from kvtui.sources.families.decoder import Style, decoder


def gemma(draft: Draft) -> None:
    """Gemma 1: a Llama with a tied head."""
    decoder(draft, Style(tied=True))


def gemma2(draft: Draft) -> None:
    """Gemma 2: every second layer slides; four norms a layer."""
    decoder(draft, Style(tied=True, layer_norms=4, window_pattern=2))


def gemma3(draft: Draft) -> None:
    """Gemma 3: five of six layers slide; norms on Q and K."""
    decoder(draft, Style(tied=True, layer_norms=4, window_pattern=6, qk_norm="head"))
