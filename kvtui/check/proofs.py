"""The proofs: cached equals recomputed, predicted equals allocated, which kernel ran.

Equality is checked at every step against full recomputation with dense attention in fp32. The
bound in fp32 is the tutorial's (rtol 1e-4, atol 1e-5); in 16 bits it is that many units in the last
place of the largest value that layers of rounding can add up to.
"""

import math
from collections.abc import Iterator
from typing import Final

import torch

from kvtui.check.results import Result
from kvtui.engine.attention import dense_attention
from kvtui.engine.caches.quantised import Int8Cache
from kvtui.engine.decoder import Decoder
from kvtui.engine.plan import resolved_device
from kvtui.engine.run import Run
from kvtui.lab import capacity
from kvtui.spec import (
    CacheName,
    DecodeRun,
    FullAttention,
    LatentAttention,
    LayerGroup,
    SinksWindow,
    SlidingWindow,
)

SUSPECTS: Final = "look at: position id, causal mask, head mapping, append axis, dtype"
"""The tutorial's order of suspects when the two paths differ."""
_LAYERS: Final = 2
_BLOCK: Final = 5
"""Divides neither the prompt nor the length, so that blocks are left partly filled."""
_ULPS: Final = 4
"""Units in the last place that two layers of projections, attention and residual sums may differ
by in 16 bits, beside recomputation that rounds in another order."""
_HEADS: Final = {"layers": _LAYERS, "q_heads": 8, "k_width": 16, "v_width": 16}
KINDS: Final[dict[str, LayerGroup]] = {
    "mha": FullAttention(kv_heads=8, **_HEADS),
    "gqa": FullAttention(kv_heads=2, **_HEADS),
    "mqa": FullAttention(kv_heads=1, **_HEADS),
    "window": SlidingWindow(kv_heads=2, window=9, **_HEADS),
    "sinks": SinksWindow(kv_heads=2, window=7, sinks=2, **_HEADS),
    "mla": LatentAttention(
        layers=_LAYERS, q_heads=8, kv_lora_rank=32, rope_dim=8, nope_dim=16, v_head_dim=16
    ),
}
_DTYPES: Final = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def prove(device_name: str) -> Iterator[Result]:
    """Every proof on one device, as it is had."""
    device = resolved_device(device_name)
    caches: tuple[CacheName, ...] = ("contiguous", "paged", "concat")
    for cache in caches:
        for kind, group in KINDS.items():
            for dtype in _DTYPES:
                yield equality(cache, kind, group, dtype, device)
    for kind in ("mha", "gqa", "mqa"):
        yield quantised_error(kind, device)
    for case in capacity.CASES:
        yield allocation(case, device_name)
    for kind in ("gqa", "mla"):
        yield evidence(kind, device_name)


def equality(
    cache: CacheName, kind: str, group: LayerGroup, dtype: str, device: torch.device
) -> Result:
    """Cached decoding against recomputation, at every step past a wrapped window."""
    if cache != "contiguous" and type(group) is not FullAttention:
        return _result(cache, kind, dtype, "skipped", None, None, f"{cache} holds full layers only")
    run = DecodeRun(
        groups=(group,), batch=2, start=8, target=24, dtype=dtype, cache=cache, block=_BLOCK
    )
    worst, bound = 0.0, 0.0
    with torch.inference_mode():
        decoder = Decoder(run, _DTYPES[dtype], device)
        generator = torch.Generator(device=device).manual_seed(run.seed)
        x = decoder.inputs(run.batch, run.target, generator)
        for _ in decoder.fill(x[:, : run.start], slice(0, run.batch), 0):
            pass
        decoder.filled(run.start)
        for position in range(run.start, run.target):
            step = decoder.step(x[:, position : position + 1], position).float()
            expected = decoder.recompute(x[:, : position + 1]).float()
            largest = float(expected.abs().max())
            allowed = (
                1e-5 + 1e-4 * largest
                if dtype == "fp32"
                else _ULPS * torch.finfo(_DTYPES[dtype]).eps * largest
            )
            difference = float((step - expected).abs().max())
            if difference != difference or difference / allowed > worst / (bound or 1.0):
                worst, bound = difference, allowed
            if not difference <= allowed:
                where = f"T = {position + 1}: {SUSPECTS}"
                return _result(cache, kind, dtype, "failed", difference, allowed, where)
    return _result(cache, kind, dtype, "passed", worst, bound, "")


def quantised_error(kind: str, device: torch.device) -> Result:
    """Attention over the int8 cache against exact attention, within the bound of its step size.

    No value is off by more than half a step. With K's half step e_k a score is off by at most
    d = |q|_1 e_k / sqrt(D), so weights move by at most a factor exp(2d); with V's half step e_v the
    output moves by at most (exp(2d) - 1) max|V| + e_v.
    """
    group = KINDS[kind]
    assert isinstance(group, FullAttention)
    assert group.q_heads is not None
    generator = torch.Generator(device=device).manual_seed(7)

    def drawn(heads: int, tokens: int) -> torch.Tensor:
        shape = (2, heads, tokens, group.k_width)
        return torch.randn(shape, device=device, generator=generator)

    tokens, worst, bound = 1100, 0.0, 1.0
    k, v = drawn(group.kv_heads, tokens), drawn(group.kv_heads, tokens)
    cache = Int8Cache(2, group.kv_heads, tokens, group.k_width, group.v_width, device=device)
    with torch.inference_mode():
        cache.fill(slice(0, 2), 0, k[:, :, :-4], v[:, :, :-4])
        cache.filled(tokens - 4)
        for position in range(tokens - 4, tokens):
            cache.append(k[:, :, position : position + 1], v[:, :, position : position + 1])
            seen_k, seen_v = k[:, :, : position + 1], v[:, :, : position + 1]
            q = drawn(group.q_heads, 1)
            error = float((cache.attend(q) - dense_attention(q, seen_k, seen_v)).abs().max())
            half_k, half_v = float(seen_k.abs().max()) / 254, float(seen_v.abs().max()) / 254
            off = float(q.abs().sum(-1).max()) * half_k / math.sqrt(group.k_width)
            allowed = math.expm1(2 * off) * float(seen_v.abs().max()) + half_v
            if error / allowed >= worst / bound:
                worst, bound = error, allowed
    status = "passed" if worst <= bound else "failed"
    return _result(
        "contiguous", kind, "int8", status, worst, bound, "" if worst <= bound else "dtype"
    )


def allocation(case: capacity.Case, device_name: str) -> Result:
    """The formula against a tensor that was written through, and the memory's increase."""
    found = capacity.run(case, device_name)
    on_cuda = resolved_device(device_name).type == "cuda"
    # CUDA's allocator is exact; a resident set counts pages and whatever else moved.
    bound = 0.0 if on_cuda else max(2**24, 0.02 * found.formula_bytes)
    if not found.tensor_bytes:
        return _allocated(case, "skipped", None, bound, found.skipped)
    apart = abs((found.increase_bytes or 0) - found.formula_bytes)
    exact = found.tensor_bytes == found.formula_bytes and apart <= bound and not found.skipped
    scaled = "" if found.tokens == case.tokens else f"scaled to T = {found.tokens:,}"
    return _allocated(
        case, "passed" if exact else "failed", float(apart), bound, found.skipped or scaled
    )


def evidence(kind: str, device_name: str) -> Result:
    """The kernel that the profiler saw in one step."""
    run = Run(DecodeRun(groups=(KINDS[kind],), batch=1, start=8, target=16, device=device_name))
    run.allocate()
    kernel = run.evidence().kernel
    run.release()
    return Result(
        name="kernel evidence",
        cache="contiguous",
        attention=kind,
        dtype="fp32",
        status="passed" if kernel else "failed",
        error=None,
        bound=None,
        suspect=kernel or "the profiler saw no kernel",
    )


def _result(
    cache: str,
    kind: str,
    dtype: str,
    status: str,
    error: float | None,
    bound: float | None,
    suspect: str,
) -> Result:
    return Result(
        name="cached equals recomputed",
        cache=cache,
        attention=kind,
        dtype=dtype,
        status=status,  # type: ignore[arg-type]  # one of three, spelled at the call
        error=error,
        bound=bound,
        suspect=suspect,
    )


def _allocated(
    case: capacity.Case, status: str, error: float | None, bound: float, suspect: str
) -> Result:
    return Result(
        name="predicted equals allocated",
        cache="one tensor",
        attention=case.name.lower(),
        dtype="fp16",
        status=status,  # type: ignore[arg-type]  # one of three, spelled at the call
        error=error,
        bound=bound,
        suspect=suspect,
    )
