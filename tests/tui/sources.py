"""Sources that tests write by hand, in place of helper processes."""

import asyncio
from collections.abc import AsyncIterator, Callable

from kvtui.client.local import Helpers
from kvtui.history import LogHistogram
from kvtui.records import (
    AnyRecord,
    Command,
    Ended,
    EngineDevice,
    EngineMemory,
    Evidence,
    Gone,
    Hello,
    HostReading,
    Limit,
    Plan,
    Prefilled,
    Record,
    Started,
    Steps,
)
from kvtui.session.live import Live
from kvtui.tui.engine_room import EngineRoom


class HandSource:
    """Yields what a test puts in; remembers what it was sent."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[AnyRecord | None] = asyncio.Queue()
        self.sent: list[Command] = []
        self.stopped = self.killed = self.dead = False

    async def records(self) -> AsyncIterator[AnyRecord]:
        while (record := await self.queue.get()) is not None:
            yield record
            if isinstance(record, Gone):
                self.dead = True
                return

    async def send(self, command: Command) -> bool:
        if self.dead:
            return False
        self.sent.append(command)
        return True

    async def stop(self) -> None:
        self.stopped = True

    def kill_now(self) -> None:
        self.killed = True

    def put(self, *records: Record) -> None:
        for record in records:
            self.queue.put_nowait(record)  # type: ignore[arg-type]


class HandRoom:
    """Makes an engine room whose every source is a HandSource."""

    def __init__(self) -> None:
        self.workers: list[HandSource] = []
        self.monitor = HandSource()

    def __call__(self, live: Live) -> EngineRoom:
        async def worker() -> HandSource:
            self.workers.append(HandSource())
            return self.workers[-1]

        async def monitor() -> HandSource:
            return self.monitor

        return EngineRoom(live, Helpers(worker, monitor))


RoomMaker = Callable[[Live], EngineRoom]

HOST = HostReading(
    total_bytes=32 * 2**30,
    available_bytes=20 * 2**30,
    cpu_percent=12.0,
    load_average=0.5,
    worker_resident_bytes=None,
)


def opening(run: int, *, capacity: int = 134_217_728) -> list[Record]:
    """What a worker says of the demonstration before it decodes."""
    return [
        Hello(schema="kvtui.records/1", role="worker", version="0", pid=4711),
        EngineDevice(
            kind="cpu", name="A CPU", uuid=None, pci_bus_id=None, total_bytes=32 * 2**30,
            available_bytes=20 * 2**30, cache_bytes=2**20, multiprocessors=2,
            torch_version="2.13.0", threads=1,
        ),
        Limit(run=run, when="before", read_bytes_per_s=20e9, probe_bytes=2**30, threads=1),
        Plan(
            run=run, cache_bytes=capacity, weights_bytes=20 * 2**20, workspace_bytes=2**20,
            margin_bytes=2**30, need_bytes=capacity, available_bytes=20 * 2**30,
        ),
        Started(
            run=run, layers=8, batch=1, start=4096, target=16384, dtype="fp32",
            cache="contiguous", work="layer", backend="SDPA folded", capacity_kv_bytes=capacity,
            weights_bytes=20 * 2**20, threads=1,
        ),
        Prefilled(run=run, tokens=4096, prefill_ms=12.0, held_kv_bytes=4096 * 8192),
        Evidence(run=run, backend="SDPA folded", kernel="aten::flash_for_cpu", method="profiler"),
    ]  # fmt: skip


def steps(run: int, first: int, last: int) -> Steps:
    """Steps of 5 ms of the demonstration."""
    histogram = LogHistogram()
    for _ in range(first, last + 1):
        histogram.add(5e6)
    tokens = 4096 + last
    return Steps(
        run=run, first_step=first, last_step=last, tokens=tokens, held_kv_bytes=tokens * 8192,
        device_ns=histogram.buckets, device_total_ns=histogram.total, wall_ns=histogram.buckets,
        wall_total_ns=histogram.total, kv_rate={}, kv_rate_total=0.0,
        kv_bytes=(last - first + 1) * tokens * 8192,
        weight_bytes=(last - first + 1) * 20 * 2**20, slowest_ns=6e6, fastest_ns=4e6,
        at_ms=last * 5.0,
    )  # fmt: skip


def memory(run: int) -> EngineMemory:
    """The tensors of the demonstration."""
    return EngineMemory(
        run=run, tensors_bytes=160 * 2**20, cache_tensor_bytes=128 * 2**20, requested_bytes=None,
        allocated_bytes=None, active_bytes=None, reserved_bytes=None, peak_allocated_bytes=None,
        peak_reserved_bytes=None, device_total_bytes=None, device_free_bytes=None,
        resident_bytes=500 * 2**20,
    )  # fmt: skip


def ended(run: int, last: int) -> Ended:
    """The demonstration at its target."""
    tokens = 4096 + last
    return Ended(
        run=run, reason="target", sentence="Reached T = 16,384.", steps=last, tokens=tokens,
        held_kv_bytes=tokens * 8192,
    )  # fmt: skip
