"""The tutorial's reference experiment: full recomputation against incremental decoding.

Identical weights and inputs on both paths; prefill, recomputation and cached decoding timed apart
with three warm-ups, nine rounds, a synchronised device on both sides of each, medians. The cached
path is the tutorial's own ``torch.cat`` cache.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Final

import torch
from torch import Tensor

from kvtui.engine import memory
from kvtui.engine.decoder import Decoder
from kvtui.engine.plan import resolved_device
from kvtui.spec import DecodeRun, FullAttention

WARM_UPS: Final = 3
ROUNDS: Final = 9


@dataclass(frozen=True, slots=True)
class Shape:
    """One run of the experiment: B, prompt, decode steps, H, Hq, Hkv, D."""

    batch: int
    prompt: int
    steps: int
    hidden: int
    q_heads: int
    kv_heads: int
    head_dim: int


SMALL: Final = Shape(1, 8, 5, 16, 4, 2, 4)
"""The example that can be checked by hand: a cache of [1, 2, 13, 4]."""
ON_CUDA: Final = Shape(2, 256, 32, 512, 8, 2, 64)
ON_CPU: Final = Shape(2, 64, 8, 512, 8, 2, 64)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one shape gave; peaks are of CUDA's allocator and None on a CPU."""

    shape: Shape
    cache_shape: tuple[int, ...]
    max_abs_difference: float
    prefill_ms: float
    recompute_ms: float
    cached_ms: float
    theoretical_bytes: int
    held_bytes: int
    peak_recompute: tuple[int, int] | None
    """Allocated and reserved above what was there before, bytes."""
    peak_cached: tuple[int, int] | None
    recompute_flops: int
    cached_flops: int


def run(shape: Shape, device_name: str = "auto") -> Outcome:
    """Run the experiment for ``shape``; raises AssertionError when the two paths differ."""
    device = resolved_device(device_name)
    wanted = DecodeRun(
        groups=(
            FullAttention(
                layers=1,
                q_heads=shape.q_heads,
                kv_heads=shape.kv_heads,
                k_width=shape.head_dim,
                v_width=shape.head_dim,
            ),
        ),
        batch=shape.batch,
        start=shape.prompt,
        target=shape.prompt + shape.steps,
        hidden_size=shape.hidden,
        cache="concat",
    )
    with torch.inference_mode():
        decoder = Decoder(wanted, torch.float32, device)
        generator = torch.Generator(device=device).manual_seed(wanted.seed)
        x = decoder.inputs(shape.batch, wanted.target, generator)

        def prefill() -> None:
            for _ in decoder.fill(x[:, : shape.prompt], slice(0, shape.batch), 0):
                pass
            decoder.filled(shape.prompt)

        def recompute() -> list[Tensor]:
            return [
                decoder.recompute(x[:, : position + 1])
                for position in range(shape.prompt, wanted.target)
            ]

        def decode() -> list[Tensor]:
            return [
                decoder.step(x[:, position : position + 1], position)
                for position in range(shape.prompt, wanted.target)
            ]

        def prefill_and_decode() -> None:
            prefill()
            decode()

        full = recompute()
        prefill()
        cached = decode()
        for step, expected in zip(cached, full, strict=True):
            torch.testing.assert_close(step, expected, rtol=1e-4, atol=1e-5)
        difference = max(
            float((step - expected).abs().max())
            for step, expected in zip(cached, full, strict=True)
        )
        keys, _ = decoder.caches[0].views()
        held = decoder.held_bytes
        return Outcome(
            shape=shape,
            cache_shape=tuple(keys.shape),
            max_abs_difference=difference,
            prefill_ms=_median_ms(prefill, device),
            recompute_ms=_median_ms(recompute, device),
            cached_ms=_median_ms(decode, device, before=prefill),
            theoretical_bytes=2 * shape.batch * wanted.target * shape.kv_heads * shape.head_dim * 4,
            held_bytes=held,
            peak_recompute=_peaks(recompute, device),
            peak_cached=_peaks(prefill_and_decode, device),
            recompute_flops=_flops(shape, recomputed=True),
            cached_flops=_flops(shape, recomputed=False),
        )


def _flops(shape: Shape, *, recomputed: bool) -> int:
    """The tutorial's count of the attention term: pairs of tokens, 4 x Hq x D x B FLOPs each.

    Recomputing attends over the whole prefix at every step, sum of (Tp + j)^2; the cache pays the
    prompt once, Tp^2, and then Tp + j a step.
    """
    lengths = range(shape.prompt + 1, shape.prompt + shape.steps + 1)
    pairs = (
        sum(length * length for length in lengths)
        if recomputed
        else shape.prompt * shape.prompt + sum(lengths)
    )
    return 4 * shape.q_heads * shape.head_dim * shape.batch * pairs


def _median_ms(
    work: Callable[[], object],
    device: torch.device,
    *,
    before: Callable[[], object] | None = None,
) -> float:
    """Median of nine rounds after three warm-ups; ``before`` is run untimed each time."""
    samples = []
    for index in range(WARM_UPS + ROUNDS):
        if before is not None:
            before()
        _synchronise(device)
        begun = perf_counter()
        work()
        _synchronise(device)
        if index >= WARM_UPS:
            samples.append((perf_counter() - begun) * 1e3)
    return median(samples)


def _peaks(work: Callable[[], object], device: torch.device) -> tuple[int, int] | None:
    """Allocated and reserved peaks above the present, on CUDA."""
    if device.type != "cuda":
        return None
    memory.release(device)
    base = memory.readout(device)
    memory.begin_peak_window(device)
    work()
    _synchronise(device)
    peak = memory.readout(device)
    return (
        (peak.peak_allocated_bytes or 0) - (base.allocated_bytes or 0),
        (peak.peak_reserved_bytes or 0) - (base.reserved_bytes or 0),
    )


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
