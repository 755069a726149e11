"""One model under another attention kind, everything else left as it is.

What the kind needs and the model does not say is assumed, and every assumption is returned in
words. Layers without K and V of their own (recurrent, cross, shared, compressed) stay.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kvtui.errors import InputError
from kvtui.solve import windowed, with_groups
from kvtui.spec import (
    CrossAttention,
    FullAttention,
    LatentAttention,
    LayerGroup,
    Model,
    Scenario,
    SharedCache,
    SlidingWindow,
)

# KV cache tutorial, "MHA, GQA, MLA and quantisation": Hq 32 over Hkv 8, latent 512 with 64 beside.
_QUERY_HEADS_PER_KV_HEAD: Final = 4
_LATENT_WIDTH: Final = 512
_ROPE_WIDTH: Final = 64
# DeepSeek-V2 (arXiv:2405.04434), section 2.1.4: 128 wide heads, of K without its rotary part and V.
_HEAD_WIDTH: Final = 128
# StreamingLLM (arXiv:2309.17453): four first tokens.
_SINKS: Final = 4

Turned = tuple[Scenario, str]
"""The scenario under the kind, and what had to be assumed for it."""


def under_kind(scenario: Scenario, kind: str) -> Turned:
    """``scenario`` with its attention layers of ``kind``.

    Raises:
        InputError: the kind is unknown, or the model lacks what it needs.
    """
    turn = _TURNS.get(kind)
    if turn is None:
        raise InputError("kinds", kind, "one of " + ", ".join(_TURNS))
    if not attends(scenario.model):
        raise InputError("kinds", kind, f"left out for {scenario.model.name}, which has no K and V")
    return turn(scenario)


def kind_name(model: Model) -> str:
    """The attention kind of ``model`` in a word: mha, gqa, ..., or the kinds of its groups."""
    names = list(dict.fromkeys(_group_kind(group) for group in model.groups))
    return " + ".join(names) if names else "none"


def _group_kind(group: LayerGroup) -> str:
    if type(group) is not FullAttention:
        return group.kind
    if group.kv_heads == 1:
        return "mqa"
    if group.q_heads is None:
        return f"Hkv {group.kv_heads}"
    return "mha" if group.kv_heads == group.q_heads else "gqa"


def attends(model: Model) -> bool:
    """Whether ``model`` has layers whose kind can be another."""
    return any(_attends(group) for group in model.groups)


def _attends(group: LayerGroup) -> bool:
    apart = isinstance(group, CrossAttention | SharedCache)
    return isinstance(group, FullAttention | LatentAttention) and not apart


def _with_heads(scenario: Scenario, kv_heads: Callable[[LayerGroup], int]) -> tuple[Scenario, bool]:
    """K and V rows of ``kv_heads``; whether a latent had to be taken for heads of 128."""
    guessed = False

    def turned(group: LayerGroup) -> LayerGroup:
        nonlocal guessed
        if not _attends(group):
            return group
        if isinstance(group, FullAttention):
            return replace(group, kv_heads=kv_heads(group))
        assert isinstance(group, LatentAttention)
        guessed = guessed or group.nope_dim is None or group.v_head_dim is None
        return FullAttention(
            layers=group.layers,
            q_heads=group.q_heads,
            kv_heads=kv_heads(group),
            k_width=(group.nope_dim or _HEAD_WIDTH) + group.rope_dim,
            v_width=group.v_head_dim or _HEAD_WIDTH,
        )

    return with_groups(scenario, turned), guessed


def _query_heads(group: LayerGroup) -> int:
    heads = group.q_heads if isinstance(group, FullAttention | LatentAttention) else None
    if heads is None:
        raise InputError("q heads", None, "given (--q-heads) for the kinds mha and gqa")
    return heads


def _mha(scenario: Scenario) -> Turned:
    turned, guessed = _with_heads(scenario, _query_heads)
    return turned, f"heads {_HEAD_WIDTH} wide" if guessed else ""


def _gqa(scenario: Scenario) -> Turned:
    assumed = []

    def grouped(group: LayerGroup) -> int:
        if isinstance(group, FullAttention):
            known = group.q_heads is None or group.kv_heads < group.q_heads
            if known and group.kv_heads > 1:
                return group.kv_heads
        heads = _query_heads(group)
        shared = next(size for size in (_QUERY_HEADS_PER_KV_HEAD, 3, 2, heads) if heads % size == 0)
        assumed.append(f"{shared} query heads a KV head")
        return heads // shared

    turned, guessed = _with_heads(scenario, grouped)
    if guessed:
        assumed.append(f"heads {_HEAD_WIDTH} wide")
    return turned, ", ".join(dict.fromkeys(assumed))


def _mqa(scenario: Scenario) -> Turned:
    turned, guessed = _with_heads(scenario, lambda _group: 1)
    return turned, f"heads {_HEAD_WIDTH} wide" if guessed else ""


def _mla(scenario: Scenario) -> Turned:
    assumed = ""

    def turned(group: LayerGroup) -> LayerGroup:
        nonlocal assumed
        if type(group) is not FullAttention:
            return group
        assumed = f"a latent of {_LATENT_WIDTH} with {_ROPE_WIDTH} beside it"
        return LatentAttention(
            layers=group.layers,
            q_heads=group.q_heads,
            kv_lora_rank=_LATENT_WIDTH,
            rope_dim=_ROPE_WIDTH,
            nope_dim=group.k_width,
            v_head_dim=group.v_width,
        )

    return with_groups(scenario, turned), assumed


def _windowed(scenario: Scenario, sinks: int | None) -> Turned:
    """Windows over the layers that keep everything: the model's own size, else half of T."""
    own = [group.window for group in scenario.model.groups if isinstance(group, SlidingWindow)]
    window = own[0] if own else max(1, scenario.workload.longest // 2)

    def turned(group: LayerGroup) -> LayerGroup:
        if isinstance(group, LatentAttention):
            raise InputError("attention", "mla", "one that keeps K and V, to have a window")
        plain = type(group) is FullAttention or (sinks is not None and type(group) is SlidingWindow)
        if not plain:
            return group
        assert isinstance(group, FullAttention)
        return windowed(group, window, sinks)

    said = f"its own window of {window:,}" if own else f"a window of {window:,}, half of T"
    if sinks is not None:
        said = ", ".join(part for part in (f"{sinks} first tokens", said) if part)
    return with_groups(scenario, turned), said


def _window(scenario: Scenario) -> Turned:
    return _windowed(scenario, None)


def _evicting(scenario: Scenario) -> Turned:
    return _windowed(scenario, _SINKS)


_TURNS: Final[dict[str, Callable[[Scenario], Turned]]] = {
    "mha": _mha,
    "gqa": _gqa,
    "mqa": _mqa,
    "mla": _mla,
    "window": _window,
    "sinks": _evicting,
}
KINDS: Final = tuple(_TURNS)
