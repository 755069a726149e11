"""Flags of a row on a GPU, from made-up readings: each where its cause is, and none elsewhere."""

from dataclasses import replace

import msgspec
import pytest
import torch

from kvtui.bench.case import Candidate, Setup, Shape
from kvtui.bench.launches import Launches
from kvtui.bench.measure import Samples
from kvtui.bench.results import Machine, Row
from kvtui.bench.rows import Around, Taken, row
from kvtui.engine.limits import Probe
from kvtui.records import GpuProcess, GpuReading
from tests.bench.small import CPU, MIB

SHAPE = Shape(layers=32, batch=64, q_heads=32, kv_heads=8, k_width=128, v_width=128, tokens=4096)
H200 = Machine(
    device="NVIDIA H200",
    kind="cuda",
    cpu="a CPU",
    cores=16,
    threads=1,
    memory_bytes=150_754_820_096,
    cache_bytes=50 * MIB,
    multiprocessors=132,
    load_average=40.0,
    peak_bytes_per_s=4.8e12,
    peak_flop_per_s=989e12,
    peak_source="a datasheet",
)
SETUP = Setup(
    device=torch.device("cuda", 0),
    dtype="bf16",
    threads=1,
    sweep_bytes=2**35,
    room_bytes=2**36,
    seconds=1.0,
    probe=Probe(CPU, MIB),
)


def process(pid: int) -> GpuProcess:
    return GpuProcess(pid=pid, used_bytes=None, name=None)


def reading(**fields: object) -> GpuReading:
    nothing = dict.fromkeys(GpuReading.__struct_fields__)
    known: dict[str, object] = {
        **nothing,
        "at_ms": 0.0,
        "index": 0,
        "uuid": "GPU-1",
        "unified": False,
        "mig": False,
        "throttle": [],
        "processes": [process(1)],
        "missing": {},
    }
    return GpuReading(**{**known, **fields})  # type: ignore[arg-type]


def made(
    *,
    step_ms: float = 8.0,
    busy_ms: float = 7.9,
    gpu: GpuReading | None = None,
    after: float = 4.4e12,
    shape: Shape = SHAPE,
    moved: int = 34 * 10**9,
    graph: bool = False,
    launched: int = 96,
) -> Row:
    """A step of 8 ms over 34 GB on an H200 whose limit is 4.4 TB/s: 0.97 of it, no flag."""
    candidate = Candidate(
        name="contiguous", shape=shape, dtype="bf16", sweep=lambda: None, bytes=moved, graph=graph
    )
    taken = Taken(
        "gqa-batch",
        candidate,
        Samples([step_ms] * 9, [step_ms] * 9, [0.1] * 9),
        None,
        "flash_fwd_splitkv",
        Launches(launched, busy_ms),
        gpu or reading(),
    )
    return row(taken, {"contiguous": taken}, Around(4.4e12, after), SETUP, H200)


def test_a_clean_figure_on_a_gpu_has_no_flag() -> None:
    """Neither the host's load nor our own process, by whatever id, is held against it."""
    found = made()
    assert found.flags == []
    assert found.share_of_limit == pytest.approx(34e9 / 8e-3 / 4.4e12)
    assert found.tokens_per_s == pytest.approx(64 / 8e-3)
    assert found.launches == 96
    assert found.kernel == "flash_fwd_splitkv"


@pytest.mark.parametrize(
    ("found", "flag"),
    [
        (made(busy_ms=6.0), "HOST-BOUND"),
        (made(after=3.8e12), "CONTENDED"),
        (made(step_ms=7.0, busy_ms=6.9), "L2-RESIDENT"),
        (made(moved=200 * 10**6, shape=replace(SHAPE, layers=1, tokens=762)), "L2-RESIDENT"),
        (made(gpu=reading(throttle=["power cap"])), "THROTTLED"),
        (made(gpu=reading(memory_clock_mhz=2000, max_memory_clock_mhz=3201)), "THROTTLED"),
        (made(launched=1000), "HOST-BOUND"),
        (made(gpu=reading(mig=True)), "PARTIAL-GPU"),
        (made(gpu=reading(unified=True)), "UNIFIED"),
        (
            made(
                gpu=reading(
                    processes=[GpuProcess(pid=at, used_bytes=None, name=None) for at in (1, 2)]
                )
            ),
            "CONTENDED",
        ),
        (made(shape=replace(SHAPE, batch=8)), "UNDERFILLED"),
        (made(shape=replace(SHAPE, q_heads=2048)), "COMPUTE-BOUND"),
    ],
)
def test_each_cause_raises_its_flag(found: Row, flag: str) -> None:
    """One cause, one flag, with its sentence."""
    assert found.flags == [flag]
    assert found.reasons[flag].endswith(".")


def test_a_graph_is_not_host_bound_by_its_gaps() -> None:
    """Replaying a graph launches once; the gaps between its kernels are the device's own."""
    assert made(busy_ms=4.0, graph=True).flags == []


def test_a_reading_that_is_missing_raises_nothing() -> None:
    """Without NVML no cause is guessed."""
    unknown = reading(throttle=None, processes=None, mig=None)
    assert made(gpu=unknown).flags == []


def test_processor_time_tells_waiting_from_working() -> None:
    """On one CPU thread a step that waits for a core is flagged, and the ratio is told without."""
    setup = replace(SETUP, device=CPU)
    quiet = msgspec.structs.replace(H200, kind="cpu", cache_bytes=MIB, load_average=0.0)
    one = Candidate(name="a", shape=SHAPE, dtype="fp32", sweep=lambda: None, bytes=10**9)
    other = replace(one, name="b", against=("a",))
    ran = Samples([100.0] * 6, [100.0] * 6, [99.0] * 6)
    worked = Taken("case", one, ran, None, None, None, None)
    slow = Samples([200.0] * 6, [200.0] * 6, [99.0] * 6)
    waited = replace(worked, candidate=other, samples=slow)
    both = {"a": worked, "b": waited}
    around = Around(2e10, 2e10)
    assert row(worked, both, around, setup, quiet).flags == []
    found = row(waited, both, around, setup, quiet)
    assert found.flags == ["CONTENDED"]
    assert found.against == {"a": 0.5}
    assert found.against_by_cpu_time == {"a": 1.0}
    assert found.cpu_step_ms == 99.0
    two = row(waited, both, around, replace(setup, threads=2), quiet)
    assert (two.flags, two.against_by_cpu_time) == ([], {})
