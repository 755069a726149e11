"""Positions: cached equals recomputed under every RoPE schedule, and never across a change of one.

A schedule is part of what a cached K means (KV cache tutorial, misconceptions): keys written under
position interpolation, NTK-aware interpolation or YaRN are not readable under another. So the proof
has two halves. With one schedule throughout it must pass; with the schedule changed between prefill
and decode it must fail and accuse the position, which shows that a pass means something. Both are
proven in fp32: in bf16 what NTK-aware interpolation changes in a short latent prompt is no more
than rounding may.
"""

from collections.abc import Iterator
from typing import Final

import torch

from kvtui.check.proofs import KINDS, equality, small_run
from kvtui.check.results import Result
from kvtui.decode_run import CacheName
from kvtui.engine.schedules import UNSCALED, Interpolated, NtkAware, Schedule, Yarn
from kvtui.errors import InputError

FACTOR: Final = 4.0
"""How far the context is stretched: enough to tell schedules apart within a prompt of 8 tokens."""
_TRAINED: Final = 512
"""YaRN's trained context: pairs of the small heads are left alone, blended and interpolated."""
SCHEDULES: Final[dict[str, Schedule]] = {
    one.name: one
    for one in (
        UNSCALED,
        Interpolated(factor=FACTOR),
        NtkAware(factor=FACTOR),
        Yarn(factor=FACTOR, trained_context=_TRAINED),
    )
}
_HELD: Final[tuple[tuple[CacheName, str], ...]] = (
    ("contiguous", "gqa"),
    ("paged", "gqa"),
    ("contiguous", "window"),
    ("contiguous", "sinks"),
    ("contiguous", "mla"),
)
"""Each way to keep a rotated key; the plain schedule is proven for all caches in ``proofs``."""


def prove_positions(device: torch.device) -> Iterator[Result]:
    """Both halves, for each schedule and each way to keep a rotated key."""
    for name, schedule in SCHEDULES.items():
        if schedule != UNSCALED:
            yield from positions_under(name, name, device)
            for kind in ("gqa", "mla"):
                yield noticed(kind, UNSCALED.name, name, device)


def positions_under(prompt: str, steps: str, device: torch.device) -> Iterator[Result]:
    """Each way to keep a rotated key, filled under one schedule and decoded under another."""
    for cache, kind in _HELD:
        yield agreement(cache, kind, prompt, steps, device)


def agreement(
    cache: CacheName, kind: str, prompt: str, steps: str, device: torch.device, dtype: str = "fp32"
) -> Result:
    """Cached equals recomputed, the prompt filled under one schedule and decoded under another.

    Raises:
        InputError: no schedule has that name.
    """
    for name in (prompt, steps):
        if name not in SCHEDULES:
            raise InputError("RoPE schedule", name, f"one of {', '.join(SCHEDULES)}")
    label = prompt if prompt == steps else f"{prompt}>{steps}"
    return equality(
        small_run(cache, KINDS[kind], dtype),
        f"{kind} {label}",
        device,
        schedules=(SCHEDULES[prompt], SCHEDULES[steps]),
    )


def noticed(kind: str, prompt: str, steps: str, device: torch.device) -> Result:
    """The proof fails when the schedule changes after prefill, and names the position.

    ``error`` is what the change did to the output, ``bound`` what the proof would have allowed.
    """
    found = agreement("contiguous", kind, prompt, steps, device)
    named = found.status == "failed" and found.suspect.startswith("position")
    return Result(
        name="schedule change noticed",
        cache=found.cache,
        attention=found.attention,
        dtype=found.dtype,
        status="passed" if named else "failed",
        error=found.error,
        bound=found.bound,
        suspect=found.suspect or "the outputs agree although the schedule changed",
    )
