"""The writer thread: order, merging, and a loop that never waits for a reader."""

import io
import json
import os
import threading
from typing import Any

import pytest

from kvtui.engine.figures import StepFigures
from kvtui.records import EngineMemory, Stage
from kvtui.worker.publisher import Publisher
from kvtui.worker.readouts import nvml_uuid

MEMORY = EngineMemory(
    run=4,
    tensors_bytes=0,
    cache_tensor_bytes=0,
    requested_bytes=None,
    allocated_bytes=None,
    active_bytes=None,
    reserved_bytes=None,
    peak_allocated_bytes=None,
    peak_reserved_bytes=None,
    device_total_bytes=None,
    device_free_bytes=None,
    resident_bytes=1,
)


def figures(index: int, **changed: int) -> StepFigures:
    fields = {"device_ns": 1000, "wall_ns": 2000, "kv_bytes": 10, "weight_bytes": 3}
    return StepFigures(index=index, tokens=100 + index, held_bytes=index, **fields | changed)


def lines(stream: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_state_record_comes_after_the_steps_before_it() -> None:
    """Steps taken before a record are published before it, whatever the period."""
    stream = io.BytesIO()
    publisher = Publisher(stream)
    publisher.begin(4, lambda: MEMORY)
    for index in (1, 2, 3):
        publisher.step(figures(index, device_ns=index * 1000))
    publisher.put(Stage(name="x", detail=""))
    publisher.finish()
    publisher.close(5)
    kinds = [line["type"] for line in lines(stream) if line["type"] != "memory"]
    assert kinds[-1] == "stage"
    steps = [line for line in lines(stream) if line["type"] == "steps"]
    assert (steps[0]["first_step"], steps[-1]["last_step"]) == (1, 3)
    assert sum(step["device_total_ns"] for step in steps) == 6000
    assert sum(step["kv_bytes"] for step in steps) == 30
    assert sum(step["weight_bytes"] for step in steps) == 9
    assert max(step["slowest_ns"] for step in steps) == 3000
    assert min(step["fastest_ns"] for step in steps) == 1000
    assert {step["run"] for step in steps} == {4}


def test_the_loop_never_waits_for_a_reader() -> None:
    """With the writer stuck in a write, steps are taken in and come out merged."""
    let_go, stuck = threading.Event(), threading.Event()

    class Stuck(io.BytesIO):
        def write(self, data: Any) -> int:
            stuck.set()
            assert let_go.wait(30)
            return super().write(data)

    stream = Stuck()
    publisher = Publisher(stream)
    publisher.put(Stage(name="first", detail=""))
    assert stuck.wait(30)
    for index in range(1, 5001):
        publisher.step(figures(index))
    let_go.set()
    publisher.close(30)
    (steps,) = (line for line in lines(stream) if line["type"] == "steps")
    assert (steps["first_step"], steps["last_step"]) == (1, 5000)
    assert sum(steps["device_ns"].values()) == 5000


def test_a_write_in_pieces_keeps_its_lines_whole() -> None:
    """A pipe that takes three bytes at a time gets the same lines."""

    class Narrow(io.BytesIO):
        def write(self, data: Any) -> int:
            return super().write(bytes(data[:3]))

    stream = Narrow()
    publisher = Publisher(stream)
    publisher.put(Stage(name="x", detail="y" * 1000))
    publisher.close(5)
    assert [line["detail"] for line in lines(stream)] == ["y" * 1000]


def test_memory_is_read_at_the_end_and_not_after() -> None:
    """A short run has a reading; once it is over, what it held is never asked for again."""
    asked = 0

    def read() -> EngineMemory:
        nonlocal asked
        asked += 1
        return MEMORY

    stream = io.BytesIO()
    publisher = Publisher(stream)
    publisher.begin(4, read)
    publisher.finish()
    before = asked
    publisher.finish()
    publisher.close(5)
    assert before == asked >= 1
    assert [line["type"] for line in lines(stream)] == ["memory"] * asked


def test_a_reading_that_fails_does_not_take_the_writer_along() -> None:
    """A device in error cannot be asked; the records that say why still go out."""

    def read() -> EngineMemory:
        raise RuntimeError("CUDA error: device-side assert triggered")

    stream = io.BytesIO()
    publisher = Publisher(stream)
    publisher.begin(4, read)
    publisher.finish()
    publisher.put(Stage(name="still", detail="here"))
    publisher.close(5)
    assert [line["type"] for line in lines(stream)] == ["stage"]


def test_a_reader_that_left_is_no_error() -> None:
    """A closed pipe ends the writer quietly; the end of stdin ends the process."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb", buffering=0) as stream:
        publisher = Publisher(stream)
        publisher.put(Stage(name="x", detail=""))
        publisher.close(5)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("01234567-89ab-cdef-0123-456789abcdef", "GPU-01234567-89ab-cdef-0123-456789abcdef"),
        ("GPU-0123", "GPU-0123"),
        ("MIG-0123", "MIG-0123"),
    ],
)
def test_a_device_is_named_as_nvml_names_it(found: str, expected: str) -> None:
    """torch gives the bare UUID; NVML's has a prefix, which the monitor looks for."""
    assert nvml_uuid(found) == expected
