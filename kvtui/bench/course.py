"""Runs the cases: limit, case, limit, case, limit; a failure is a line and not the end.

What a case needs is allocated when it begins and gone before the next begins.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import torch

from kvtui import host
from kvtui.bench.case import Case, Setup
from kvtui.bench.machine import Watch, machine, versions
from kvtui.bench.race import first_line, raced
from kvtui.bench.results import Left, Limit, Report, Row
from kvtui.bench.rows import Around, Taken, row
from kvtui.engine import limits, memory
from kvtui.engine.attention import backends
from kvtui.engine.kernels.compilation import Compilation
from kvtui.engine.plan import resolved_device
from kvtui.errors import InputError
from kvtui.session import flag_rules
from kvtui.units import GIB

FORMATS: Final = ("fp32", "bf16", "fp16")
_CPU_SWEEP: Final = GIB
"""Most bytes of one candidate's cache: an eighth of a second of SDPA, 32 desktop caches."""
_CUDA_SWEEP: Final = 36 * 10**9
"""64 sequences of 4,096 tokens of an 8-billion model in bf16 are 34 GB."""
_SWEEP_SHARE: Final = 4
_ROOM_SHARE: Final = 2
"""One candidate takes at most a quarter of what is available, all of a group at most half."""
_SECONDS: Final = 1.5
_TOUCH_S: Final = 10.0
"""To map the probe's pages: a bench waits longer for a true limit than a run does."""
_PASSES: Final = 3
"""Of the probe between two cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line asks for; None takes the rule."""

    cases: Sequence[Case]
    device: str = "auto"
    dtype: str | None = None
    threads: int | None = None
    sweep_bytes: int | None = None
    seconds: float | None = None
    time_limit_s: float | None = None
    probe_bytes: int | None = None


class Course:
    """One run of the bench."""

    def __init__(self, asked: Asked, say: Callable[[str], None] = lambda _: None) -> None:
        """Check every field; raises ``InputError`` or ``UnavailableError``, allocates nothing.

        ``say`` is told what happens next.
        """
        self._asked, self._say, self._begun = asked, say, perf_counter()
        self.device = resolved_device(asked.device)
        on_cuda = self.device.type == "cuda"
        self._dtype = asked.dtype or ("bf16" if on_cuda else "fp32")
        if self._dtype not in FORMATS:
            raise InputError("dtype", self._dtype, f"one of {', '.join(FORMATS)}")
        self._threads = _checked_threads(asked.threads, on_cuda=on_cuda)
        self._machine = machine(self.device, self._threads)
        self._rows: list[Row] = []
        self._skipped: list[Left] = []
        self._failed: list[Left] = []
        self._notes: list[str] = []

    def run(self, keep: Callable[[Report], None] = lambda _: None) -> Report:
        """All cases in turn; ``keep`` gets what is known after each."""
        if self.device.type == "cpu":
            torch.set_num_threads(self._threads)
        else:
            torch.cuda.set_device(self.device)
        watch = Watch(self.device)
        try:
            self._say("limit")
            size = self._asked.probe_bytes or limits.probe_bytes(
                self.device, self._machine.cache_bytes
            )
            probe = limits.Probe(self.device, size, touch_s=_TOUCH_S)
            first = last = probe.read_bytes_per_s()
            copy_first = copy_last = probe.copy_bytes_per_s()
            setup = self._setup(probe)
            self._doubts(first, probe.read_bytes, watch)
            for case in self._asked.cases:
                last = self._case(case, setup, watch, last)
                if case is self._asked.cases[-1]:
                    with suppress(RuntimeError):  # a device that has failed; its cases say why
                        copy_last = probe.copy_bytes_per_s()
                found = Limit(
                    before=first,
                    after=last,
                    copy_before=copy_first,
                    copy_after=copy_last,
                    probe_bytes=probe.read_bytes,
                )
                keep(self._report(found))
            return self._report(found)
        finally:
            watch.close()

    def _setup(self, probe: limits.Probe) -> Setup:
        on_cuda, available = self.device.type == "cuda", memory.available_bytes(self.device)
        compilation = Compilation()
        kernel = None
        if not on_cuda:
            self._say("kernel")
            kernel = compilation.load(self._threads)
        most = self._asked.sweep_bytes or (_CUDA_SWEEP if on_cuda else _CPU_SWEEP)
        return Setup(
            device=self.device,
            dtype=self._dtype,
            threads=self._threads,
            sweep_bytes=min(most, available // _SWEEP_SHARE),
            room_bytes=available // _ROOM_SHARE,
            seconds=_SECONDS if self._asked.seconds is None else self._asked.seconds,
            probe=probe,
            kernel=kernel,
            kernel_why=compilation.why or "The kernel is for CPUs.",
        )

    def _doubts(self, limit: float, probe_bytes: int, watch: Watch) -> None:
        if watch.why:
            self._notes.append(f"No NVML readings, so THROTTLED cannot be told: {watch.why}")
        for doubt in (
            flag_rules.implausible(limit, self._machine.peak_bytes_per_s),
            flag_rules.shallow(probe_bytes, self._machine.cache_bytes),
        ):
            if doubt is not None:
                self._notes.append(doubt)

    def _case(self, case: Case, setup: Setup, watch: Watch, before: float) -> float:
        """Run one case; the read limit after it."""
        why = self._unsuited(case)
        if why:
            self._skipped.append(Left(case=case.name, backend="", reason=why))
            return before
        self._say(case.name)
        taken: list[list[Taken]] = []
        after = before
        try:
            self._groups(case, setup, watch, taken)
            after = setup.probe.read_bytes_per_s(_PASSES)
        except (torch.OutOfMemoryError, MemoryError) as error:
            reason = f"Out of memory: {first_line(error)}"
            self._skipped.append(Left(case=case.name, backend="", reason=reason))
        except Exception as error:  # noqa: BLE001  # on an untried device anything; go on
            self._failed.append(Left(case=case.name, backend="", reason=first_line(error)))
        with suppress(RuntimeError):
            memory.release(self.device)
        around = Around(before, after)
        for group in taken:
            others = {one.candidate.name: one for one in group}
            self._rows += [row(one, others, around, setup, self._machine) for one in group]
        return after

    def _groups(self, case: Case, setup: Setup, watch: Watch, taken: list[list[Taken]]) -> None:
        """Race the groups; one is gone before the next is made."""
        groups = case.groups(setup)
        while True:
            with torch.inference_mode(), backends(self.device):
                group = next(groups, None)
            if group is None:
                return
            self._skipped += [
                Left(case=case.name, backend=one.name, reason=one.reason) for one in group.skipped
            ]
            seconds = setup.seconds if case.seconds is None else case.seconds
            found = raced(case.name, group, self.device, seconds, watch)
            del group
            memory.release(self.device)
            taken.append(found.taken)
            self._failed += found.failed

    def _unsuited(self, case: Case) -> str:
        """Why ``case`` cannot run now; empty when it can."""
        if case.only and case.only != self.device.type:
            return f"It is for a {case.only} device."
        limit = self._asked.time_limit_s
        if limit is not None and perf_counter() - self._begun > limit:
            return f"The time limit of {limit:g} s was reached before it."
        return ""

    def _report(self, limit: Limit) -> Report:
        return Report(
            machine=self._machine,
            versions=versions(),
            limit=limit,
            results=list(self._rows),
            skipped=list(self._skipped),
            failed=list(self._failed),
            notes=list(self._notes),
            seconds=perf_counter() - self._begun,
        )


def _checked_threads(asked: int | None, *, on_cuda: bool) -> int:
    """CPU threads: asked for, else all cores but one; one feeds a GPU."""
    cores = host.cores()
    if asked is None:
        return 1 if on_cuda else max(1, cores - 1)
    if not 1 <= asked <= cores:
        raise InputError("threads", asked, f"1 to {cores}, the cores of this machine")
    return asked
