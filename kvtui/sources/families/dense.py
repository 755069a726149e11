"""Llama and the dense decoders that differ from it in a bias, a norm or a window."""

from kvtui.sources.draft import Draft
from kvtui.sources.families.decoder import Style, decoder


def llama(draft: Draft) -> None:
    """Llama 2 and 3, and every file that calls itself one."""
    decoder(draft, Style())


def mistral(draft: Draft) -> None:
    """Mistral: a ``sliding_window``, where there is one, is for every layer."""
    decoder(draft, Style(qkv_bias=False, o_bias=False, window_pattern=1))


def qwen2(draft: Draft) -> None:
    """Qwen 2 and 2.5: bias on Q, K and V."""
    decoder(draft, Style(qkv_bias=True, o_bias=False))


def qwen3(draft: Draft) -> None:
    """Qwen 3: norms of a head's width on Q and K."""
    decoder(draft, Style(qk_norm="head"))


def phi3(draft: Draft) -> None:
    """Phi-3 and Phi-4: a ``sliding_window`` is for every layer."""
    decoder(draft, Style(qkv_bias=False, o_bias=False, window_pattern=1))


def olmo2(draft: Draft) -> None:
    """OLMo 2: norms over all heads on Q and K."""
    decoder(draft, Style(qk_norm="all heads"))


def olmo3(draft: Draft) -> None:
    """OLMo 3: as OLMo 2, three of four layers slide."""
    decoder(draft, Style(qk_norm="all heads", window_pattern=4))


def cohere(draft: Draft) -> None:
    """Command-R: attention and MLP in parallel behind one norm; one Q and K norm a head."""
    normed = draft.facts.flag("use_qk_norm")
    decoder(draft, Style(layer_norms=1, tied=True, qk_norm="each head" if normed else "none"))


def cohere2(draft: Draft) -> None:
    """Command-A: as Command-R, three of four layers slide."""
    decoder(draft, Style(layer_norms=1, tied=True, window_pattern=4))
