"""Recordings as the worker really writes them, for tests and measurements."""

import random
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kvtui.client.recorder import Recorder
from kvtui.decode_run import DecodeRun
from kvtui.engine.figures import StepFigures
from kvtui.records import (
    RECORDS_SCHEMA,
    Ended,
    EngineDevice,
    EngineMemory,
    Evidence,
    Hello,
    HostReading,
    Limit,
    Plan,
    Prefilled,
    Record,
    RunAsked,
    Stage,
    Started,
    Steps,
    run_command,
)
from kvtui.spec import FullAttention
from kvtui.worker.publisher import _Merged

TOKEN_BYTES = 8 * 2 * 64 * 4
"""Eight layers, one KV head of 64, K and V, fp32."""
WEIGHTS_BYTES = 20 * 2**20


def decode(steps: int, *, start: int = 4096) -> DecodeRun:
    """A run of ``steps`` steps."""
    group = FullAttention(layers=8, q_heads=4, kv_heads=1, k_width=64, v_width=64)
    return DecodeRun(groups=(group,), batch=1, start=start, target=start + steps, threads=1)


FIELDS = {
    "layers": "8", "q_heads": "4", "kv_heads": "1", "head_dim": "64", "dtype": "fp32",
    "batch": "1", "gpu": "host",
}  # fmt: skip


def opening(run: DecodeRun, number: int = 1) -> Iterator[Record]:
    """Everything a recording holds before the first step."""
    fields = {**FIELDS, "context": f"{run.target}"}
    yield RunAsked(command=run_command(number, run), fields=fields)
    for role in ("monitor", "worker"):
        yield Hello(schema=RECORDS_SCHEMA, role=role, version="0", pid=4711)
    yield EngineDevice(
        kind="cpu", name="A recorded CPU", uuid=None, pci_bus_id=None, total_bytes=32 * 2**30,
        available_bytes=20 * 2**30, cache_bytes=2**20, multiprocessors=2, torch_version="2.13.0",
        threads=1,
    )  # fmt: skip
    yield Stage(name="probe", detail="Measuring the read limit.")
    yield Limit(run=number, when="before", read_bytes_per_s=20e9, probe_bytes=2**30, threads=1)
    capacity = run.target * TOKEN_BYTES
    yield Plan(
        run=number, cache_bytes=capacity, weights_bytes=WEIGHTS_BYTES, workspace_bytes=2**20,
        margin_bytes=2**30, need_bytes=capacity, available_bytes=20 * 2**30,
    )  # fmt: skip
    yield Started(
        run=number, layers=8, batch=1, start=run.start, target=run.target, dtype="fp32",
        cache="contiguous", work="layer", backend="SDPA folded", capacity_kv_bytes=capacity,
        weights_bytes=WEIGHTS_BYTES, threads=1,
    )  # fmt: skip
    yield Prefilled(
        run=number, tokens=run.start, prefill_ms=12.0, held_kv_bytes=run.start * TOKEN_BYTES
    )
    yield Evidence(run=number, backend="SDPA folded", kernel="aten::flash", method="profiler")


def memory(number: int = 1) -> EngineMemory:
    """Where the bytes are."""
    return EngineMemory(
        run=number, tensors_bytes=160 * 2**20, cache_tensor_bytes=128 * 2**20,
        requested_bytes=None, allocated_bytes=None, active_bytes=None, reserved_bytes=None,
        peak_allocated_bytes=None, peak_reserved_bytes=None, device_total_bytes=None,
        device_free_bytes=None, resident_bytes=500 * 2**20,
    )  # fmt: skip


def host(at_ms: float) -> HostReading:
    """One look at the machine."""
    return HostReading(
        total_bytes=32 * 2**30, available_bytes=20 * 2**30, cpu_percent=12.0, load_average=0.5,
        worker_resident_bytes=None, at_ms=at_ms,
    )  # fmt: skip


def ended(run: DecodeRun, number: int, at_ms: float) -> Ended:
    """At the target."""
    return Ended(
        run=number, reason="target", sentence=f"Reached T = {run.target:,}.",
        steps=run.target - run.start, tokens=run.target,
        held_kv_bytes=run.target * TOKEN_BYTES, at_ms=at_ms,
    )  # fmt: skip


def write(path: Path, steps: int, *, step_ms: float = 5.0, period_ms: float = 100.0,
          number: int = 1, finish: bool = True, seed: int = 1) -> DecodeRun:  # fmt: skip
    """A whole recording of ``steps`` steps that grow slower, aggregated by the real publisher."""
    run = decode(steps)
    with Recorder(path) as recorder:
        for record in opening(run, number):
            recorder.write(record)  # type: ignore[arg-type]
        last_ms = 0.0
        for count, (at_ms, record) in enumerate(_decoded(run, number, step_ms, period_ms, seed)):
            recorder.write(record)
            last_ms = at_ms
            if count % 5 == 0:
                recorder.write(_at(memory(number), at_ms))
            if count % 10 == 0:
                recorder.write(host(at_ms))
        if finish:
            recorder.write(ended(run, number, last_ms))
    return run


def _at(record: EngineMemory, at_ms: float) -> EngineMemory:
    return msgspec.structs.replace(record, at_ms=at_ms)


def _decoded(
    run: DecodeRun, number: int, step_ms: float, period_ms: float, seed: int
) -> Iterator[tuple[float, Steps]]:
    """Aggregates of one period each, merged by the worker's own publisher."""
    chance = random.Random(seed)
    merged, now_ms, due_ms = _Merged(), 0.0, period_ms
    for index in range(1, run.target - run.start + 1):
        tokens = run.start + index
        spent_ns = step_ms * 1e6 * (1 + tokens / run.target) / 1.5 * (1 + 0.05 * chance.random())
        merged.add(StepFigures(
            index=index, tokens=tokens, held_bytes=tokens * TOKEN_BYTES, device_ns=int(spent_ns),
            wall_ns=int(spent_ns * 1.02), kv_bytes=tokens * TOKEN_BYTES,
            weight_bytes=WEIGHTS_BYTES,
        ))  # fmt: skip
        now_ms += spent_ns / 1e6
        if now_ms >= due_ms or tokens == run.target:
            yield now_ms, merged.record(number, now_ms)
            merged, due_ms = _Merged(), max(due_ms + period_ms, now_ms)
