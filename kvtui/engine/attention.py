"""Attention of one new token over a cache, behind one function, and the dense reference.

The queries of a group become rows of one matrix, ``[B, Hkv, g, D]``, so that each KV head is read
once whatever SDPA does with ``enable_gqa`` (on a CPU it would read K and V once per query head).
There is no mask and no causal flag: the cache is sliced instead, and at one query token
``is_causal`` would hide all keys but the first. cuDNN is never a candidate on CUDA, since it plans
anew for every length. A further backend is one more branch of ``decode_attention``.
"""

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from kvtui.decode_run import GATHERING_BACKEND, IN_PLACE_TOKENS, CacheName
from kvtui.engine.prefill import visible

_CUDA_BACKENDS: Final = [
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]
_HALF: Final = (torch.bfloat16, torch.float16)
_MERGED_AT_ONCE: Final = 16
"""Chunks merged by one set of operators: few enough to stay small beside the cache."""
_LEAST_PART: Final = 512
"""Tokens of one part of a split cache: the block of torch's CPU kernel."""


def backends(device: torch.device) -> AbstractContextManager[None]:
    """The kernels SDPA may choose from on ``device``, in order."""
    if device.type != "cuda":
        return nullcontext()
    allowed: AbstractContextManager[None] = sdpa_kernel(_CUDA_BACKENDS, set_priority=True)
    return allowed


def decode_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None, threads: int = 1
) -> Tensor:
    """Attention of one token per sequence.

    Args:
        q: ``[B, Hq, 1, Dk]``.
        k: ``[B, Hkv, t, Dk]``, a view of the cache.
        v: ``[B, Hkv, t, Dv]``.
        scale: of the scores; 1/sqrt(Dk) when None. MLA passes that of the unabsorbed head.
        threads: CPU threads to keep busy.

    Returns:
        ``[B, Hq, 1, Dv]``; zeros where no key is visible.
    """
    batch, q_heads, _, width = q.shape
    kv_heads, tokens = k.shape[1], k.shape[2]
    if tokens == 0:
        return q.new_zeros(batch, q_heads, 1, v.shape[3])
    group = q_heads // kv_heads
    rows = q.reshape(batch, kv_heads, group, width)
    on_cpu = q.device.type == "cpu"
    if width != v.shape[3]:
        out = _matmul_attention(rows, k, v, scale)
    else:
        if group == 1 and on_cpu and q.dtype in _HALF:
            # One 16-bit query row falls off the fast path on a CPU; two rows stay on it.
            rows = rows.expand(batch, kv_heads, 2, width)
        parts = split_parts(batch * kv_heads, tokens, threads) if on_cpu else 1
        if parts > 1:
            out = _split_attention(rows, k, v, parts, scale)
        else:
            out = scaled_dot_product_attention(rows, k, v, scale=scale)
        out = out[:, :, :group]
    return out.reshape(batch, q_heads, 1, v.shape[3])


def split_parts(kv_heads: int, tokens: int, threads: int) -> int:
    """Parts to cut ``tokens`` into, so that ``kv_heads`` (of all sequences) occupy all threads.

    torch's CPU kernel has one task per KV head and never divides the tokens, so with fewer heads
    than threads cores would idle.
    """
    if kv_heads >= threads:
        return 1
    return max(1, min(-(-threads // kv_heads), tokens // _LEAST_PART))


def backend_name(
    device: torch.device,
    *,
    latent: bool,
    cache: CacheName = "contiguous",
    block: int = 1,
    quantised: str = "",
) -> str:
    """What the decode step asks of torch; which kernel ran is the profiler's to say."""
    whole = "whole" if device.type == "cuda" else "in chunks merged by log-sum-exp"
    if latent:
        return f"matmul pair, {'MLA expanded' if cache == 'expanded' else 'absorbed latent'}"
    if quantised:
        return f"{quantised} converted to fp32 {whole}, SDPA folded"
    if cache == "paged" and device.type != "cuda" and block >= IN_PLACE_TOKENS:
        return "blocks where they lie, SDPA folded, merged by log-sum-exp"
    if cache == "paged":
        return f"{GATHERING_BACKEND} {whole}, SDPA folded"
    if cache == "offload":
        return "cold chunks copied from the host, merged by log-sum-exp"
    if device.type == "cuda":
        return "SDPA folded (flash, efficient, math; no cuDNN)"
    return "SDPA folded"


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

    Args:
        q: ``[b, Hq, n, Dk]``, the last ``n`` tokens.
        k: ``[b, Hkv, t, Dk]``, all tokens.
        v: ``[b, Hkv, t, Dv]``.
        window: each token sees itself and ``window - 1`` before it; all when None.
        sinks: first tokens that every token sees as well.
        scale: of the scores; 1/sqrt(Dk) when None.

    Returns:
        ``[b, Hq, n, Dv]`` in fp32; rows that see no key are zeros.
    """
    group = q.shape[1] // k.shape[1]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    q, k, v = q.to(wide), k.to(wide), v.to(wide)
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    keys = torch.arange(k.shape[2], device=q.device)
    rows = torch.arange(k.shape[2] - q.shape[2], k.shape[2], device=q.device)
    seen = visible(rows, keys, window, sinks)
    scores = _scores(q, k, scale).masked_fill(~seen, -math.inf)
    weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)
    return weights @ v


def _scores(q: Tensor, k: Tensor, scale: float | None) -> Tensor:
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return (q * factor) @ k.transpose(-2, -1)


def _matmul_attention(rows: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
    """Two matrix products around a softmax in fp32, for K and V of different width."""
    scores = _scores(rows, k, scale)
    return torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype) @ v


def _split_attention(rows: Tensor, k: Tensor, v: Tensor, parts: int, scale: float | None) -> Tensor:
    """The cache as ``parts`` batch entries (a view), merged by their log-sum-exp.

    Args:
        rows: ``[B, Hkv, g, D]``.
        k: ``[B, Hkv, t, D]``.
        v: ``[B, Hkv, t, D]``.
        parts: at least 2 and at most ``t``.
        scale: of the scores.
    """
    length = k.shape[2] // parts
    whole = length * parts
    merged: list[Tensor] = []
    for row, keys, values in zip(rows, k, v, strict=True):
        outs, sums = _with_log_sum(
            row.expand(parts, -1, -1, -1),
            _parts(keys[:, :whole], parts),
            _parts(values[:, :whole], parts),
            scale,
        )
        if whole < k.shape[2]:
            rest = _with_log_sum(row[None], keys[None, :, whole:], values[None, :, whole:], scale)
            outs, sums = torch.cat((outs, rest[0])), torch.cat((sums, rest[1]))
        shares = torch.softmax(sums.float(), dim=0)[..., None]
        merged.append((outs * shares).sum(dim=0))
    return torch.stack(merged).to(rows.dtype)


def merged_attention(
    q: Tensor, chunks: Iterable[tuple[Tensor, Tensor]], *, scale: float | None = None
) -> Tensor:
    """Attention over a cache that comes in pieces, merged by their log-sum-exp as they come.

    Args:
        q: ``[B, Hq, 1, D]``.
        chunks: K and V of some tokens each, ``[B, Hkv, n, D]``; none of them is kept.
        scale: of the scores; 1/sqrt(D) when None.

    Returns:
        ``[B, Hq, 1, D]``; zeros where no chunk came.
    """
    batch, q_heads, _, width = q.shape
    outs: list[Tensor] = []
    sums: list[Tensor] = []
    for k, v in chunks:
        rows = q.reshape(batch, k.shape[1], -1, width)
        group = rows.shape[2]
        if group == 1 and q.dtype in _HALF and q.device.type == "cpu":
            rows = rows.expand(-1, -1, 2, -1)
        out, log_sum = _with_log_sum(rows, k, v, scale)
        outs.append(out[:, :, :group].float())
        sums.append(log_sum[:, :, :group].float())
        if len(outs) == _MERGED_AT_ONCE:
            outs, sums = _merged(outs, sums)
    if not outs:
        return torch.zeros_like(q)
    merged, _ = _merged(outs, sums)
    return merged[0].to(q.dtype).reshape(batch, q_heads, 1, width)


def _merged(outs: list[Tensor], sums: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """One output and log-sum-exp in place of several; lists, so that more can follow."""
    if len(outs) == 1:
        return outs, sums
    each = torch.stack(sums)
    total = each.logsumexp(dim=0)
    shares = (each - total).exp()[..., None]
    return [(torch.stack(outs) * shares).sum(dim=0)], [total]


def _parts(heads: Tensor, parts: int) -> Tensor:
    """``[Hkv, t, D]`` as ``[parts, Hkv, t / parts, D]``, without a copy."""
    return heads.view(heads.shape[0], parts, -1, heads.shape[2]).transpose(0, 1)


def _with_log_sum(q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> tuple[Tensor, Tensor]:
    """Attention and its log-sum-exp ``[b, h, n]``; on a CPU by torch's flash kernel.

    Elsewhere by two products and a softmax in fp32: what must be exact and is bound by a link.
    """
    if q.device.type != "cpu":
        scores = _scores(q.float(), k.float(), scale)
        return torch.softmax(scores, dim=-1) @ v.float(), scores.logsumexp(dim=-1)
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001
    out, log_sum = flash(q, k, v, scale=scale)
    return out, log_sum
