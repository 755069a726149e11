"""Attention of one new token over a cache, and of a prompt over itself, behind one function each.

Decode: the queries of a group become rows of one matrix, ``[B, Hkv, g, D]``, so that each KV head
is read once whatever SDPA does with ``enable_gqa`` (on a CPU it would read K and V once per query
head). There is no mask and no causal flag: the cache is sliced instead, and at one query token
``is_causal`` would hide all keys but the first. cuDNN is never a candidate on CUDA, since it plans
anew for every length.
"""

import math
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

_CUDA_BACKENDS = [
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]
_PREFILL_ROWS = 256
"""Query rows of one block of the masked prefill; bounds its scores."""
_HALF = (torch.bfloat16, torch.float16)


def backends(device: torch.device) -> AbstractContextManager[None]:
    """The kernels SDPA may choose from on ``device``, in order."""
    if device.type != "cuda":
        return nullcontext()
    allowed: AbstractContextManager[None] = sdpa_kernel(_CUDA_BACKENDS, set_priority=True)
    return allowed


def decode_attention(q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None) -> Tensor:
    """Attention of one token per sequence.

    Args:
        q: ``[B, Hq, 1, Dk]``.
        k: ``[B, Hkv, t, Dk]``, a view of the cache.
        v: ``[B, Hkv, t, Dv]``.
        scale: of the scores; 1/sqrt(Dk) when None. MLA passes that of the unabsorbed head.

    Returns:
        ``[B, Hq, 1, Dv]``; zeros where no key is visible.
    """
    batch, q_heads, _, width = q.shape
    kv_heads, tokens = k.shape[1], k.shape[2]
    if tokens == 0:
        return q.new_zeros(batch, q_heads, 1, v.shape[3])
    group = q_heads // kv_heads
    rows = q.reshape(batch, kv_heads, group, width)
    if width != v.shape[3]:
        out = _matmul_attention(rows, k, v, scale)
    elif group == 1 and q.device.type == "cpu" and q.dtype in _HALF:
        # One 16-bit query row falls off the fast path on a CPU; two rows stay on it.
        doubled = rows.expand(batch, kv_heads, 2, width)
        out = scaled_dot_product_attention(doubled, k, v, scale=scale)[:, :, :1]
    else:
        out = scaled_dot_product_attention(rows, k, v, scale=scale)
    return out.reshape(batch, q_heads, 1, v.shape[3])


def backend_name(device: torch.device, *, latent: bool) -> str:
    """What the decode step asks for; which kernel ran is the profiler's to say."""
    if latent:
        return "matmul pair, absorbed latent"
    if device.type == "cuda":
        return "SDPA folded (flash, efficient, math; no cuDNN)"
    return "SDPA folded"


def prefill_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    window: int | None = None,
    sinks: int = 0,
    scale: float | None = None,
) -> Tensor:
    """Causal attention of a prompt over itself.

    Args:
        q: ``[b, Hq, n, Dk]``.
        k: ``[b, Hkv, n, Dk]``.
        v: ``[b, Hkv, n, Dv]``.
        window: each token sees itself and ``window - 1`` before it; all when None.
        sinks: first tokens that every token sees as well.
        scale: of the scores; 1/sqrt(Dk) when None.

    Returns:
        ``[b, Hq, n, Dv]``.
    """
    group = q.shape[1] // k.shape[1]
    tokens = q.shape[2]
    bounded = window is not None and window < tokens
    shared = q.device.type == "cpu" or q.dtype in _HALF
    if not bounded and q.shape[3] == v.shape[3] and shared:
        return scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=scale, enable_gqa=group > 1
        )
    if group > 1:
        # In fp32 on CUDA, enable_gqa falls to the kernel that writes all scores.
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    if not bounded and q.shape[3] == v.shape[3]:
        return scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
    key_positions = torch.arange(tokens, device=q.device)
    parts = []
    for first in range(0, tokens, _PREFILL_ROWS):
        rows = q[:, :, first : first + _PREFILL_ROWS]
        positions = torch.arange(first, first + rows.shape[2], device=q.device)
        visible = _visible(positions, key_positions, window, sinks)
        scores = _scores(rows, k, scale).masked_fill(~visible, -math.inf)
        parts.append(torch.softmax(scores, dim=-1).to(v.dtype) @ v)
    return torch.cat(parts, dim=2)


def dense_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    window: int | None = None,
    sinks: int = 0,
    scale: float | None = None,
) -> Tensor:
    """The reference: full scores in fp32 (fp64 stays), heads repeated, every mask written out.

    Shapes as ``prefill_attention``. Rows that see no key give zeros, as the framework does.
    """
    group = q.shape[1] // k.shape[1]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    q, k, v = q.to(wide), k.to(wide), v.to(wide)
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    keys = torch.arange(k.shape[2], device=q.device)
    rows = torch.arange(k.shape[2] - q.shape[2], k.shape[2], device=q.device)
    visible = _visible(rows, keys, window, sinks)
    scores = _scores(q, k, scale).masked_fill(~visible, -math.inf)
    weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)
    return weights @ v


def _visible(rows: Tensor, keys: Tensor, window: int | None, sinks: int) -> Tensor:
    """Which keys ``[n_k]`` each row position ``[n_q]`` may see: ``[n_q, n_k]``."""
    distance = rows[:, None] - keys[None, :]
    seen = distance >= 0
    if window is not None:
        recent = distance < window
        if sinks:
            # The ring holds ``window`` tokens beside the sinks.
            recent = recent | (keys[None, :] < sinks)
        seen = seen & recent
    return seen


def _scores(q: Tensor, k: Tensor, scale: float | None) -> Tensor:
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return (q * factor) @ k.transpose(-2, -1)


def _matmul_attention(rows: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
    """Two matrix products around a softmax in fp32, for K and V of different width."""
    scores = _scores(rows, k, scale)
    return torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype) @ v
