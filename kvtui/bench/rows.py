"""From samples to a row: bytes over the median, ratios within rounds, and the flags."""

from dataclasses import dataclass
from typing import Final

from kvtui.bench.case import Candidate, Setup
from kvtui.bench.launches import Launches
from kvtui.bench.measure import Samples, ratios
from kvtui.bench.quantiles import median_interval, percentile
from kvtui.bench.reference import Compared
from kvtui.bench.results import Machine, Row, ShapeFacts, StepMs
from kvtui.records import GpuReading
from kvtui.session import flag_rules
from kvtui.session.flag_rules import Flag

_LEAST_QUARTER: Final = 4
"""Samples of a quarter below which drift is not told."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Everything known of one candidate when its case has ended."""

    case: str
    candidate: Candidate
    samples: Samples
    compared: Compared | None
    kernel: str | None
    launches: Launches | None
    gpu: GpuReading | None
    """One reading right after its last sample; None without NVML."""


@dataclass(frozen=True, slots=True)
class Around:
    """The read limit around the case."""

    before_bytes_per_s: float
    after_bytes_per_s: float


def row(
    one: Taken, others: dict[str, Taken], around: Around, setup: Setup, machine: Machine
) -> Row:
    """The row of ``one``, beside the candidates it was raced against."""
    candidate, samples = one.candidate, one.samples
    p50 = percentile(samples.step_ms, 50)
    rate = candidate.bytes / (p50 / 1e3)
    limit = max(around.before_bytes_per_s, around.after_bytes_per_s)
    shape, intensity = candidate.shape, None
    if shape is not None:
        share = (candidate.attended or shape.tokens) / shape.tokens
        intensity = shape.flops * share / candidate.bytes
    found = _ratios(one, others)
    raised = _flags(one, rate / limit, p50, intensity, around, setup, machine)
    return Row(
        case=one.case,
        backend=candidate.name,
        dtype=candidate.dtype,
        threads=_threads(one, setup),
        shape=None
        if shape is None
        else ShapeFacts(
            layers=shape.layers,
            batch=shape.batch,
            q_heads=shape.q_heads,
            kv_heads=shape.kv_heads,
            k_width=shape.k_width,
            v_width=shape.v_width,
            tokens=shape.tokens,
        ),
        bytes=candidate.bytes,
        step_ms=StepMs(
            p10=percentile(samples.step_ms, 10),
            p50=p50,
            p90=percentile(samples.step_ms, 90),
            n=len(samples.step_ms),
        ),
        wall_step_ms=percentile(samples.wall_ms, 50),
        cpu_step_ms=percentile(samples.cpu_ms, 50),
        bytes_per_s=rate,
        limit_bytes_per_s=limit,
        share_of_limit=rate / limit,
        tokens_per_s=None if shape is None else shape.batch / (p50 / 1e3),
        intensity=intensity,
        against={name: percentile(each, 50) for name, each in found.items()},
        against_interval={name: median_interval(each) for name, each in found.items()},
        against_by_cpu_time=_processor_ratios(one, others, setup),
        error=one.compared.error if one.compared else None,
        error_bound=one.compared.bound if one.compared else None,
        kernel=one.kernel,
        launches=one.launches.count if one.launches else None,
        flags=list(dict.fromkeys(flag.name for flag in raised)),
        reasons={flag.name: flag.sentence for flag in reversed(raised)},
    )


def _ratios(one: Taken, others: dict[str, Taken]) -> dict[str, list[float]]:
    """Tokens/s over each candidate it is set against, and over its own first quarter."""
    found = {
        name: ratios(
            one.samples.step_ms, others[name].samples.step_ms, _work(one), _work(others[name])
        )
        for name in one.candidate.against
        if name in others
    }
    quarter = len(one.samples.step_ms) // 4
    if one.candidate.over_time and quarter >= _LEAST_QUARTER:
        times = one.samples.step_ms
        found["first-quarter"] = [
            first / last for first, last in zip(times[:quarter], times[-quarter:], strict=True)
        ]
    return found


def _processor_ratios(one: Taken, others: dict[str, Taken], setup: Setup) -> dict[str, float]:
    """The same by processor time, where one thread does all the work."""
    if setup.on_cuda or _threads(one, setup) > 1:
        return {}
    found = {}
    for name in one.candidate.against:
        if name in others and all(others[name].samples.cpu_ms) and all(one.samples.cpu_ms):
            mine, its = one.samples.cpu_ms, others[name].samples.cpu_ms
            each = ratios(mine, its, _work(one), _work(others[name]))
            found[name] = percentile(each, 50)
    return found


def _threads(one: Taken, setup: Setup) -> int:
    return one.candidate.threads or setup.threads


def _work(one: Taken) -> float:
    candidate = one.candidate
    if candidate.work is not None:
        return candidate.work
    assert candidate.shape is not None, "a candidate without a shape says its work"
    return candidate.shape.work


def _flags(
    one: Taken,
    share: float,
    p50: float,
    intensity: float | None,
    around: Around,
    setup: Setup,
    machine: Machine,
) -> list[Flag]:
    candidate, gpu, shape = one.candidate, one.gpu, one.candidate.shape
    if shape is None:
        return _present(flag_rules.drifted(around.before_bytes_per_s, around.after_bytes_per_s))
    launched = None if candidate.graph else one.launches
    busy = launched.busy_ms if launched else None
    # A container may list process ids of its host, so ours is taken off by count and not by id.
    others = max(0, len((gpu.processes if gpu else None) or []) - 1)
    return _present(
        flag_rules.resident(candidate.bytes, machine.cache_bytes),
        flag_rules.beyond_limit(share),
        flag_rules.host_bound(p50, busy),
        flag_rules.launch_bound(busy, launched.count if launched else None),
        flag_rules.compute_bound(
            intensity,
            machine.peak_flop_per_s,
            max(around.before_bytes_per_s, around.after_bytes_per_s),
        ),
        flag_rules.throttled(_slowed(gpu)),
        flag_rules.drifted(around.before_bytes_per_s, around.after_bytes_per_s),
        flag_rules.spread(percentile(one.samples.step_ms, 90) / p50),
        _waited(one, setup),
        flag_rules.other_processes(others),
        None if setup.on_cuda else flag_rules.busy(machine.load_average, machine.cores),
        flag_rules.padded(candidate.read_tokens or shape.tokens, shape.tokens),
        flag_rules.expanded(candidate.copies),
        flag_rules.partial(mig=gpu.mig if gpu else None),
        flag_rules.underfilled(
            shape.batch * shape.kv_heads, machine.multiprocessors if setup.on_cuda else None
        ),
        flag_rules.unified(shared=gpu.unified if gpu else None),
    )


def _waited(one: Taken, setup: Setup) -> Flag | None:
    """Whether the one thread of a CPU's step had to wait for a core."""
    if setup.on_cuda or _threads(one, setup) > 1:
        return None
    wall, cpu = percentile(one.samples.wall_ms, 50), percentile(one.samples.cpu_ms, 50)
    return flag_rules.waited(wall, cpu)


def _slowed(gpu: GpuReading | None) -> list[str]:
    """Why the device runs below its clocks, in words."""
    if gpu is None:
        return []
    memory = flag_rules.slow_memory(gpu.memory_clock_mhz, gpu.max_memory_clock_mhz)
    return [*(gpu.throttle or []), *([memory] if memory else [])]


def _present(*found: Flag | None) -> list[Flag]:
    return [flag for flag in found if flag is not None]
