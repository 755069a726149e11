"""One live run on its device: allocated, prefilled, warmed up, and decoded step by step.

Steps come from a generator that can be held or stopped at every boundary; warm-up and prefill are
never among them. What is checked before anything is allocated is in ``plan``.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from threading import Event
from time import perf_counter
from typing import Final

import torch

from kvtui.engine import memory
from kvtui.engine.attention import backend_name, backends
from kvtui.engine.decoder import Decoder
from kvtui.engine.evidence import KernelEvidence, attention_kernel
from kvtui.engine.plan import (
    INPUTS,
    PREFILL_TOKENS,
    Need,
    check_shapes,
    checked_dtype,
    engine_threads,
    needed,
    resolved_device,
)
from kvtui.engine.timing import timer
from kvtui.spec import DecodeRun, EndReason

_WARM_STEPS: Final = 10
_WARM_SECONDS: Final = 0.5
_WARM_AGREEMENT: Final = 0.02
_FINITE_EVERY: Final = 64


@dataclass(frozen=True, slots=True)
class StepFigures:
    """One measured step."""

    index: int
    """Counted from 1."""
    tokens: int
    """Cache length per sequence after it."""
    held_bytes: int
    device_ns: int
    wall_ns: int
    kv_bytes: int
    """Cache bytes read once, plus those appended."""
    weight_bytes: int


class Control:
    """How another thread holds, resumes and stops a run; asked at every boundary."""

    def __init__(self) -> None:
        """Free to run."""
        self._go, self._stop = Event(), Event()
        self._go.set()

    def hold(self) -> None:
        """Pause at the next boundary."""
        self._go.clear()

    def resume(self) -> None:
        """Go on."""
        self._go.set()

    def stop(self) -> None:
        """End at the next boundary, held or not."""
        self._stop.set()
        self._go.set()

    @property
    def stopped(self) -> bool:
        """A stop was asked for."""
        return self._stop.is_set()

    @property
    def held(self) -> bool:
        """A pause was asked for."""
        return not self._go.is_set()

    def wait(self) -> None:
        """Return once the run may go on or must stop."""
        self._go.wait()


class Run:
    """A checked run on its device; call ``allocate``, ``prefill``, ... in order."""

    def __init__(self, run: DecodeRun) -> None:
        """Check every field; raises ``InputError`` or ``UnavailableError``, allocates nothing."""
        self.device = resolved_device(run.device)
        self.dtype = checked_dtype(run.dtype)
        check_shapes(run)
        self.run = run
        self.threads = engine_threads(run, self.device)
        self.end: tuple[EndReason, str] = ("stopped", "The run was not started.")
        self._decoder: Decoder | None = None
        self._x = torch.empty(0)
        self._spent_s = 0.0

    # -- before anything is allocated ------------------------------------------------------

    def need(self) -> Need:
        """What the run takes, beside what is available."""
        return needed(self.run, self.dtype, self.device)

    # -- the run ---------------------------------------------------------------------------

    @property
    def decoder(self) -> Decoder:
        """The allocated stack."""
        assert self._decoder is not None, "allocate() comes first"
        return self._decoder

    @property
    def backend(self) -> str:
        """What the decode step asks for."""
        return backend_name(self.device, latent=self.decoder.latent)

    def allocate(self) -> None:
        """Make weights, caches and inputs; every page of the cache is touched once."""
        if self.device.type == "cpu":
            torch.set_num_threads(self.threads)
        memory.begin_peak_window(self.device)
        with torch.inference_mode():
            self._decoder = Decoder(self.run, self.dtype, self.device)
            for cache in self._decoder.caches:
                for tensor in cache.tensors:
                    tensor.zero_()
            generator = torch.Generator(device=self.device).manual_seed(self.run.seed + 1)
            self._x = self._decoder.inputs(self.run.batch, INPUTS, generator)

    def prefill(self, control: Control) -> float | None:
        """Fill the cache with ``start`` tokens per sequence; ms, None when stopped meanwhile."""
        run, decoder = self.run, self.decoder
        rows = max(1, PREFILL_TOKENS // run.start)
        generator = torch.Generator(device=self.device).manual_seed(run.seed + 2)
        spent = 0.0
        with torch.inference_mode(), backends(self.device):
            for first in range(0, run.batch, rows):
                chosen = slice(first, min(run.batch, first + rows))
                x = decoder.inputs(chosen.stop - chosen.start, run.start, generator)
                self._synchronise()
                begun = perf_counter()
                for _ in decoder.fill(x, chosen):
                    if control.held:
                        spent += perf_counter() - begun
                        control.wait()
                        begun = perf_counter()
                    if control.stopped:
                        self.end = ("stopped", "Stopped during prefill.")
                        return None
                self._synchronise()
                spent += perf_counter() - begun
            decoder.filled(run.start)
        return spent * 1e3

    def warm_up(self, control: Control) -> int:
        """Step in place until two medians agree within 2 %; the number of steps taken."""
        taken, times, last = 0, [], None
        began = perf_counter()
        while perf_counter() - began < _WARM_SECONDS and not control.stopped:
            begun = perf_counter()
            self._in_place()
            self._synchronise()
            times.append(perf_counter() - begun)
            taken += 1
            if len(times) == _WARM_STEPS:
                now = median(times)
                if last is not None and abs(now - last) <= _WARM_AGREEMENT * last:
                    break
                times, last = [], now
        return taken

    def evidence(self) -> KernelEvidence:
        """The attention kernel that ran in one more step in place."""
        return attention_kernel(self._in_place, self.device)

    def steps(self, control: Control) -> Iterator[StepFigures]:
        """Decode from ``start`` to ``target``; ``end`` says afterwards why it ended."""
        run, decoder, clock = self.run, self.decoder, timer(self.device)
        waiting: deque[tuple[int, int, int, int]] = deque()
        weight_bytes = decoder.weights_bytes
        self.end = ("target", f"Reached T = {run.target:,}.")
        bad = torch.zeros((), dtype=torch.bool, device=self.device)
        resumed = perf_counter()
        for index, position in enumerate(range(run.start, run.target), start=1):
            if control.held and not control.stopped:
                self._spent_s += perf_counter() - resumed
                control.wait()
                resumed = perf_counter()
                clock.resume()
            if control.stopped:
                self.end = ("stopped", "Stopped at a step boundary.")
                break
            if run.time_limit_s and self._spent_s + perf_counter() - resumed > run.time_limit_s:
                self.end = ("stopped", f"Ended by the clock after {run.time_limit_s:g} s.")
                break
            with torch.inference_mode(), backends(self.device):
                clock.begin()
                out = decoder.step(self._x.narrow(1, index % INPUTS, 1), position)
                clock.end()
                if index % _FINITE_EVERY == 0 or position + 1 == run.target:
                    bad.logical_or_(~torch.isfinite(out).all())
            held = decoder.held_bytes
            waiting.append((index, position + 1, held, held + decoder.appended_bytes))
            if self.device.type == "cpu" and index % _FINITE_EVERY == 0 and bool(bad):
                self.end = ("nan", f"The output is not finite at T = {position + 1:,}.")
                break
            for device_ns, wall_ns in clock.drained():
                yield _figures(waiting.popleft(), device_ns, wall_ns, weight_bytes)
        for device_ns, wall_ns in clock.drained(wait=True):
            yield _figures(waiting.popleft(), device_ns, wall_ns, weight_bytes)
        if bool(bad):
            self.end = ("nan", "The output is not finite.")

    def _in_place(self) -> None:
        """One step whose token is taken back, so that the next one stands where it stood."""
        with torch.inference_mode(), backends(self.device):
            self.decoder.step(self._x.narrow(1, 0, 1), self.run.start)
            self.decoder.rewind()

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def release(self) -> None:
        """Free everything the run holds."""
        self._decoder, self._x = None, torch.empty(0)
        memory.release(self.device)

    def tensors_bytes(self) -> int:
        """Bytes of all tensors the run holds."""
        held = self.decoder.weights_bytes + self.decoder.capacity_bytes + self.decoder.tables_bytes
        return held + self._x.numel() * self._x.element_size()


def _figures(
    waited: tuple[int, int, int, int], device_ns: int, wall_ns: int, weight_bytes: int
) -> StepFigures:
    index, tokens, held, kv_bytes = waited
    return StepFigures(index, tokens, held, device_ns, wall_ns, kv_bytes, weight_bytes)
