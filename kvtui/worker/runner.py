"""Carries one run command out and reports it: refused, ended, out of memory, or not finite.

Nothing a run does ends the process: the next command finds it ready. Tensors are freed between
runs.
"""

import gc
from time import perf_counter
from typing import Final

import torch

from kvtui import host
from kvtui.engine import limits, memory
from kvtui.engine.caches import tensor_bytes
from kvtui.engine.plan import guard
from kvtui.engine.run import Control, Run
from kvtui.errors import KvtuiError, RefusedError
from kvtui.records import (
    Ended,
    EngineDevice,
    EngineMemory,
    Evidence,
    Held,
    Limit,
    Notice,
    Plan,
    Prefilled,
    RunCommand,
    Stage,
    Started,
    decode_run,
)
from kvtui.spec import EndReason
from kvtui.worker.publisher import Publisher

_SHORT_PROBE_S: Final = 1.0
"""The limit is measured again after a run only where that takes no longer than this."""


class Runner:
    """Runs commands one after another on one device each, remembering measured limits."""

    def __init__(self, publisher: Publisher) -> None:
        """Report through ``publisher``."""
        self._publisher = publisher
        self._probes: dict[tuple[str, int, int], tuple[Limit, float]] = {}

    def run(self, command: RunCommand, control: Control) -> None:
        """Carry ``command`` out until it ends; ``control`` holds and stops it."""
        number = command.run
        steps = tokens = held = 0
        run: Run | None = None
        try:
            self._stage("device", "Checking the run and its device.")
            run = Run(decode_run(command))
            self._publisher.put(engine_device(run))
            if run.dtype == torch.float16 and run.device.type == "cpu":
                self._notice("dtype", "fp16 runs several times slower than fp32 on a CPU.")
            probe = self._limit(run, number, "before")
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
            if not control.stopped:
                self._prepare(run, number, control)
            if not control.stopped:
                self._stage("decode", f"Decoding to T = {run.run.target:,}.")
                for figures in run.steps(control):
                    self._publisher.step(figures)
                    steps, tokens, held = figures.index, figures.tokens, figures.held_bytes
            if control.stopped and not steps:
                run.end = ("stopped", "Stopped before the first step.")
            self._publisher.finish()
            if run.end[0] == "target" and probe is not None and probe < _SHORT_PROBE_S:
                run.release()
                self._limit(run, number, "after")
            reason, sentence = run.end
        except RefusedError as refused:
            self._end(number, "refused", str(refused), need=refused)
            return
        except KvtuiError as error:
            self._end(number, "refused", str(error))
            return
        except (torch.OutOfMemoryError, MemoryError) as error:
            reason, sentence = "oom", _out_of_memory(error)
        except RuntimeError as error:
            # torch reports a failed host allocation as a plain RuntimeError.
            if "alloc" not in str(error).lower():
                raise
            reason, sentence = "oom", _out_of_memory(error)
        finally:
            self._publisher.finish()
            if run is not None:
                run.release()
        self._end(number, reason, sentence, steps=steps, tokens=tokens, held=held)

    def _prepare(self, run: Run, number: int, control: Control) -> None:
        """Allocate, prefill, warm up, and find out which kernel runs."""
        self._stage("allocate", "Allocating weights and cache.")
        run.allocate()
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
            return
        self._publisher.put(
            Prefilled(
                run=number,
                tokens=spec.start,
                prefill_ms=prefill_ms,
                held_kv_bytes=decoder.held_bytes,
            )
        )
        self._stage("warmup", "Warming up.")
        run.warm_up(control)
        if control.stopped:
            return
        found = run.evidence()
        self._publisher.put(
            Evidence(run=number, backend=run.backend, kernel=found.kernel, method=found.method)
        )
        run.warm_up(control)

    def _limit(self, run: Run, number: int, when: str) -> float | None:
        """Publish the measured limit; seconds it took, None where it is not measured."""
        device, cache = run.device, engine_device(run).cache_bytes
        size = run.run.probe_bytes
        if size is None:
            size = limits.probe_bytes(device, cache)
        if not size:
            return None
        key = (str(device), run.threads, run.run.probe_bytes or 0)
        known = self._probes.get(key)
        if when == "before" and known is not None:
            limit, spent = known
        else:
            self._stage("probe", f"Measuring the read limit over {size / 2**20:,.0f} MiB.")
            if device.type == "cpu":
                torch.set_num_threads(run.threads)
            begun = perf_counter()
            rate, size = limits.read_bytes_per_s(device, size)
            spent = perf_counter() - begun
            limit = Limit(
                run=number, when="before", read_bytes_per_s=rate, probe_bytes=size,
                threads=run.threads,
            )  # fmt: skip
            self._probes[key] = (limit, spent)
        self._publisher.put(
            Limit(
                run=number,
                when="after" if when == "after" else "before",
                read_bytes_per_s=limit.read_bytes_per_s,
                probe_bytes=limit.probe_bytes,
                threads=limit.threads,
            )
        )
        return spent

    def _stage(self, name: str, detail: str) -> None:
        self._publisher.put(Stage(name=name, detail=detail))

    def _notice(self, topic: str, sentence: str) -> None:
        self._publisher.put(Notice(topic=topic, severity="warning", sentence=sentence))

    def _end(
        self,
        number: int,
        reason: EndReason,
        sentence: str,
        *,
        steps: int = 0,
        tokens: int = 0,
        held: int = 0,
        need: RefusedError | None = None,
    ) -> None:
        gc.collect()
        self._publisher.put(
            Ended(
                run=number,
                reason=reason,
                sentence=sentence,
                steps=steps,
                tokens=tokens,
                held_kv_bytes=held,
                need_bytes=need.need_bytes if need else None,
                available_bytes=need.available_bytes if need else None,
            )
        )


def held(number: int, *, paused: bool) -> Held:
    """The record of a pause or its end."""
    return Held(run=number, paused=paused)


def engine_device(run: Run) -> EngineDevice:
    """The device ``run`` really uses, as torch and the driver name it."""
    if run.device.type == "cuda":
        found = torch.cuda.get_device_properties(run.device)
        uuid = str(found.uuid)
        # Present at run time, absent from torch's stubs.
        domain, bus, slot = (
            int(getattr(found, f"pci_{part}_id")) for part in ("domain", "bus", "device")
        )
        pci = f"{domain:08x}:{bus:02x}:{slot:02x}.0"
        return EngineDevice(
            kind="cuda",
            name=found.name,
            uuid=uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}",
            pci_bus_id=pci,
            total_bytes=memory.total_bytes(run.device),
            available_bytes=memory.available_bytes(run.device),
            cache_bytes=int(found.L2_cache_size) or None,
            multiprocessors=found.multi_processor_count,
            torch_version=str(torch.__version__),
            threads=run.threads,
        )
    return EngineDevice(
        kind="cpu",
        name=host.cpu_name(),
        uuid=None,
        pci_bus_id=None,
        total_bytes=memory.total_bytes(run.device),
        available_bytes=memory.available_bytes(run.device),
        cache_bytes=host.last_level_cache_bytes(),
        multiprocessors=host.cores(),
        torch_version=str(torch.__version__),
        threads=run.threads,
    )


def engine_memory(run: Run, number: int) -> EngineMemory:
    """Where the bytes of ``run`` are now."""
    found = memory.readout(run.device)
    decoder = run.decoder
    return EngineMemory(
        run=number,
        tensors_bytes=run.tensors_bytes(),
        cache_tensor_bytes=sum(tensor_bytes(*cache.tensors) for cache in decoder.caches),
        requested_bytes=found.requested_bytes,
        allocated_bytes=found.allocated_bytes,
        active_bytes=found.active_bytes,
        reserved_bytes=found.reserved_bytes,
        peak_allocated_bytes=found.peak_allocated_bytes,
        peak_reserved_bytes=found.peak_reserved_bytes,
        device_total_bytes=found.device_total_bytes,
        device_free_bytes=found.device_free_bytes,
        resident_bytes=found.resident_bytes,
    )


def _out_of_memory(error: BaseException) -> str:
    first = str(error).strip().splitlines()[0] if str(error).strip() else "no details"
    return f"Out of memory: {first[:200]} Lower the context or the batch, or raise the margin."
