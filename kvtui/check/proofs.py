"""The proofs: cached equals recomputed, predicted equals allocated, which kernel ran.

Equality is checked at every step against full recomputation with dense attention in fp32. The
bound in fp32 is the tutorial's (rtol 1e-4, atol 1e-5); in 16 bits it is that many units in the last
place of the largest value that layers of rounding can add up to.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import torch

from kvtui.check.observed import PLAIN, Schedules, observe
from kvtui.check.results import Result
from kvtui.check.suspects import suspect
from kvtui.decode_run import CacheName, DecodeRun
from kvtui.engine.attention import backends, dense_attention
from kvtui.engine.caches import QUANTISED, check_cache
from kvtui.engine.caches.codecs import HEADROOM, INT4_GROUP
from kvtui.engine.caches.quantised import QuantisedCache
from kvtui.engine.compute import ONE_THREAD, Compute
from kvtui.engine.decoder import Decoder
from kvtui.engine.kernels.compilation import Compilation
from kvtui.engine.plan import resolved_device
from kvtui.engine.run import Run
from kvtui.engine.workspace import prompts
from kvtui.errors import InputError
from kvtui.lab import capacity
from kvtui.spec import FullAttention, LatentAttention, LayerGroup, SinksWindow, SlidingWindow

if TYPE_CHECKING:
    from kvtui.engine.kernels.cpu import CpuKernel

SUSPECTS: Final = "look at: position id, causal mask, head mapping, append axis, dtype"
"""The tutorial's order of suspects when the two paths differ."""
_LAYERS: Final = 2
_START: Final = 8
_TARGET: Final = 24
_RAGGED: Final = (24, 19, 17)
_PREFIX: Final = 7
"""Of which one whole block is shared."""
_HOT: Final = 6
_MERGED: Final = 1e-5
"""Chunks merged by log-sum-exp in fp32 against the dense reference."""
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


def prove(device_name: str, *, at_most_bytes: int | None = None) -> Iterator[Result]:
    """Every proof on one device but those of positions, as it is had.

    ``at_most_bytes`` bounds the tensors of the allocation proofs.
    """
    device = resolved_device(device_name)
    kernel = _kernel(device)
    caches: tuple[CacheName, ...] = ("contiguous", "paged", "concat", "offload")
    for cache in caches:
        for kind, group in KINDS.items():
            for dtype in _DTYPES:
                yield equality(small_run(cache, group, dtype), kind, device)
    for cache in caches[:2]:
        for dtype in _DTYPES:
            ragged = small_run(cache, KINDS["gqa"], dtype, lengths=_RAGGED)
            yield equality(ragged, "gqa ragged", device)
    for dtype in _DTYPES:
        yield equality(small_run("expanded", KINDS["mla"], dtype), "mla expanded", device)
    for dtype in _DTYPES:
        shared = small_run("paged", KINDS["gqa"], dtype, shared_prefix=_PREFIX)
        yield equality(shared, "gqa prefix", device)
    yield from kernel_equalities(kernel, device)
    for kind in ("mha", "gqa", "mqa"):
        for dtype in QUANTISED:
            yield quantised_error(kind, dtype, device)
    for case in capacity.CASES:
        yield allocation(case, device_name, at_most_bytes=at_most_bytes)
    for kind in ("gqa", "mla"):
        yield evidence(kind, device_name)


def kernel_equalities(kernel: "CpuKernel | None", device: torch.device) -> Iterator[Result]:
    """The CPU kernel over every cache it takes; skipped where it cannot be had."""
    taken: list[tuple[CacheName, str]] = [("paged", "gqa")]
    taken += [("contiguous", kind) for kind in ("mha", "gqa", "mqa", "window", "sinks")]
    for cache, kind in taken:
        for dtype in ("fp32", "bf16"):
            run = small_run(cache, KINDS[kind], dtype)
            if kernel is None:
                why = "no CPU kernel: numba is missing, or the device is no CPU"
                yield _result(run, f"{kind} kernel", "skipped", None, None, why)
            else:
                yield equality(run, f"{kind} kernel", device, Compute(kernel=kernel))


def _kernel(device: torch.device) -> "CpuKernel | None":
    return Compilation().load(1) if device.type == "cpu" else None


def small_run(
    cache: CacheName,
    group: LayerGroup,
    dtype: str,
    *,
    lengths: tuple[int, ...] = (),
    shared_prefix: int = 0,
) -> DecodeRun:
    """The run that a proof repeats: past a wrapped window, blocks partly filled."""
    return DecodeRun(
        groups=(group,),
        batch=len(lengths) or 2,
        start=_START,
        target=_TARGET,
        dtype=dtype,
        cache=cache,
        block=_BLOCK,
        hot=_HOT,
        lengths=lengths,
        shared_prefix=shared_prefix,
    )


def equality(
    run: DecodeRun,
    kind: str,
    device: torch.device,
    compute: Compute = ONE_THREAD,
    *,
    schedules: Schedules = PLAIN,
) -> Result:
    """Cached decoding against recomputation, at every step past a wrapped window.

    A run that fails is repeated to find out which of the tutorial's suspects it was.
    """
    try:
        check_cache(run)
    except InputError as error:
        return _result(run, kind, "skipped", None, None, f"{error.field} {error.value}: full only")
    worst, bound = 0.0, 0.0
    dtype = _DTYPES[run.dtype]
    with torch.inference_mode(), backends(device):
        decoder = Decoder(run, dtype, device, compute=compute)
        decoder.reschedule(schedules[0])
        generator = torch.Generator(device=device).manual_seed(run.seed)
        x = decoder.inputs(run.batch, run.target, generator)
        x[:, : run.whole_block_prefix] = x[:1, : run.whole_block_prefix]
        for rows, first, end in prompts(run, device):
            if first:
                decoder.share_prefix(rows.start)
            for _ in decoder.fill(x[rows, first:end], rows, first):
                pass
        decoder.filled(run.start)
        decoder.reschedule(schedules[1])
        behind = run.behind or (0,) * run.batch
        for position in range(run.start, run.target):
            each = [(x[row : row + 1], position - less + 1) for row, less in enumerate(behind)]
            token = torch.cat([one[:, end - 1 : end] for one, end in each])
            step = decoder.step(token, position).float()
            expected = torch.cat([decoder.recompute(one[:, :end]) for one, end in each]).float()
            largest = float(expected.abs().max())
            allowed = (
                1e-5 + 1e-4 * largest
                if run.dtype == "fp32"
                else _ULPS * torch.finfo(dtype).eps * largest
            )
            difference = float((step - expected).abs().max())
            if difference != difference or difference / allowed > worst / (bound or 1.0):
                worst, bound = difference, allowed
            if not difference <= allowed:
                accused = _accused(run, position + 1, device, compute, schedules)
                return _result(run, kind, "failed", difference, allowed, accused)
    return _result(run, kind, "passed", worst, bound, "")


def _accused(
    run: DecodeRun, tokens: int, device: torch.device, compute: Compute, schedules: Schedules
) -> str:
    """Which suspect made ``run`` differ at ``tokens``, as far as trying each can tell."""
    found = suspect(observe(run, device, compute, schedules))
    if found is not None:
        return str(found)
    if run.dtype != "fp32":
        exact = equality(replace(run, dtype="fp32"), "", device, compute, schedules=schedules)
        if exact.status == "passed":
            return f"dtype: equal in fp32, so it is how {run.dtype} rounds, at T = {tokens}"
    return f"undetermined: T = {tokens}, and attention alone accuses none; {SUSPECTS}"


def quantised_error(kind: str, dtype: str, device: torch.device) -> Result:
    """A quantised cache: no stored value further off than half a step, and attention over those.

    The first compares what the cache reads back with what it was given; the second its attention
    with the dense reference over what it reads back. Together they bound the whole error.
    """
    group = KINDS[kind]
    assert isinstance(group, FullAttention)
    assert group.q_heads is not None
    generator = torch.Generator(device=device).manual_seed(7)

    def drawn(heads: int, tokens: int) -> torch.Tensor:
        shape = (2, heads, tokens, group.k_width)
        # Bounded, so that static scales (with headroom over the prompt) never saturate.
        return torch.randn(shape, device=device, generator=generator).clamp_(-3, 3)

    run, tokens = small_run("contiguous", group, dtype), 1100
    k, v = drawn(group.kv_heads, tokens), drawn(group.kv_heads, tokens)
    widths = (group.k_width, group.v_width)
    cache = QuantisedCache(2, group.kv_heads, tokens, *widths, dtype=dtype, device=device)
    with torch.inference_mode():
        cache.fill(slice(0, 2), 0, k[:, :, :-4], v[:, :, :-4])
        cache.filled(tokens - 4)
        for position in range(tokens - 4, tokens):
            cache.append(k[:, :, position : position + 1], v[:, :, position : position + 1])
        worst, bound = 0.0, 1.0
        for stored, given in zip(cache.views(), (k, v), strict=True):
            apart, allowed = (stored - given).abs(), half_steps(dtype, given)
            at = int((apart / allowed).argmax())
            if float((apart / allowed).flatten()[at]) >= worst / bound:
                worst, bound = float(apart.flatten()[at]), float(allowed.flatten()[at])
        if not worst <= bound:
            return _result(run, kind, "failed", worst, bound, "dtype: a value is too far off")
        q = drawn(group.q_heads, 1)
        apart = (cache.attend(q) - dense_attention(q, *cache.views())).abs()
    if not float(apart.max()) <= _MERGED:
        suspect = "head mapping or append axis: attention differs from that over what is stored"
        return _result(run, kind, "failed", float(apart.max()), _MERGED, suspect)
    return _result(run, kind, "passed", worst, bound, "")


def half_steps(dtype: str, rows: torch.Tensor) -> torch.Tensor:
    """How far each stored value of ``rows`` ``[B, Hkv, n, D]`` may be off.

    int8 and int4 have even steps; int4's fp16 scale and least value are rounded by 2**-11 of
    themselves. fp8 E4M3 has three bits of mantissa, so half a step is 2**-4 of the value, and
    2**-10 of its scale below 2**-6 (OCP 8-bit floating point). fp32 arithmetic adds an ulp or two.
    """
    size = rows.abs()
    rounding = 1e-6 * size + 1e-7
    if dtype == "int4":
        groups = rows.unflatten(-1, (-1, min(INT4_GROUP, rows.shape[-1])))
        spread = (groups.amax(-1, keepdim=True) - groups.amin(-1, keepdim=True)).expand_as(groups)
        least = groups.amin(-1, keepdim=True).abs().expand_as(groups)
        off: torch.Tensor = spread / 30 + (2 * spread + 2 * least) * 2**-11
        return off.flatten(-2) + rounding
    axes = {"fp8": (0, 1, 2, 3), "fp8-head": (0, 2, 3), "int8-channel": (0, 2)}.get(dtype, (3,))
    headroom = 1.0 if axes == (3,) else HEADROOM
    largest = headroom * size.amax(axes, keepdim=True)
    if dtype.startswith("fp8"):
        return size / 16 + largest / 448 * 2**-10 + rounding
    return (largest / 254).expand_as(rows) + rounding


def allocation(
    case: capacity.Case, device_name: str, *, at_most_bytes: int | None = None
) -> Result:
    """The formula against a tensor that was written through, and the memory's increase."""
    found = capacity.run(case, device_name, at_most_bytes=at_most_bytes)
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
    run: DecodeRun,
    kind: str,
    status: str,
    error: float | None,
    bound: float | None,
    suspect: str,
) -> Result:
    return Result(
        name="cached equals recomputed",
        cache=run.cache,
        attention=kind,
        dtype=run.dtype,
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
