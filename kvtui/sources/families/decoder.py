"""The usual decoder: attention and an MLP in every layer, and the ways families vary it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kvtui.sources.draft import Draft
from kvtui.sources.windows import attention_layer, attention_types
from kvtui.spec import NoCache

LayerMlp = Callable[[Draft, int], None]
"""Adds the MLP or the experts of one layer."""


def dense_mlp(draft: Draft, layer: int) -> None:  # noqa: ARG001 - every layer alike
    """A gated MLP, biased where ``mlp_bias`` says so."""
    draft.mlp(draft.facts.inner, bias=draft.facts.flag("mlp_bias"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Style:
    """How a family's decoder differs from Llama's."""

    qkv_bias: bool | None = None
    """Bias of the Q, K and V projections; None takes ``attention_bias``."""
    o_bias: bool | None = None
    """Bias of the output projection; None takes ``attention_bias``."""
    bias_default: bool = False
    """``attention_bias`` where the file does not give it."""
    qk_norm: Literal["none", "head", "all heads", "each head"] = "none"
    """Norms of Q and K: one of a head's width, one over all heads, or one for each head."""
    layer_norms: int = 2
    """Norms of the residual width in a layer."""
    sinks: bool = False
    """One learned logit per query head; no cache."""
    tied: bool = False
    """``tie_word_embeddings`` where the file does not give it."""
    window_pattern: int = 0
    """Default of ``sliding_window_pattern``."""
    mlp: LayerMlp = dense_mlp


def decoder(draft: Draft, style: Style) -> None:
    """Lay out a model of ``style``."""
    facts = draft.facts
    draft.embedding()
    kv_heads = facts.kv_heads_per_layer(facts.layers)
    for layer, kind in enumerate(attention_types(facts, pattern=style.window_pattern)):
        if kv_heads[layer]:
            attention(draft, style, kind, kv_heads=kv_heads[layer])
        else:
            draft.cache(NoCache(layers=1))
        style.mlp(draft, layer)
        draft.norm("layer norm", facts.hidden, copies=style.layer_norms)
    draft.norm("final norm", facts.hidden)
    draft.head(tied=style.tied)


def attention(draft: Draft, style: Style, kind: str, *, kv_heads: int) -> None:
    """One layer's attention of the file's head width."""
    facts = draft.facts
    q_heads, width = facts.q_heads, facts.head_dim
    draft.cache(
        attention_layer(
            facts, kind, q_heads=q_heads, kv_heads=kv_heads, k_width=width, v_width=width
        )
    )
    given = facts.flag("attention_bias", default=style.bias_default)
    projections(
        draft,
        q_heads=q_heads,
        kv_heads=kv_heads,
        k_width=width,
        v_width=width,
        qkv_bias=given if style.qkv_bias is None else style.qkv_bias,
        o_bias=given if style.o_bias is None else style.o_bias,
    )
    if style.qk_norm == "head":
        draft.norm("q and k norm", width, copies=2)
    elif style.qk_norm == "all heads":
        draft.norm("q norm", q_heads * width)
        draft.norm("k norm", kv_heads * width)
    elif style.qk_norm == "each head":
        draft.norm("q norm", q_heads, width)
        draft.norm("k norm", kv_heads, width)
    if style.sinks:
        draft.weight("sinks", "attention", q_heads)


def projections(
    draft: Draft,
    *,
    q_heads: int,
    kv_heads: int,
    k_width: int,
    v_width: int,
    qkv_bias: bool = False,
    o_bias: bool = False,
    q_factor: int = 1,
) -> None:
    """Q, K, V and output matrices; ``q_factor`` 2 adds a gate as wide as Q."""
    hidden = draft.facts.hidden
    draft.linear("q", "attention", q_factor * q_heads * k_width, hidden, bias=qkv_bias)
    draft.linear("k", "attention", kv_heads * k_width, hidden, bias=qkv_bias)
    draft.linear("v", "attention", kv_heads * v_width, hidden, bias=qkv_bias)
    draft.linear("o", "attention", hidden, q_heads * v_width)
    if o_bias:
        draft.weight("o bias", "attention", hidden, sharded=False)
