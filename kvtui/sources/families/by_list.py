"""Unknown families whose files still say which layers own a cache.

Weights are not counted for these: only what the file states of its cache is.
"""

from kvtui.errors import InputError
from kvtui.sources.draft import Draft
from kvtui.sources.facts import Facts
from kvtui.spec import FullAttention, IndexedLatent, NoCache, SharedCache

_STATE = ("linear_num_value_heads", "linear_key_head_dim", "mamba_d_state", "ssm_state_size")


def has_state(draft: Draft) -> bool:
    """The file gives the shape of a recurrent state."""
    return any(draft.facts.has(name) for name in _STATE)


def interval_only(draft: Draft) -> None:
    """Every ``full_attention_interval``-th layer keeps all tokens; no state shape is given."""
    facts = draft.facts
    draft.weights_known = False
    every = facts.count("full_attention_interval")
    for layer in range(facts.layers):
        draft.cache(_heads(facts) if layer % every == every - 1 else NoCache(layers=1))
    facts.warn(
        "The file gives no shape of the state of its other layers: their state and the weights "
        "are not counted."
    )


def shared_by_list(draft: Draft) -> None:
    """Layers in ``kv_source_layer_ids`` own K and V, those in ``index_source_layer_ids`` a key."""
    facts = draft.facts
    draft.weights_known = False
    layers = facts.layers
    owners = _ids(facts, "kv_source_layer_ids", layers)
    indexed = _ids(facts, "index_source_layer_ids", layers)
    heads = _heads(facts)
    for _ in owners:
        draft.cache(heads)
    for _ in indexed:
        width = facts.count("index_head_dim")
        draft.cache(IndexedLatent(layers=1, kv_lora_rank=0, rope_dim=0, index_width=width))
    others = layers - len(owners) - len(indexed)
    for _ in range(max(0, others)):
        draft.cache(
            SharedCache(
                layers=1,
                q_heads=heads.q_heads,
                kv_heads=heads.kv_heads,
                k_width=heads.k_width,
                v_width=heads.v_width,
            )
        )
    facts.warn(
        f"{len(owners)} of {layers} layers own K and V and {len(indexed)} an index key, as the "
        "file lists them; the others read theirs. Weights are not counted."
    )


def _heads(facts: Facts) -> FullAttention:
    return FullAttention(
        layers=1,
        q_heads=facts.q_heads,
        kv_heads=facts.kv_heads,
        k_width=facts.head_dim,
        v_width=facts.head_dim,
    )


def _ids(facts: Facts, name: str, layers: int) -> list[int]:
    """Layer numbers, each within the model and named once."""
    found = facts.counts(name) or []
    if len(set(found)) != len(found) or any(one >= layers for one in found):
        raise InputError(name, found, f"different layer numbers from 0 to {layers - 1}")
    return found
