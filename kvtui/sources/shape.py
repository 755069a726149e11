"""Layer groups from typed fields, and typed fields laid over a model's groups."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, cast

from kvtui.errors import InputError
from kvtui.spec import (
    ATTENTION_KINDS,
    AttentionKind,
    ChunkedAttention,
    CrossAttention,
    FullAttention,
    LatentAttention,
    LayerGroup,
    SharedCache,
    SinksWindow,
    SlidingWindow,
)
from kvtui.units import count

SHAPE_FIELDS: Final = (
    "attention",
    "layers",
    "q_heads",
    "kv_heads",
    "head_dim",
    "v_head_dim",
    "window",
    "full_layers",
    "sinks",
    "kv_lora_rank",
    "rope_dim",
)
_DEFAULT_SINKS: Final = 4
"""StreamingLLM (arXiv:2309.17453) keeps four."""


def typed_groups(shape: Mapping[str, str]) -> tuple[LayerGroup, ...]:
    """One group with the typed shape; every field it needs must be there."""
    kind = _kind(shape)
    layers = _count(shape, "layers")
    q_heads = _optional(shape, "q_heads")
    if kind == "mla":
        return (_latent(shape, layers, q_heads, None),)
    full_layers = _optional(shape, "full_layers", low=0)
    if not full_layers:
        return (_attention(kind, shape, layers, q_heads, None),)
    if full_layers >= layers:
        raise InputError("full layers", full_layers, f"0 to {layers - 1}, with the rest windowed")
    plain = {name: value for name, value in shape.items() if name not in ("window", "attention")}
    return (
        _attention(None, plain, full_layers, q_heads, None),
        _attention(kind or "window", shape, layers - full_layers, q_heads, None),
    )


def reshaped(groups: tuple[LayerGroup, ...], shape: Mapping[str, str]) -> tuple[LayerGroup, ...]:
    """``groups`` of a model with the typed fields laid over each attention group."""
    layers = _optional(shape, "layers")
    if layers is not None:
        if len(groups) != 1:
            raise InputError("layers", layers, "left out for a model of several layer groups")
        groups = (replace(groups[0], layers=layers),)
    if set(shape) <= {"layers"}:
        return groups
    return tuple(_over(group, shape) for group in groups)


def _over(group: LayerGroup, shape: Mapping[str, str]) -> LayerGroup:
    q_heads = _optional(shape, "q_heads")
    if isinstance(group, LatentAttention):
        if "attention" not in shape or shape["attention"] == "mla":
            rope_dim = _optional(shape, "rope_dim", low=0)
            return replace(
                group,
                q_heads=q_heads or group.q_heads,
                kv_lora_rank=_optional(shape, "kv_lora_rank") or group.kv_lora_rank,
                rope_dim=group.rope_dim if rope_dim is None else rope_dim,
            )
        heads = q_heads or group.q_heads
        return _attention(_kind(shape), shape, group.layers, heads, None)
    if not isinstance(group, FullAttention) or isinstance(group, CrossAttention | SharedCache):
        return group
    kind = _kind(shape) if "attention" in shape or "kv_lora_rank" in shape else None
    if kind == "mla":
        return _latent(shape, group.layers, q_heads or group.q_heads, group)
    return _attention(kind, shape, group.layers, q_heads or group.q_heads, group)


def _attention(
    kind: AttentionKind | None,
    shape: Mapping[str, str],
    layers: int,
    q_heads: int | None,
    base: FullAttention | None,
) -> FullAttention:
    """A group that keeps K and V rows; ``base`` supplies what was not typed."""
    kv_heads = _kv_heads(kind, shape, q_heads, base)
    k_width = _optional(shape, "head_dim") or (base.k_width if base else None)
    if k_width is None:
        k_width = _count(shape, "head_dim")
    v_width = _optional(shape, "v_head_dim") or (
        base.v_width if base and "head_dim" not in shape else k_width
    )
    if q_heads is not None and (q_heads < kv_heads or q_heads % kv_heads):
        raise InputError(
            "q heads",
            q_heads,
            f"a multiple of the KV heads ({kv_heads}), so that each serves a whole group",
        )
    if kind is None and base is not None:
        window = _optional(shape, "window")
        changed = replace(
            base,
            layers=layers,
            kv_heads=kv_heads,
            k_width=k_width,
            v_width=v_width,
            q_heads=q_heads,
        )
        if window is not None and isinstance(changed, SlidingWindow):
            changed = replace(changed, window=window)
        elif window is not None and isinstance(changed, ChunkedAttention):
            changed = replace(changed, chunk=window)
        if "sinks" in shape and isinstance(changed, SinksWindow):
            changed = replace(changed, sinks=count("sinks", shape["sinks"], low=0))
        return changed
    if kind == "window" or (kind is None and "window" in shape and "sinks" not in shape):
        return SlidingWindow(
            layers=layers,
            q_heads=q_heads,
            kv_heads=kv_heads,
            k_width=k_width,
            v_width=v_width,
            window=_count(shape, "window"),
        )
    if kind == "sinks" or (kind is None and "window" in shape):
        return SinksWindow(
            layers=layers,
            q_heads=q_heads,
            kv_heads=kv_heads,
            k_width=k_width,
            v_width=v_width,
            window=_count(shape, "window"),
            sinks=count("sinks", shape.get("sinks", _DEFAULT_SINKS), low=0),
        )
    return FullAttention(
        layers=layers, q_heads=q_heads, kv_heads=kv_heads, k_width=k_width, v_width=v_width
    )


def _kv_heads(
    kind: AttentionKind | None,
    shape: Mapping[str, str],
    q_heads: int | None,
    base: FullAttention | None,
) -> int:
    """KV heads that the kind fixes, that were typed, or that the model has."""
    typed = _optional(shape, "kv_heads")
    fixed = q_heads if kind == "mha" else 1 if kind == "mqa" else None
    if fixed is not None:
        if typed is not None and typed != fixed:
            raise InputError("kv heads", typed, f"{fixed} for {kind}")
        return fixed
    if typed is not None:
        return typed
    if base is not None:
        return base.kv_heads
    if kind != "gqa" and q_heads is not None:
        return q_heads
    return _count(shape, "kv_heads")


def _latent(
    shape: Mapping[str, str], layers: int, q_heads: int | None, base: FullAttention | None
) -> LatentAttention:
    return LatentAttention(
        layers=layers,
        q_heads=q_heads,
        kv_lora_rank=_count(shape, "kv_lora_rank"),
        rope_dim=count("rope dim", _required(shape, "rope_dim"), low=0),
        nope_dim=base.k_width if base else _optional(shape, "head_dim"),
        v_head_dim=base.v_width if base else _optional(shape, "v_head_dim"),
    )


def _kind(shape: Mapping[str, str]) -> AttentionKind | None:
    """The attention kind: typed, or told by the fields that only one kind has."""
    kind = shape.get("attention")
    if kind is None:
        return "mla" if "kv_lora_rank" in shape else None
    if kind.lower() not in ATTENTION_KINDS:
        raise InputError("attention", kind, "one of " + ", ".join(ATTENTION_KINDS))
    return cast("AttentionKind", kind.lower())


def _required(shape: Mapping[str, str], name: str) -> str:
    if name not in shape:
        flag = name.replace("_", "-")
        raise InputError(name.replace("_", " "), None, f"given (--{flag} or --model)")
    return shape[name]


def _count(shape: Mapping[str, str], name: str) -> int:
    return count(name.replace("_", " "), _required(shape, name))


def _optional(shape: Mapping[str, str], name: str, *, low: int = 1) -> int | None:
    return count(name.replace("_", " "), shape[name], low=low) if name in shape else None
