"""Times candidates that are alive together, sweep by sweep in turn.

A sample is a few sweeps between two clock readings: one sweep where it takes long enough, as many
as fill some milliseconds where not. Within a round every candidate gives one sample, so that what
disturbs the machine disturbs all of them, and ratios are taken within rounds. On CUDA a pair of
events around each sample gives the time and nothing synchronises inside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter, perf_counter_ns, process_time_ns
from typing import Final

import torch

from kvtui.bench.case import Candidate, Group
from kvtui.engine import timing

_SAMPLE_NS: Final = 2_000_000
"""Below this a sample holds several sweeps: clock readings and launches would count."""
_CUDA_SAMPLE_NS: Final = 10_000_000
_MOST_REPEATS: Final = 1000
_MOST_ROUNDS: Final = 20_000
_FEWEST_ROUNDS: Final = 3
_PATIENCE_S: Final = 10.0
"""A group that is slower than was thought ends here, after its fewest rounds."""
_WARM_STEPS: Final = 10
_WARM_SECONDS: Final = 0.5
_WARM_AGREEMENT: Final = 0.02


@dataclass(slots=True)
class Samples:
    """What one candidate gave: one entry a round."""

    step_ms: list[float] = field(default_factory=list)
    """Device time of one step."""
    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    """Processor time of one step, of all threads: what others on the machine cannot lengthen by
    taking a core."""


def timed(group: Group, device: torch.device, seconds: float) -> list[Samples]:
    """Samples of every candidate: rounds in turn for ``seconds``, warm-up not counted.

    The group's least rounds are taken even where that takes longer, but not without end.
    """
    repeats = [warm_up(one, device) for one in group.candidates]
    found = [Samples() for _ in group.candidates]
    begun = perf_counter()
    for taken in range(_MOST_ROUNDS):
        spent = perf_counter() - begun
        if taken >= group.least_rounds and spent >= seconds:
            break
        if taken >= _FEWEST_ROUNDS and spent >= max(seconds, _PATIENCE_S):
            break
        for one, samples, times in zip(group.candidates, found, repeats, strict=True):
            device_ns, wall_ns, cpu_ns = _sample(one, times, device)
            samples.step_ms.append(device_ns / 1e6)
            samples.wall_ms.append(wall_ns / 1e6)
            samples.cpu_ms.append(cpu_ns / 1e6)
    return found


def warm_up(candidate: Candidate, device: torch.device) -> int:
    """Sweep until two medians agree within 2 %; how many sweeps fill a sample.

    Bounded by half a second, which on CUDA is also the least: clocks rise meanwhile. A sweep that
    takes longer is its own warm-up.
    """
    least = _WARM_SECONDS if device.type == "cuda" else 0.0
    begun, times, last = perf_counter(), [], None
    while True:
        times.append(_sample(candidate, 1, device)[0])
        spent = perf_counter() - begun
        if len(times) % _WARM_STEPS == 0:
            now = median(times[-_WARM_STEPS:])
            if last is not None and abs(now - last) <= _WARM_AGREEMENT * last and spent >= least:
                break
            last = now
        if spent >= _WARM_SECONDS:
            break
    wanted = _CUDA_SAMPLE_NS if device.type == "cuda" else _SAMPLE_NS
    return int(max(1, min(_MOST_REPEATS, wanted // max(1.0, median(times[-_WARM_STEPS:])))))


def _sample(candidate: Candidate, repeats: int, device: torch.device) -> tuple[float, float, float]:
    """Device, wall and processor time of one step, ns."""
    before = candidate.done() if candidate.done else 0
    clock = timing.timer(device)
    _settle(device)
    begun, used = perf_counter_ns(), process_time_ns()
    clock.begin()
    for _ in range(repeats):
        candidate.sweep()
    clock.end()
    ((spent, _),) = clock.drained(wait=True)
    wall, used = perf_counter_ns() - begun, process_time_ns() - used
    steps = candidate.done() - before if candidate.done else repeats
    return spent / steps, wall / steps, used / steps


def ratios(
    mine: Sequence[float], other: Sequence[float], work: float, others: float
) -> list[float]:
    """Work a second of one candidate over another's, round by round, from times of a step."""
    return [(work / own) / (others / its) for own, its in zip(mine, other, strict=True)]


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
