"""One live run on its device: allocated, prefilled, warmed up, and decoded step by step.

Steps come from a generator that can be held or stopped at every boundary; warm-up and prefill are
never among them. What is checked before anything is allocated is in ``plan``.
"""

from collections import deque
from collections.abc import Iterator
from statistics import median
from time import perf_counter
from typing import Final

import torch

from kvtui.engine import memory
from kvtui.engine.attention import backend_name, backends
from kvtui.engine.control import Control
from kvtui.engine.decoder import Decoder
from kvtui.engine.evidence import KernelEvidence, attention_kernel
from kvtui.engine.figures import StepFigures
from kvtui.engine.finite import FiniteWatch
from kvtui.engine.plan import (
    Need,
    check_shapes,
    checked_dtype,
    engine_threads,
    needed,
    resolved_device,
)
from kvtui.engine.timing import Timer, timer
from kvtui.engine.workspace import INPUTS, piece
from kvtui.spec import DecodeRun, EndReason

_WARM_STEPS: Final = 10
_WARM_SECONDS: Final = 0.5
_WARM_AGREEMENT: Final = 0.02


class Run:
    """A checked run on its device; call ``allocate``, ``prefill``, ... in order."""

    def __init__(self, run: DecodeRun) -> None:
        """Check every field; raises ``InputError`` or ``UnavailableError``, allocates nothing."""
        self.device = resolved_device(run.device)
        self.dtype = checked_dtype(run.dtype)
        check_shapes(run)
        self.run = run
        self.threads = engine_threads(run, self.device)
        self.end: tuple[EndReason, str] = ("stopped", "Stopped before the first step.")
        self._decoder: Decoder | None = None
        self._x = torch.empty(0)

    def need(self, *, available_bytes: int | None = None) -> Need:
        """What the run takes, beside what is available; allocates nothing."""
        return needed(self.run, self.dtype, self.device, available_bytes=available_bytes)

    @property
    def decoder(self) -> Decoder:
        """The allocated stack."""
        assert self._decoder is not None, "allocate() comes first"
        return self._decoder

    @property
    def backend(self) -> str:
        """What the decode step asks for."""
        paged = self.run.cache == "paged"
        int8 = self.run.dtype == "int8"
        return backend_name(self.device, latent=self.decoder.latent, paged=paged, int8=int8)

    def allocate(self) -> None:
        """Make weights, caches and inputs; every page of the cache is touched once."""
        if self.device.type == "cpu":
            torch.set_num_threads(self.threads)
        memory.begin_peak_window(self.device)
        with torch.inference_mode():
            self._decoder = Decoder(self.run, self.dtype, self.device, threads=self.threads)
            for cache in self._decoder.caches:
                for tensor in cache.tensors:
                    tensor.zero_()
            generator = torch.Generator(device=self.device).manual_seed(self.run.seed + 1)
            self._x = self._decoder.inputs(self.run.batch, INPUTS, generator)

    def prefill(self, control: Control) -> float | None:
        """Fill the cache with ``start`` tokens per sequence; ms, None when stopped meanwhile."""
        run, decoder = self.run, self.decoder
        rows, length = piece(run, self.device)
        generator = torch.Generator(device=self.device).manual_seed(run.seed + 2)
        spent = 0.0
        with torch.inference_mode(), backends(self.device):
            for row in range(0, run.batch, rows):
                chosen = slice(row, min(run.batch, row + rows))
                for first in range(0, run.start, length):
                    tokens = min(length, run.start - first)
                    x = decoder.inputs(chosen.stop - row, tokens, generator)
                    self._synchronise()
                    begun = perf_counter()
                    for _ in decoder.fill(x, chosen, first):
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
        """Step in place until two medians agree within 2 %; the number of steps taken.

        Bounded by half a second: a step that takes longer is its own warm-up.
        """
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
        watch = FiniteWatch(self.device)
        weight_bytes, appended = decoder.weights_bytes, decoder.appended_bytes
        waiting: deque[StepFigures] = deque()
        self.end = ("target", f"Reached T = {run.target:,}.")
        spent, resumed = 0.0, perf_counter()
        for index, position in enumerate(range(run.start, run.target), start=1):
            if control.held:
                yield from _known(waiting, clock, wait=True)
                spent += perf_counter() - resumed
                control.wait()
                resumed = perf_counter()
                clock.resume()
            if control.stopped:
                self.end = ("stopped", "Stopped at a step boundary.")
                break
            if run.time_limit_s and spent + perf_counter() - resumed > run.time_limit_s:
                self.end = ("stopped", f"Ended by the clock after {run.time_limit_s:g} s.")
                break
            with torch.inference_mode(), backends(self.device):
                clock.begin()
                out = decoder.step(self._x.narrow(1, index % INPUTS, 1), position)
                clock.end()
                watch.look(out, index, last=position + 1 == run.target)
            held = decoder.held_bytes
            waiting.append(
                StepFigures(index, position + 1, held, 0, 0, held + appended, weight_bytes)
            )
            yield from _known(waiting, clock)
            if watch.seen:
                break
        yield from _known(waiting, clock, wait=True)
        if (where := watch.settled()) is not None:
            self.end = ("nan", f"The output is not finite at T = {run.start + where:,}.")

    def tensors_bytes(self) -> tuple[int, int]:
        """Bytes of all tensors the run holds, and of its cache among them; 0 once released."""
        decoder = self._decoder
        if decoder is None:
            return 0, 0
        inputs = self._x.numel() * self._x.element_size()
        cache = decoder.capacity_bytes
        return decoder.weights_bytes + cache + inputs, cache

    def release(self) -> None:
        """Free everything the run holds."""
        self._decoder, self._x = None, torch.empty(0)
        memory.release(self.device)

    def _in_place(self) -> None:
        """One step whose token is taken back, so that the next one stands where it stood."""
        with torch.inference_mode(), backends(self.device):
            self.decoder.step(self._x.narrow(1, 0, 1), self.run.start)
            self.decoder.rewind()

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _known(
    waiting: deque[StepFigures], clock: Timer, *, wait: bool = False
) -> Iterator[StepFigures]:
    """Steps whose times are known by now, in order."""
    for device_ns, wall_ns in clock.drained(wait=wait):
        one = waiting.popleft()
        yield StepFigures(
            one.index,
            one.tokens,
            one.held_bytes,
            device_ns,
            wall_ns,
            one.kv_bytes,
            one.weight_bytes,
        )
