"""Layers that read the cache of an earlier layer (Gemma 3n and 4)."""

from kvtui.errors import InputError
from kvtui.sources.facts import Facts
from kvtui.spec import FullAttention, LayerGroup, SharedCache, SlidingWindow


def first_shared_layer(facts: Facts, layers: int) -> int:
    """Layers from here on store no K and V: the last ``num_kv_shared_layers``."""
    shared = facts.count("num_kv_shared_layers", default=0, low=0)
    if shared >= layers:
        raise InputError("num_kv_shared_layers", shared, f"from 0 to {layers - 1}")
    return layers - shared


def sharing(layer: LayerGroup) -> SharedCache:
    """The same attention over the cache of the last layer of its type that stores one."""
    assert isinstance(layer, FullAttention)
    return SharedCache(
        layers=1,
        q_heads=layer.q_heads,
        kv_heads=layer.kv_heads,
        k_width=layer.k_width,
        v_width=layer.v_width,
        window=layer.window if isinstance(layer, SlidingWindow) else None,
    )
