"""The reducer of a live run."""

import pytest

from kvtui.decode_run import DecodeRun
from kvtui.history import LogHistogram
from kvtui.records import (
    Ended,
    EngineDevice,
    EngineMemory,
    Gone,
    GpuProcess,
    GpuReading,
    Hello,
    HostReading,
    Limit,
    Prefilled,
    Started,
    Steps,
)
from kvtui.session.flags import flags, regime
from kvtui.session.ladder import ladder
from kvtui.session.live import Live
from kvtui.session.summary import summary
from kvtui.spec import FullAttention

RUN = DecodeRun(
    groups=(FullAttention(layers=32, q_heads=32, kv_heads=8, k_width=128, v_width=128),),
    batch=4,
    start=4000,
    target=4096,
    dtype="bf16",
)


def started(**changes: object) -> Started:
    fields: dict[str, object] = {
        "run": 1, "layers": 32, "batch": 4, "start": 4000, "target": 4096, "dtype": "bf16",
        "cache": "contiguous", "work": "layer", "backend": "sdpa", "capacity_kv_bytes": 2**31,
        "weights_bytes": 2**30, "threads": 1, **changes,
    }  # fmt: skip
    return Started(**fields)  # type: ignore[arg-type]


def steps(first: int, last: int, *, tokens: int, ms: float, slowest: float = 1.0) -> Steps:
    histogram = LogHistogram()
    counted = last - first + 1
    for _ in range(counted):
        histogram.add(ms * 1e6)
    return Steps(
        run=1,
        first_step=first,
        last_step=last,
        tokens=tokens,
        held_kv_bytes=131_072 * 4 * tokens,
        device_ns=histogram.buckets,
        device_total_ns=histogram.total,
        wall_ns=histogram.buckets,
        wall_total_ns=histogram.total,
        kv_rate={},
        kv_rate_total=0.0,
        kv_bytes=counted * 2**31,
        weight_bytes=counted * 2**30,
        slowest_ns=ms * 1e6 * slowest,
        fastest_ns=ms * 1e6,
        at_ms=last * ms,
    )


def cpu(cache_bytes: int = 32 * 2**20) -> EngineDevice:
    return EngineDevice(
        kind="cpu", name="CPU", uuid=None, pci_bus_id=None, total_bytes=2**35,
        available_bytes=2**34, cache_bytes=cache_bytes, multiprocessors=2, torch_version="2.13.0",
        threads=1,
    )  # fmt: skip


def limit(rate: float, when: str = "before") -> Limit:
    return Limit(run=1, when=when, read_bytes_per_s=rate, probe_bytes=2**30, threads=1)  # type: ignore[arg-type]


def running(*records: object) -> Live:
    live = Live()
    live.begin(RUN, 1)
    for record in (cpu(), limit(30e9), started(), *records):
        live.apply(record)  # type: ignore[arg-type]
    return live


def test_prediction_stands_beside_what_is_held() -> None:
    """At 4,096 tokens the tutorial shape is predicted and held at exactly 2 GiB."""
    live = running(steps(1, 96, tokens=4096, ms=200))
    assert live.predicted_kv_bytes == live.held_kv_bytes == 2**31
    assert live.progress == 1.0


def test_bandwidth_is_cache_bytes_over_the_median_step() -> None:
    """2 GiB a step at 200 ms is 10.7 GB/s, 36 % of a 30 GB/s limit; weights are apart."""
    live = running(steps(1, 96, tokens=4096, ms=200))
    assert live.achieved_bytes_per_s == pytest.approx(2**31 / 0.2, rel=0.01)
    assert live.weight_bytes_per_s == pytest.approx(2**30 / 0.2, rel=0.01)
    assert live.share_of_limit == pytest.approx(2**31 / 0.2 / 30e9, rel=0.01)
    assert live.tokens_per_s == pytest.approx(4 / 0.2, rel=0.01)


def test_the_floor_is_bytes_over_the_measured_limit() -> None:
    """3 GiB and the appended entries at 30 GB/s take 107 ms: the predicted step."""
    live = running(steps(1, 96, tokens=4096, ms=200))
    assert live.predicted_step_ms == pytest.approx((3 * 2**30 + 2**19) / 30e9 * 1e3)


def test_a_lost_worker_keeps_the_curve_and_says_why() -> None:
    """A worker that dies in a run ends it as lost, with its sentence and all samples kept."""
    live = running(steps(1, 10, tokens=4010, ms=200))
    live.apply(Gone(role="worker", sentence="killed by SIGKILL", exit_status=-9, expected=False))
    assert live.phase == "ended"
    assert live.ended is not None
    assert (live.ended.reason, live.ended.sentence) == ("lost", "killed by SIGKILL")
    assert len(live.samples) == 1
    assert summary(live).ended == "lost"
    assert summary(live).held_kv_bytes == 131_072 * 4 * 4010


def test_a_monitor_that_dies_ends_no_run() -> None:
    """The run goes on without the monitor, which leaves a notice."""
    live = running(steps(1, 10, tokens=4010, ms=200))
    live.apply(Gone(role="monitor", sentence="gone", exit_status=1, expected=False))
    assert live.phase == "decoding"
    assert live.notices["monitor"].sentence == "gone"


def test_records_of_an_older_run_are_skipped() -> None:
    """A record that carries another run's number changes nothing."""
    live = running(steps(1, 10, tokens=4010, ms=200))
    before = live.revision
    live.apply(Ended(run=0, reason="stopped", sentence="", steps=3, tokens=5, held_kv_bytes=7))
    assert live.revision == before
    assert live.phase == "decoding"


def test_a_new_run_forgets_the_last_and_keeps_the_device() -> None:
    """Beginning a run clears curve and figures; device, limit and worker stay known."""
    live = running(Hello(schema="kvtui.records/1", role="worker", version="0", pid=5),
                   steps(1, 10, tokens=4010, ms=200))  # fmt: skip
    live.begin(RUN, 2)
    assert (live.steps, len(live.samples), live.ended) == (0, 0, None)
    assert live.device is not None
    assert live.limit_bytes_per_s == 30e9
    assert live.worker_pid == 5


def test_a_step_inside_the_cache_is_flagged() -> None:
    """A step that touches less than five times the last-level cache is called cache-resident."""
    live = running(cpu(cache_bytes=2**30), steps(1, 96, tokens=4096, ms=200))
    assert [flag.name for flag in flags(live)] == ["L2-RESIDENT"]
    assert regime(live)[0] == "cache-resident"


def test_more_than_the_limit_is_flagged_not_clipped() -> None:
    """Achieved bandwidth above the limit is shown with a mark."""
    live = running(steps(1, 96, tokens=4096, ms=10))
    assert live.share_of_limit is not None
    assert live.share_of_limit > 1
    assert "L2-RESIDENT" in [flag.name for flag in flags(live)]


def test_a_drifting_limit_is_contention() -> None:
    """A limit that moves by more than 10 % during a run flags the figure."""
    live = running(steps(1, 96, tokens=4096, ms=200), limit(20e9, "after"))
    assert [flag.name for flag in flags(live)] == ["CONTENDED"]


def test_the_regime_has_a_word() -> None:
    """A slow kernel, a fast one and a step of tiny operators each have their word."""
    assert regime(running(steps(1, 96, tokens=4096, ms=400)))[0] == "kernel-bound"
    assert regime(running(steps(1, 96, tokens=4096, ms=120)))[0] == "bandwidth-bound"
    assert regime(running())[0] == "unknown"


def test_the_concatenating_cache_is_flagged_as_expanded() -> None:
    """torch.cat moves more than the algorithm needs, and the figure says so."""
    live = running(started(cache="concat"), steps(1, 96, tokens=4096, ms=200))
    assert [flag.name for flag in flags(live)] == ["EXPANDED"]


MEMORY = EngineMemory(
    run=1, tensors_bytes=3 * 2**30, cache_tensor_bytes=2**31, requested_bytes=3 * 2**30,
    allocated_bytes=3 * 2**30 + 512, active_bytes=3 * 2**30 + 512, reserved_bytes=4 * 2**30,
    peak_allocated_bytes=4 * 2**30, peak_reserved_bytes=4 * 2**30, device_total_bytes=80 * 2**30,
    device_free_bytes=70 * 2**30, resident_bytes=5 * 2**30,
)  # fmt: skip


def test_every_gap_of_the_host_ladder_has_a_name() -> None:
    """On a CPU the rungs run from payload to the whole machine and the gaps add up to it."""
    live = running(
        Prefilled(run=1, tokens=4000, prefill_ms=1.0, held_kv_bytes=2**30),
        MEMORY,
        HostReading(
            total_bytes=32 * 2**30, available_bytes=20 * 2**30, cpu_percent=None,
            load_average=None, worker_resident_bytes=5 * 2**30,
        ),
    )  # fmt: skip
    rungs = ladder(live)
    assert next(rung.name for rung in rungs) == "payload"
    assert all(rung.gap and rung.sentence for rung in rungs)
    assert sum(rung.gap_bytes or 0 for rung in rungs) == rungs[-1].bytes == 32 * 2**30


def test_unknown_rungs_stay_unknown() -> None:
    """A process that NVML hides leaves its rung empty, and the next gap spans both."""
    live = running(
        EngineDevice(
            kind="cuda", name="H200", uuid="GPU-1", pci_bus_id=None, total_bytes=80 * 2**30,
            available_bytes=70 * 2**30, cache_bytes=50 * 2**20, multiprocessors=132,
            torch_version="2.13.0", threads=1,
        ),
        MEMORY,
        GpuReading(
            index=0, uuid="GPU-1", name="H200", pci_bus_id=None, total_bytes=80 * 2**30,
            used_bytes=10 * 2**30, free_bytes=70 * 2**30, reserved_bytes=None, unified=False,
            busy_percent=None, power_w=None, power_limit_w=None, temperature_c=None,
            sm_clock_mhz=None, memory_clock_mhz=None, max_memory_clock_mhz=None, throttle=None,
            mig=None, processes=[GpuProcess(pid=999, used_bytes=2**30, name=None)], missing={},
        ),
    )  # fmt: skip
    rungs = {rung.name: rung for rung in ladder(live)}
    assert rungs["this process"].bytes is None
    assert rungs["this process"].gap_bytes is None
    assert rungs["device used"].gap_bytes == 6 * 2**30
