"""What one attention layer held and gave, beside what recomputing the prefix holds and gives.

A proof that fails says only that two outputs differ. Here the same run is repeated with one layer
and attention alone (``work`` ``attention``): q, k and v are then columns of the input, nothing is
projected, and every query of every sequence can be set beside its keys, its cache and its output.
Nothing here judges; ``suspects`` does.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from kvtui.decode_run import DecodeRun
from kvtui.engine.attention import backends
from kvtui.engine.compute import ONE_THREAD, Compute
from kvtui.engine.decoder import Attention, Decoder
from kvtui.engine.layers import normalised
from kvtui.engine.plan import checked_dtype
from kvtui.engine.prefill import visible
from kvtui.engine.schedules import UNSCALED, Schedule
from kvtui.engine.workspace import prompts
from kvtui.spec import FullAttention, LatentAttention, LayerGroup, SinksWindow, SlidingWindow

Schedules = tuple[Schedule, Schedule]
"""Of the prompt, and of the steps after it."""
PLAIN: Schedules = (UNSCALED, UNSCALED)
_ULPS: Final = 4
"""Units in the last place that a reordered sum of attention may be off by in 16 bits."""
_DEFAULT_NOPE: Final = 128
"""Unrotated part of a DeepSeek-V2 or V3 head (arXiv:2405.04434), as the engine's layers take it."""


@dataclass(frozen=True, slots=True)
class Observed:
    """One query of one sequence. Tensors are fp32; axes are Hq, Hkv, n tokens, s slots, D."""

    position: int
    """Where the query stands; tokens after it exist only in a prompt."""
    tolerance: float
    """Relative difference that rounding in the run's format explains."""
    scale: float
    """Of the scores."""
    rotated: slice
    """Columns of q and k that carry the position."""
    sinks: int
    q: Tensor
    """``[Hq, D]`` as recomputed."""
    k: Tensor
    """``[Hkv, n, D]`` as recomputed."""
    v: Tensor
    """``[Hkv, n, Dv]`` as recomputed."""
    seen: Tensor
    """``[n]``: which tokens the query may see."""
    held_k: Tensor
    """``[Hkv, s, D]`` as the cache shows it, slots in any order."""
    held_v: Tensor
    """``[Hkv, s, Dv]``."""
    out: Tensor
    """``[Hq, Dv]`` that the cached path gave."""
    expected: Tensor
    """``[Hq, Dv]`` that recomputation gave."""
    q_anywhere: Tensor
    """``[Hq, places, D]``: this query as it would be at every position."""
    k_anywhere: Tensor
    """``[Hkv, n, places, D]``: every key as it would be at every position."""

    def close(self, found: Tensor, expected: Tensor) -> bool:
        """Equal but for rounding in the run's format; never where something is not finite."""
        allowed = self.tolerance * (0.1 + float(expected.abs().max()))
        return bool(((found - expected).abs() <= allowed).all())

    @property
    def differs(self) -> bool:
        """The two paths gave this query different outputs."""
        return not self.close(self.out, self.expected)


def observe(
    run: DecodeRun,
    device: torch.device,
    compute: Compute = ONE_THREAD,
    schedules: Schedules = PLAIN,
) -> Iterator[Observed]:
    """Every query of a run of one layer: the prompt's, then one a step, sequence by sequence."""
    narrow = replace(run, groups=(replace(run.groups[0], layers=1),), work="attention")
    with torch.inference_mode(), backends(device):
        decoder = Decoder(narrow, checked_dtype(run.dtype), device, compute=compute)
        decoder.reschedule(schedules[0])
        attention = decoder.layers[0].attention
        assert attention is not None
        generator = torch.Generator(device=device).manual_seed(run.seed)
        x = decoder.inputs(run.batch, run.target, generator)
        x[:, : run.whole_block_prefix] = x[:1, : run.whole_block_prefix]
        behind = run.behind or (0,) * run.batch
        prompt: dict[int, Tensor] = {}
        for rows, first, end in prompts(run, device):
            if first:
                decoder.share_prefix(rows.start)
            parts = attention.parts(normalised(x[rows, first:end]), first)
            out = attention.fill(parts, rows, first)
            prompt |= {row: out[index] for index, row in enumerate(range(run.batch)[rows])}
        decoder.filled(run.start)
        for row, out in prompt.items():
            end = run.start - behind[row]
            for index in range(out.shape[0]):
                position = end - out.shape[0] + index
                yield _one(decoder, attention, x[row : row + 1, :end], row, position, out[index])
        decoder.reschedule(schedules[1])
        for step in range(run.start, run.target):
            ends = [step - less + 1 for less in behind]
            token = torch.cat([x[row : row + 1, end - 1 : end] for row, end in enumerate(ends)])
            out = decoder.step(token, step)
            for row, end in enumerate(ends):
                yield _one(decoder, attention, x[row : row + 1, :end], row, end - 1, out[row, 0])


def _one(
    decoder: Decoder, attention: Attention, x: Tensor, row: int, position: int, out: Tensor
) -> Observed:
    group = decoder.run.groups[0]
    h = normalised(x)
    q, k, v = (part[0].float() for part in attention.parts(h, 0))
    expected = attention.recompute(h)[0, position]
    held_k, held_v = (part[0].float() for part in attention.cache.views(slice(row, row + 1)))
    tokens, q_heads = x.shape[1], q.shape[0]
    keys = torch.arange(tokens, device=x.device)
    window = group.window if isinstance(group, SlidingWindow) else None
    sinks = group.sinks if isinstance(group, SinksWindow) else 0
    places = 2 * decoder.run.target
    anywhere = [
        attention.parts(h[:, token : token + 1].expand(-1, places, -1), 0)
        for token in range(tokens)
    ]
    exact = decoder.dtype == torch.float32
    return Observed(
        position=position,
        tolerance=1e-4 if exact else _ULPS * torch.finfo(decoder.dtype).eps,
        scale=_scale(group),
        rotated=_rotated(group),
        sinks=sinks,
        q=q[:, position],
        k=k,
        v=v[..., : held_v.shape[-1]],
        seen=visible(keys[position : position + 1], keys, window, sinks)[0],
        held_k=held_k,
        held_v=held_v,
        out=out.float().unflatten(-1, (q_heads, -1)),
        expected=expected.float().unflatten(-1, (q_heads, -1)),
        q_anywhere=anywhere[position][0][0].float(),
        k_anywhere=torch.stack([parts[1][0].float() for parts in anywhere], dim=1),
    )


def _scale(group: LayerGroup) -> float:
    if isinstance(group, LatentAttention):
        return 1 / math.sqrt((group.nope_dim or _DEFAULT_NOPE) + group.rope_dim)
    assert isinstance(group, FullAttention)
    return 1 / math.sqrt(group.k_width)


def _rotated(group: LayerGroup) -> slice:
    """All of a head; of a latent row, the key at its end."""
    if isinstance(group, LatentAttention):
        return slice(group.kv_lora_rank, group.kv_lora_rank + group.rope_dim)
    return slice(None)
