"""The writer thread: publishes what the loop left for it and never makes the loop wait.

State records go out in order and at once. Steps are merged into one aggregate, written ten times
a second; while nobody drains the pipe the aggregate grows, and nothing is dropped.
"""

import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import BinaryIO, Final

import msgspec

from kvtui.engine.figures import StepFigures
from kvtui.history import LogHistogram
from kvtui.records import EngineMemory, Record, Steps, encode

_PERIOD_S: Final = 0.1
_MEMORY_EVERY: Final = 5
"""Allocator and resident set are read at 2 Hz: every fifth aggregate."""


class _Merged:
    """Steps not written yet."""

    def __init__(self) -> None:
        self.first = self.last = self.tokens = self.held = 0
        self.device, self.wall, self.rate = LogHistogram(), LogHistogram(), LogHistogram()
        self.kv_bytes = self.weight_bytes = 0
        self.slowest, self.fastest = 0.0, float("inf")

    def add(self, step: StepFigures) -> None:
        self.first = self.first or step.index
        self.last, self.tokens, self.held = step.index, step.tokens, step.held_bytes
        device_ns = max(1, step.device_ns)
        self.device.add(device_ns)
        self.wall.add(max(1, step.wall_ns))
        self.rate.add(step.kv_bytes / (device_ns / 1e9))
        self.kv_bytes += step.kv_bytes
        self.weight_bytes += step.weight_bytes
        self.slowest = max(self.slowest, device_ns)
        self.fastest = min(self.fastest, device_ns)

    def record(self, run: int, at_ms: float) -> Steps:
        return Steps(
            run=run,
            first_step=self.first,
            last_step=self.last,
            tokens=self.tokens,
            held_kv_bytes=self.held,
            device_ns=self.device.buckets,
            device_total_ns=self.device.total,
            wall_ns=self.wall.buckets,
            wall_total_ns=self.wall.total,
            kv_rate=self.rate.buckets,
            kv_rate_total=self.rate.total,
            kv_bytes=self.kv_bytes,
            weight_bytes=self.weight_bytes,
            slowest_ns=self.slowest,
            fastest_ns=self.fastest,
            at_ms=at_ms,
        )


class Publisher:
    """Owns the record stream; every other thread only leaves work here."""

    def __init__(self, stream: BinaryIO, *, clock: Callable[[], float] = monotonic) -> None:
        """Write to ``stream``; times count from now on ``clock``."""
        self._stream, self._clock, self._zero = stream, clock, clock()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._queue: deque[Record] = deque()
        self._merged: _Merged | None = None
        self._run = 0
        self._read_memory: Callable[[], EngineMemory] | None = None
        self._reading = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._write_loop, name="publisher", daemon=True)
        self._thread.start()

    def put(self, record: Record) -> None:
        """Publish a state record, after all steps taken before it."""
        with self._lock:
            self._flush_merged()
            self._queue.append(msgspec.structs.replace(record, at_ms=self._now_ms()))
        self._wake.set()

    def begin(self, run: int, read_memory: Callable[[], EngineMemory]) -> None:
        """Steps from now on belong to ``run``, whose memory ``read_memory`` reads."""
        with self._reading:
            self._run, self._read_memory = run, read_memory

    def finish(self) -> None:
        """The present run has no more steps; its memory is read once more and never again."""
        self._put_memory()
        with self._reading:
            self._read_memory = None

    def step(self, figures: StepFigures) -> None:
        """Take one step in; microseconds, whatever the reader does."""
        with self._lock:
            if self._merged is None:
                self._merged = _Merged()
            self._merged.add(figures)

    def close(self, timeout_s: float) -> None:
        """Write what is left, for at most ``timeout_s``."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout_s)

    def _now_ms(self) -> float:
        return round((self._clock() - self._zero) * 1e3, 3)

    def _flush_merged(self) -> None:
        """Turn the aggregate into a record; the lock is held."""
        if self._merged is not None:
            self._queue.append(self._merged.record(self._run, self._now_ms()))
            self._merged = None

    def _write_loop(self) -> None:
        """Write until closed; a writer that fails takes the process along, never its reports."""
        ticks = 0
        due = self._clock()
        try:
            while True:
                self._wake.wait(max(0.0, due - self._clock()))
                closing = self._closing
                self._wake.clear()
                on_time = self._clock() >= due
                if on_time:
                    due = self._clock() + _PERIOD_S
                    ticks += 1
                    if ticks % _MEMORY_EVERY == 0:
                        self._put_memory()
                with self._lock:
                    if on_time or closing:
                        self._flush_merged()
                    batch = list(self._queue)
                    self._queue.clear()
                if batch:
                    self._write(b"".join(encode(record) for record in batch))
                if closing:
                    return
        except (BrokenPipeError, ValueError):
            # The reader is gone; the end of stdin, which ends this process, comes with it.
            return
        except Exception:  # noqa: BLE001  # whatever it was, the parent must learn of it
            traceback.print_exc(file=sys.stderr)
            os._exit(1)

    def _put_memory(self) -> None:
        """One reading of the present run; a run that ends meanwhile waits for it."""
        with self._reading:
            if self._read_memory is None:
                return
            try:
                self.put(self._read_memory())
            except Exception:  # noqa: BLE001  # a failed device fails here too; the loop says why
                self._read_memory = None

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._stream.write(view) :]
