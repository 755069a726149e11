"""The tutorial's reference experiment: full recomputation against incremental decoding.

Identical weights and inputs on both paths; prefill, recomputation and cached decoding timed apart
with three warm-ups, nine rounds, a synchronised device on both sides of each, medians. The cached
path is the tutorial's own ``torch.cat`` cache, recomputation its dense attention.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import Final

import torch
from torch import Tensor

from kvtui.decode_run import DecodeRun
from kvtui.engine import memory
from kvtui.engine.attention import backends
from kvtui.engine.decoder import Decoder
from kvtui.engine.plan import resolved_device
from kvtui.lab import flops
from kvtui.lab.peaks import Peak, peak
from kvtui.spec import FullAttention

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
"""The shape whose figures the tutorial reports."""
ON_CPU: Final = Shape(2, 64, 8, 512, 8, 2, 64)
"""The shape its code takes without CUDA."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one shape gave."""

    shape: Shape
    cache_shape: tuple[int, ...]
    max_abs_difference: float
    prefill_ms: float
    recompute_ms: float
    """All steps."""
    cached_ms: float
    """All steps, the prompt's cache being there."""
    theoretical_bytes: int
    held_bytes: int
    peak_recompute: Peak
    peak_cached: Peak
    """Prefill and decoding."""
    peak_decode: Peak
    """Decoding alone, above the prompt's cache."""
    allocated_bytes: int | None
    """After the run, weights and inputs included; None on a CPU."""
    reserved_bytes: int | None
    recompute_flops: int
    """Attention, all steps."""
    cached_flops: int
    recompute_projection_flops: int
    cached_projection_flops: int


class Experiment:
    """Both paths over one set of weights and inputs."""

    def __init__(self, shape: Shape, device: torch.device) -> None:
        """Make weights, the cache and hidden states ``[B, Tp + steps, H]``."""
        self.shape, self.device = shape, device
        self._end = shape.prompt + shape.steps
        run = DecodeRun(
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
            target=self._end,
            hidden_size=shape.hidden,
            cache="concat",
        )
        self.decoder = Decoder(run, torch.float32, device)
        generator = torch.Generator(device=device).manual_seed(run.seed)
        self.x = self.decoder.inputs(shape.batch, self._end, generator)

    def prefill(self) -> None:
        """The prompt once, into the cache."""
        prompt = self.x[:, : self.shape.prompt]
        with backends(self.device):
            for _ in self.decoder.fill(prompt, slice(0, self.shape.batch), 0):
                pass
        self.decoder.filled(self.shape.prompt)

    def recompute(self) -> list[Tensor]:
        """Path A: the whole prefix at every step; the last token's outputs."""
        ends = range(self.shape.prompt + 1, self._end + 1)
        return [self.decoder.recompute(self.x[:, :end]) for end in ends]

    def decode(self) -> list[Tensor]:
        """Path B after ``prefill``: one token a step."""
        with backends(self.device):
            return [
                self.decoder.step(self.x[:, position : position + 1], position)
                for position in range(self.shape.prompt, self._end)
            ]

    def prefill_and_decode(self) -> None:
        """All of path B."""
        self.prefill()
        self.decode()

    def medians_ms(self, *works: Callable[[], object]) -> list[float]:
        """Median of nine rounds after three warm-ups of each work, timed apart.

        Within a round they take turns, so that whatever else the machine does meets all alike;
        decoding finds the prompt's cache there, made before it untimed.
        """
        samples: list[list[float]] = [[] for _ in works]
        for index in range(WARM_UPS + ROUNDS):
            for work, times in zip(works, samples, strict=True):
                if work == self.decode:
                    self.prefill()
                self._synchronise()
                begun = perf_counter()
                work()
                self._synchronise()
                if index >= WARM_UPS:
                    times.append((perf_counter() - begun) * 1e3)
        return [median(times) for times in samples]

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def run(shape: Shape, device_name: str = "auto") -> Outcome:
    """Run the experiment for ``shape``; raises AssertionError when the two paths differ."""
    device = resolved_device(device_name)
    with torch.inference_mode():
        paths = Experiment(shape, device)
        full = paths.recompute()
        paths.prefill()
        cached = paths.decode()
        for step, expected in zip(cached, full, strict=True):
            torch.testing.assert_close(step, expected, rtol=1e-4, atol=1e-5)
        difference = max(
            float((step - expected).abs().max())
            for step, expected in zip(cached, full, strict=True)
        )
        keys, _ = paths.decoder.caches[0].views()
        held = paths.decoder.held_bytes
        del full, cached
        times = paths.medians_ms(paths.prefill, paths.recompute, paths.decode)
        peak_recompute = peak(paths.recompute, device)
        peak_cached = peak(paths.prefill_and_decode, device)
        paths.prefill()
        peak_decode = peak(paths.decode, device)
        after = memory.readout(device)
        a, b = flops.recomputed(**asdict(shape)), flops.cached(**asdict(shape))
        tokens = shape.batch * (shape.prompt + shape.steps)
        return Outcome(
            shape=shape,
            cache_shape=tuple(keys.shape),
            max_abs_difference=difference,
            prefill_ms=times[0],
            recompute_ms=times[1],
            cached_ms=times[2],
            theoretical_bytes=2 * tokens * shape.kv_heads * shape.head_dim * 4,
            held_bytes=held,
            peak_recompute=peak_recompute,
            peak_cached=peak_cached,
            peak_decode=peak_decode,
            allocated_bytes=after.allocated_bytes,
            reserved_bytes=after.reserved_bytes,
            recompute_flops=a.attention,
            cached_flops=b.attention,
            recompute_projection_flops=a.projections,
            cached_projection_flops=b.projections,
        )
