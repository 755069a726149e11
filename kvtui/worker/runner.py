"""Carries one run command out and reports it: refused, ended, out of memory, not finite, failed.

Nothing a run does ends the process: the next command finds it ready. Tensors are freed between
runs, and whatever was measured until a failure is kept in the last record.
"""

import gc
import re
import sys
import traceback
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Final

import torch

from kvtui.decode_run import EndReason
from kvtui.engine import limits
from kvtui.engine.control import Control
from kvtui.engine.kernels.compilation import Compilation
from kvtui.engine.plan import guard
from kvtui.engine.run import Run
from kvtui.errors import InputError, KvtuiError, RefusedError, UnavailableError
from kvtui.records import (
    Ended,
    Evidence,
    Limit,
    Notice,
    Plan,
    Prefilled,
    RunCommand,
    Stage,
    Started,
    decode_run,
)
from kvtui.units import format_bytes, parse_bytes
from kvtui.worker.publisher import Publisher
from kvtui.worker.readouts import engine_device, engine_memory

if TYPE_CHECKING:  # importing it imports numba
    from kvtui.engine.kernels.cpu import CpuKernel

_SHORT_PROBE_S: Final = 1.0
"""The limit is measured again after a run only where the last time took no longer than this.

Mapping the buffer is most of it on a virtual machine; on a GPU the whole takes milliseconds.
"""
_OUT_OF_MEMORY: Final = ("out of memory", "can't allocate", "allocate memory", "not enough memory")
"""How torch words a failed host allocation, which is a plain RuntimeError there."""
_ASKED_AND_FREE: Final = (
    r"Tried to allocate ([\d.]+ \w+)",
    r"of which ([\d.]+ \w+) is free",
)
"""The two sizes in CUDA's message (c10/cuda/CUDACachingAllocator.cpp)."""


@dataclass(slots=True)
class _Reached:
    """How far a run came."""

    steps: int = 0
    tokens: int = 0
    held_bytes: int = 0
    allocated: bool = False


class Runner:
    """Runs commands one after another on one device each, remembering measured limits."""

    def __init__(self, publisher: Publisher) -> None:
        """Report through ``publisher``."""
        self._publisher = publisher
        self._compilation = Compilation()
        self._kernels: dict[int, CpuKernel] = {}
        self._probes: dict[tuple[str, int, int], tuple[float, int, float]] = {}
        """(device, threads, asked size) to (bytes/s, bytes read, seconds it took)."""

    def run(self, command: RunCommand, control: Control) -> None:
        """Carry ``command`` out until it ends; ``control`` holds and stops it. Never raises."""
        reached = _Reached()
        run: Run | None = None
        refused: RefusedError | None = None
        reason: EndReason
        try:
            self._stage("device", "Checking the run and its device.")
            run = Run(decode_run(command))
            self._choose_kernel(run)
            self._carry_out(run, command.run, control, reached)
            reason, sentence = run.end
        except KvtuiError as error:
            refused = error if isinstance(error, RefusedError) else None
            reason, sentence = "refused", str(error)
        except Exception as error:  # noqa: BLE001  # a run must never take the process with it
            reason, sentence = failure(error, started=reached.allocated)
        self._publisher.finish()
        link = run.link_bytes_per_s() if run is not None else None
        sentence = self._freed(run, sentence)
        self._publisher.put(
            Ended(
                run=command.run,
                reason=reason,
                sentence=sentence,
                steps=reached.steps,
                tokens=reached.tokens,
                held_kv_bytes=reached.held_bytes,
                need_bytes=refused.need_bytes if refused else None,
                available_bytes=refused.available_bytes if refused else None,
                link_bytes_per_s=link,
            )
        )

    def close(self) -> None:
        """End what was started beside the runs."""
        self._compilation.close()

    def _choose_kernel(self, run: Run) -> None:
        """Give ``run`` the CPU kernel where it is ready; else have it made for the next run.

        Raises ``UnavailableError`` where a run insists on it and it cannot be had.
        """
        if not run.wants_kernel:
            return
        self._compilation.begin()
        insists = run.run.backend == "kernel"
        if run.threads not in self._kernels and (insists or self._compilation.ready()):
            self._stage("kernel", "Loading the CPU decode kernel.")
            kernel = self._compilation.load(run.threads)
            if kernel is not None:
                self._kernels[run.threads] = kernel
            # What a compiler leaves behind would be searched whenever a run is freed.
            gc.freeze()
        if run.threads in self._kernels:
            run.use(self._kernels[run.threads])
            return
        if insists:
            raise UnavailableError(f"backend kernel: {self._compilation.why}.")
        sentence = self._compilation.why or "It is being compiled; the next run takes it."
        sentence = f"torch's attention runs in place of the CPU decode kernel. {sentence}"
        self._publisher.put(Notice(topic="kernel", severity="info", sentence=sentence))

    def _carry_out(self, run: Run, number: int, control: Control, reached: _Reached) -> None:
        """From the device's limit to the last step."""
        device = engine_device(run)
        self._publisher.put(device)
        if run.dtype == torch.float16 and run.device.type == "cpu":
            sentence = "fp16 runs several times slower than fp32 on a CPU."
            self._publisher.put(Notice(topic="dtype", severity="warning", sentence=sentence))
        spent = self._limit(run, number, device.cache_bytes, control)
        need = run.need()
        self._publisher.put(
            Plan(
                run=number,
                cache_bytes=need.cache_bytes,
                weights_bytes=need.weights_bytes,
                workspace_bytes=need.workspace_bytes,
                margin_bytes=need.margin_bytes,
                need_bytes=need.need_bytes,
                available_bytes=need.available_bytes,
            )
        )
        guard(need)
        if control.stopped or not self._prepared(run, number, control, reached):
            return
        self._stage("decode", f"Decoding to T = {run.run.target:,}.")
        for figures in run.steps(control):
            self._publisher.step(figures)
            reached.steps, reached.tokens = figures.index, figures.tokens
            reached.held_bytes = figures.held_bytes
        self._publisher.finish()
        if spent is not None and spent < _SHORT_PROBE_S and not control.stopped:
            run.release()
            self._limit(run, number, device.cache_bytes, control, after=True)

    def _prepared(self, run: Run, number: int, control: Control, reached: _Reached) -> bool:
        """Allocate, prefill, warm up, see which kernel runs; False when stopped meanwhile."""
        self._stage("allocate", "Allocating weights and cache.")
        run.allocate()
        reached.allocated = True
        if run.passed_over:
            sentence = f"Passed over: {'; '.join(run.passed_over)}."
            self._publisher.put(Notice(topic="backend", severity="info", sentence=sentence))
        spec, decoder = run.run, run.decoder
        self._publisher.begin(number, lambda: engine_memory(run, number))
        self._publisher.put(
            Started(
                run=number,
                layers=len(decoder.layers),
                batch=spec.batch,
                start=spec.start,
                target=spec.target,
                dtype=spec.dtype,
                cache=spec.cache,
                work=spec.work,
                backend=run.backend,
                capacity_kv_bytes=decoder.capacity_bytes,
                weights_bytes=decoder.weights_bytes,
                threads=run.threads,
            )
        )
        self._stage("prefill", f"Prefilling {spec.batch:,} x {spec.start:,} tokens.")
        prefill_ms = run.prefill(control)
        if prefill_ms is None:
            return False
        reached.tokens, reached.held_bytes = spec.start, decoder.held_bytes
        self._publisher.put(
            Prefilled(
                run=number,
                tokens=reached.tokens,
                prefill_ms=prefill_ms,
                held_kv_bytes=reached.held_bytes,
            )
        )
        self._stage("warmup", "Warming up, and asking which kernel runs.")
        # The profiler first: what it disturbs is settled before anything is measured.
        found = run.evidence()
        self._publisher.put(
            Evidence(run=number, backend=run.backend, kernel=found.kernel, method=found.method)
        )
        run.warm_up(control)
        return not control.stopped

    def _limit(
        self,
        run: Run,
        number: int,
        cache_bytes: int | None,
        control: Control,
        *,
        after: bool = False,
    ) -> float | None:
        """Publish the measured limit; seconds measuring takes, None where it is not measured.

        It is measured once per device, thread count and size; a measurement after a run replaces
        it for the next run.
        """
        asked = run.run.probe_bytes
        if asked == 0 or control.stopped:
            return None
        size = limits.probe_bytes(run.device, cache_bytes) if asked is None else asked
        key = (str(run.device), run.threads, asked or 0)
        if after or key not in self._probes:
            self._stage("probe", f"Measuring the read limit over {size / 2**20:,.0f} MiB.")
            if run.device.type == "cpu":
                torch.set_num_threads(run.threads)
            begun = perf_counter()
            measured = limits.read_bytes_per_s(run.device, size)
            self._probes[key] = (*measured, perf_counter() - begun)
        rate, read, spent = self._probes[key]
        self._publisher.put(
            Limit(
                run=number,
                when="after" if after else "before",
                read_bytes_per_s=rate,
                probe_bytes=read,
                threads=run.threads,
            )
        )
        return spent

    def _freed(self, run: Run | None, sentence: str) -> str:
        """Free what ``run`` holds; ``sentence``, and that the device is lost if it is."""
        try:
            if run is not None:
                run.release()
        except RuntimeError as error:
            return f"{sentence} The device cannot be used any more: {_first_line(error)}"
        return sentence

    def _stage(self, name: str, detail: str) -> None:
        self._publisher.put(Stage(name=name, detail=detail))


def failure(error: Exception, *, started: bool) -> tuple[EndReason, str]:
    """Why a run failed, and the sentence for it."""
    text = str(error).lower()
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(words in text for words in _OUT_OF_MEMORY)
    ):
        short = _shortage(str(error))
        return "oom", f"Out of memory: {_first_line(error)}{short} Lower the context or the batch."
    traceback.print_exception(error, file=sys.stderr)
    reason: EndReason = "lost" if started else "refused"
    return reason, f"The run failed: {type(error).__name__}: {_first_line(error)}"


def _shortage(text: str) -> str:
    """How much was missing, where torch's message says what was asked for and what is free."""
    asked, free = (re.search(words, text) for words in _ASKED_AND_FREE)
    if asked is None or free is None:
        return ""
    try:
        short = parse_bytes("asked", asked[1]) - parse_bytes("free", free[1])
    except InputError:
        return ""
    return f" {format_bytes(short)} short." if short > 0 else ""


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else "no details."
