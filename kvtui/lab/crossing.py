"""The length from which the cached path overtakes recomputation, measured.

Short requests need not show a gain (tutorial, failure scenarios): the cached path pays a prefill
and a step's fixed cost. So both paths are timed over a sweep of prompt lengths, and the crossing is
interpolated between the last length at which recomputation was no slower and the next one.

The tutorial's recomputation is dense attention in a dozen operations, each with its fixed cost;
the same prefix through the fused attention of a prefill is timed beside it, since that is what a
runtime without a cache would do.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch

from kvtui.engine.attention import backends
from kvtui.engine.decoder import Decoder
from kvtui.engine.plan import resolved_device
from kvtui.lab.reference import Experiment, Shape

ON_CPU_LENGTHS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
ON_CUDA_LENGTHS: Final = (*ON_CPU_LENGTHS, 512, 1024, 2048)


@dataclass(frozen=True, slots=True)
class Timed:
    """One prompt length: medians of nine rounds, all steps together."""

    tokens: int
    prefill_ms: float
    recompute_ms: float
    """Dense attention over the whole prefix at every step."""
    fused_ms: float
    """The whole prefix through the prefill's attention at every step."""
    cached_ms: float
    """The steps after the prefill."""


@dataclass(frozen=True, slots=True)
class Overtaking:
    """From where on one path is the faster one."""

    tokens: float | None
    """Interpolated; the shortest length measured when it leads throughout; None when never."""
    told: str


@dataclass(frozen=True, slots=True)
class Crossing:
    """The sweep and what it shows."""

    steps: int
    """Decoded after each prompt."""
    lengths: list[Timed]
    path: Overtaking
    """Prefill and cached steps against recomputed steps."""
    fused: Overtaking
    """Prefill and cached steps against the fused recomputation."""
    steps_alone: Overtaking
    """Cached steps against recomputed steps."""


def run(shape: Shape, device_name: str = "auto", lengths: Sequence[int] | None = None) -> Crossing:
    """Sweep ``shape`` over prompt ``lengths``, rising."""
    device = resolved_device(device_name)
    if lengths is None:
        lengths = ON_CUDA_LENGTHS if device.type == "cuda" else ON_CPU_LENGTHS
    found = []
    with torch.inference_mode():
        for tokens in lengths:
            paths = Experiment(replace(shape, prompt=tokens), device)
            times = paths.medians_ms(paths.prefill, paths.recompute, _fused(paths), paths.decode)
            found.append(Timed(tokens, *times))
    return Crossing(
        steps=shape.steps,
        lengths=found,
        path=overtaking(
            [(one.tokens, one.recompute_ms, one.prefill_ms + one.cached_ms) for one in found]
        ),
        fused=overtaking(
            [(one.tokens, one.fused_ms, one.prefill_ms + one.cached_ms) for one in found]
        ),
        steps_alone=overtaking([(one.tokens, one.recompute_ms, one.cached_ms) for one in found]),
    )


def _fused(paths: Experiment) -> Callable[[], None]:
    """Every prefix of the experiment's steps as a prompt of its own."""
    shape = paths.shape
    run = replace(paths.decoder.run, cache="contiguous")
    decoder = Decoder(run, torch.float32, paths.device)

    def refill() -> None:
        with backends(paths.device):
            for end in range(shape.prompt + 1, shape.prompt + shape.steps + 1):
                for _ in decoder.fill(paths.x[:, :end], slice(0, shape.batch), 0):
                    pass

    return refill


def overtaking(timed: Sequence[tuple[int, float, float]]) -> Overtaking:
    """From which length on the second time is below the first, for good within the sweep.

    Args:
        timed: length in tokens and both times, lengths rising.

    Between two lengths the logarithm of the ratio is taken as linear in that of the length.
    """
    behind = [index for index, (_, first, second) in enumerate(timed) if second >= first]
    if not behind:
        shortest = timed[0][0]
        return Overtaking(float(shortest), f"at {shortest:,} already, the shortest measured")
    last = behind[-1]
    if last == len(timed) - 1:
        return Overtaking(None, f"not within {timed[-1][0]:,}")
    (short, *before), (long, *after) = timed[last], timed[last + 1]
    low, high = math.log(before[1] / before[0]), math.log(after[1] / after[0])
    share = low / (low - high)
    tokens = short * (long / short) ** share
    return Overtaking(tokens, f"from {tokens:,.1f}, between {short:,} and {long:,} measured")
