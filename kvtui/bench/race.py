"""One group: each candidate's output checked, all timed in turn, then their kernels named.

A candidate that fails or whose output is wrong leaves the race with its reason; the others go on.
"""

from dataclasses import dataclass, field, replace

import torch

from kvtui.bench.case import Candidate, Group
from kvtui.bench.launches import Launches, launches
from kvtui.bench.machine import Watch
from kvtui.bench.measure import timed
from kvtui.bench.reference import Compared, compared
from kvtui.bench.results import Left
from kvtui.bench.rows import Taken
from kvtui.engine.attention import backends
from kvtui.engine.evidence import attention_kernel


@dataclass(slots=True)
class Raced:
    """What a group gave."""

    taken: list[Taken] = field(default_factory=list)
    failed: list[Left] = field(default_factory=list)


def raced(case: str, group: Group, device: torch.device, seconds: float, watch: Watch) -> Raced:
    """Check and time ``group``; nothing of what it returns holds a tensor."""
    found = Raced()
    fit: list[tuple[Candidate, Compared | None]] = []
    with torch.inference_mode(), backends(device):
        for one in group.candidates:
            try:
                verdict = compared(one.check) if one.check else None
                if verdict is not None and not verdict.right:
                    found.failed.append(Left(case=case, backend=one.name, reason=_wrong(verdict)))
                    continue
                fit.append((one, verdict))
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                found.failed.append(Left(case=case, backend=one.name, reason=first_line(error)))
        if not fit:
            return found
        still = replace(group, candidates=tuple(one for one, _ in fit))
        samples = timed(still, device, seconds)
        gpu = watch.reading()
        for (one, verdict), each in zip(fit, samples, strict=True):
            # Asked last: a profiler that has run once slows every launch after it.
            kernel, launched = _seen(one, device)
            found.taken.append(Taken(case, _emptied(one), each, verdict, kernel, launched, gpu))
    return found


def first_line(error: BaseException) -> str:
    """An error as one line, with its kind."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}"[:300] if text else type(error).__name__


def _wrong(verdict: Compared) -> str:
    return (
        f"Its output differs from dense attention in fp32 by {verdict.error:.3g}, more than "
        f"{verdict.bound:.3g}; its time would mean nothing."
    )


def _seen(one: Candidate, device: torch.device) -> tuple[str | None, Launches | None]:
    """What ran, and how much of it; nothing where the profiler may not look."""
    try:
        return _kernel(one, device), launches(one.sweep, device)
    except RuntimeError:
        return None, None


def _kernel(one: Candidate, device: torch.device) -> str | None:
    """The kernel of one layer's attention."""
    if one.kernel is not None:
        return one.kernel()
    if one.check is None:
        return None
    return attention_kernel(one.check.output, device).kernel


def _emptied(one: Candidate) -> Candidate:
    """``one`` without anything that holds its tensors."""
    return replace(one, sweep=lambda: None, check=None, kernel=None, done=None)
