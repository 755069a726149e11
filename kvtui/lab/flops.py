"""How much each path computes: the tutorial's attention count, and the lesson's projection count.

Recomputing works on the whole prefix again at every step, the cache on the prompt once and then on
one token a step. Only the two leading terms are counted; softmax, masks and copies are not.
"""

from typing import NamedTuple


class Flops(NamedTuple):
    """FLOPs of one path."""

    attention: int
    """Scores and weighted values: 4 x Hq x D for each pair of tokens (tutorial, prefill and decode
    apart): the whole square of a prefix, as dense attention computes it."""
    projections: int
    """Q, K, V and O: 2 x H x (2 Hq D + 2 Hkv D) for each token that passes through."""

    @property
    def total(self) -> int:
        """Both terms."""
        return self.attention + self.projections


def recomputed(
    *, batch: int, prompt: int, steps: int, hidden: int, q_heads: int, kv_heads: int, head_dim: int
) -> Flops:
    """Path A: sum over the steps of (Tp + j)^2 pairs and Tp + j tokens."""
    lengths = range(prompt + 1, prompt + steps + 1)
    return Flops(
        4 * q_heads * head_dim * batch * sum(length * length for length in lengths),
        4 * hidden * (q_heads + kv_heads) * head_dim * batch * sum(lengths),
    )


def cached(
    *, batch: int, prompt: int, steps: int, hidden: int, q_heads: int, kv_heads: int, head_dim: int
) -> Flops:
    """Path B: Tp^2 pairs for the prompt, Tp + j a step; every token projected once."""
    lengths = range(prompt + 1, prompt + steps + 1)
    return Flops(
        4 * q_heads * head_dim * batch * (prompt * prompt + sum(lengths)),
        4 * hidden * (q_heads + kv_heads) * head_dim * batch * (prompt + steps),
    )


def kv_projections(width: int, tokens: int, *, once: bool) -> int:
    """K and V of ``tokens`` tokens: 4 d^2 each, once, or anew for the whole prefix at every step.

    The lesson's counterfactual (section 3.1) without a cache: sum of 4 d^2 t, about 2 d^2 T^2.
    """
    return 4 * width**2 * (tokens if once else tokens * (tokens + 1) // 2)
