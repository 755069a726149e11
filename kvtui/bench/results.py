"""What the bench found, as ``bench --json`` prints it: units in the keys, unknown is null."""

from typing import Final

import msgspec

BENCH_SCHEMA: Final = "kvtui.bench/1"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What it ran on."""

    device: str
    kind: str
    """cpu or cuda."""
    cpu: str
    cores: int
    threads: int
    memory_bytes: int
    """Of the device."""
    cache_bytes: int | None
    """L2 of a GPU, last-level cache of a CPU."""
    multiprocessors: int | None
    load_average: float | None
    """Of the host, before the first case."""
    peak_bytes_per_s: float | None
    """Tabled, which no kernel reaches; a share is always of the measured limit."""
    peak_flop_per_s: float | None
    peak_source: str | None


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """What a figure depends on beside the machine."""

    kvtui: str
    torch: str
    python: str
    cuda: str | None
    numba: str | None


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """Measured limits before the first case and after the last, bytes/s."""

    before: float
    after: float
    copy_before: float
    """Both directions counted."""
    copy_after: float
    probe_bytes: int


class StepMs(msgspec.Struct, frozen=True, kw_only=True):
    """Device time of one step over all layers, ms."""

    p10: float
    p50: float
    p90: float
    n: int
    """Samples."""


class ShapeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a step attends to."""

    layers: int
    batch: int
    q_heads: int
    kv_heads: int
    k_width: int
    v_width: int
    tokens: int
    """Per sequence."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate of one case."""

    case: str
    backend: str
    dtype: str
    threads: int
    shape: ShapeFacts | None
    bytes: int
    """Algorithmic: entries read once, and the append."""
    step_ms: StepMs
    wall_step_ms: float
    cpu_step_ms: float
    """Processor time of one step, of all threads."""
    bytes_per_s: float
    """Algorithmic bytes over the median step."""
    limit_bytes_per_s: float
    """The better of the probes around this case."""
    share_of_limit: float
    tokens_per_s: float | None
    """Sequences over the median step."""
    intensity: float | None
    """FLOPs a byte."""
    against: dict[str, float]
    """Tokens/s at the same context over another candidate's: median of the rounds."""
    against_interval: dict[str, tuple[float, float]]
    """Where that median lies, 95 %."""
    against_by_cpu_time: dict[str, float]
    """The same by processor time, for one thread: it holds on a busy machine as well."""
    error: float | None
    """Largest difference to dense attention in fp32."""
    error_bound: float | None
    kernel: str | None
    """What ran, as the profiler or the kernel's own counter says."""
    launches: int | None
    """Kernels of one step, on CUDA."""
    flags: list[str]
    reasons: dict[str, str]
    """A sentence a flag."""


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate, or a whole case, without a figure."""

    case: str
    backend: str
    """Empty for the whole case."""
    reason: str


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate now beside an earlier result."""

    case: str
    backend: str
    dtype: str
    threads: int
    tokens: int | None
    ratio: float
    """Speed now over speed then: below 1 is slower."""
    share_ratio: float
    """The same of the shares of each result's own limit."""
    verdict: str
    """same, faster, slower, or other size."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """This result beside an earlier one."""

    file: str
    warnings: list[str]
    """What differs beside the code: machine, versions."""
    slower: int
    changes: list[Change]
    only_now: list[str]
    only_then: list[str]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything."""

    schema: str = BENCH_SCHEMA
    machine: Machine
    versions: Versions
    limit: Limit
    results: list[Row]
    skipped: list[Left]
    failed: list[Left]
    notes: list[str]
    seconds: float
    compared: Comparison | None = None
