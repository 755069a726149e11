"""The wire: every record and command that crosses a process boundary, as one JSON line each.

The same structs serve the live screen, ``--json`` output and recordings. Records carry units in
their names; what a producer does not know is null. ``at_ms`` is the producer's monotonic clock,
counted from its hello, so that no reader ever counts ticks as time. A reader skips lines before
the first hello (ssh banners) and record types it does not know.

It is long because it is the whole wire: who reads a recording needs no other file.
"""

from typing import Final, Literal

import msgspec

from kvtui.decode_run import DEFAULT_HOT, Backend, CacheName, DecodeRun, EndReason
from kvtui.errors import KvtuiError
from kvtui.spec import (
    FullAttention,
    LatentAttention,
    LayerGroup,
    NoCache,
    SinksWindow,
    SlidingWindow,
)

RECORDS_SCHEMA: Final = "kvtui.records/1"
SUMMARY_SCHEMA: Final = "kvtui.summary/1"

Role = Literal["worker", "monitor"]


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """What every line has."""

    at_ms: float = 0.0


class Hello(Record, frozen=True, kw_only=True, tag="hello"):
    """First record of a helper process; nothing before it counts."""

    schema: str
    role: Role
    version: str
    pid: int


class Notice(Record, frozen=True, kw_only=True, tag="notice"):
    """A sentence for the user: something is missing, or was done differently than asked."""

    topic: str
    """What it is about: nvml, backend, threads, memory, ..."""
    severity: Literal["info", "warning", "error"]
    sentence: str


class EngineDevice(Record, frozen=True, kw_only=True, tag="device"):
    """The device the worker really uses."""

    kind: Literal["cuda", "cpu"]
    name: str
    uuid: str | None
    """As NVML spells it (GPU-... or MIG-...); None on a CPU."""
    pci_bus_id: str | None
    total_bytes: int
    available_bytes: int
    cache_bytes: int | None
    """L2 of a GPU, last-level cache of a CPU."""
    multiprocessors: int | None
    """Streaming multiprocessors, or CPU cores this process may use."""
    torch_version: str
    threads: int


class Stage(Record, frozen=True, kw_only=True, tag="stage"):
    """What the worker is doing now: torch, probe, allocate, prefill, warmup, decode, ..."""

    name: str
    detail: str


class Limit(Record, frozen=True, kw_only=True, tag="limit"):
    """Measured read bandwidth of this device, the denominator of every share."""

    run: int
    when: Literal["before", "after"]
    read_bytes_per_s: float
    probe_bytes: int
    threads: int


class Plan(Record, frozen=True, kw_only=True, tag="plan"):
    """Bytes of the tensors a run is about to allocate, counted from their shapes."""

    run: int
    cache_bytes: int
    weights_bytes: int
    workspace_bytes: int
    margin_bytes: int
    need_bytes: int
    available_bytes: int


class Started(Record, frozen=True, kw_only=True, tag="started"):
    """Everything is allocated; prefill comes next."""

    run: int
    layers: int
    batch: int
    start: int
    target: int
    dtype: str
    cache: str
    work: str
    backend: str
    capacity_kv_bytes: int
    """What the cache tensors reserve."""
    weights_bytes: int
    threads: int


class Prefilled(Record, frozen=True, kw_only=True, tag="prefilled"):
    """The prompt is in the cache."""

    run: int
    tokens: int
    """Per sequence."""
    prefill_ms: float
    held_kv_bytes: int


class Steps(Record, frozen=True, kw_only=True, tag="steps"):
    """Decode steps since the last such record, merged; never one record per step.

    The histograms are those of ``history.LogHistogram``: bucket to count.
    """

    run: int
    first_step: int
    last_step: int
    """Both counted from 1 and inclusive."""
    tokens: int
    """Cache length per sequence after ``last_step``."""
    held_kv_bytes: int
    """Bytes of the filled entries after ``last_step``, counted from the tensors."""
    device_ns: dict[int, int]
    """Device time per step, ns."""
    device_total_ns: float
    wall_ns: dict[int, int]
    """Wall time per step, ns."""
    wall_total_ns: float
    kv_rate: dict[int, int]
    """Algorithmic KV bytes of a step over its device time, bytes/s."""
    kv_rate_total: float
    kv_bytes: int
    """Algorithmic KV bytes (each needed entry read once, plus the append) of these steps."""
    weight_bytes: int
    """Weight bytes read by these steps."""
    slowest_ns: float
    fastest_ns: float


class Held(Record, frozen=True, kw_only=True, tag="held"):
    """The run was paused (held) or goes on."""

    run: int
    paused: bool


class EngineMemory(Record, frozen=True, kw_only=True, tag="memory"):
    """Where the worker's bytes are. Allocator figures exist on CUDA only."""

    run: int
    tensors_bytes: int
    """numel x element size of the tensors the engine holds."""
    cache_tensor_bytes: int
    """The cache's part of them (its capacity)."""
    requested_bytes: int | None
    allocated_bytes: int | None
    active_bytes: int | None
    reserved_bytes: int | None
    peak_allocated_bytes: int | None
    peak_reserved_bytes: int | None
    device_total_bytes: int | None
    device_free_bytes: int | None
    resident_bytes: int | None
    """Resident set of the worker process."""


class Evidence(Record, frozen=True, kw_only=True, tag="evidence"):
    """What really ran: the name the profiler gave, never inferred from an argument."""

    run: int
    backend: str
    kernel: str | None
    """The attention kernel or operator with the most time; None when it could not be seen."""
    method: str


class Ended(Record, frozen=True, kw_only=True, tag="ended"):
    """Last record of a run."""

    run: int
    reason: EndReason
    sentence: str
    steps: int
    tokens: int
    held_kv_bytes: int
    need_bytes: int | None = None
    available_bytes: int | None = None
    link_bytes_per_s: float | None = None
    """Rate at which an offloaded cache came over its link."""


class Gone(Record, frozen=True, kw_only=True, tag="gone"):
    """A helper process is no longer there; made by the client, not by the helper."""

    role: Role
    sentence: str
    """Why, as far as it can be told, and what to try."""
    exit_status: int | None
    """Negative: the signal that ended it."""
    expected: bool
    """It was asked to stop."""


class Pong(Record, frozen=True, kw_only=True, tag="pong"):
    """A helper's answer to a ping, at once."""

    ping: int
    """The number that was asked with."""


class LinkReading(Record, frozen=True, kw_only=True, tag="link"):
    """How long a ping over ssh and its answer took; made by the client."""

    host: str
    round_trip_ms: float


class RecordingOpened(Record, frozen=True, kw_only=True, tag="recording"):
    """First line of a recording; made by the recorder."""

    schema: str
    version: str
    began: str
    """Wall clock, ISO 8601 in UTC."""


class RunAsked(Record, frozen=True, kw_only=True, tag="asked"):
    """A run was asked of the worker; made by the client.

    With it records tell everything: the prediction needs the shapes, which no answer repeats.
    """

    command: "RunCommand"
    fields: dict[str, str]
    """The question as it was typed, field to text."""


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One process that holds memory on a GPU."""

    pid: int
    used_bytes: int | None
    name: str | None


class GpuReading(Record, frozen=True, kw_only=True, tag="gpu"):
    """One look at one GPU through NVML; a field NVML does not give is null."""

    index: int
    uuid: str
    name: str | None
    pci_bus_id: str | None
    total_bytes: int | None
    used_bytes: int | None
    free_bytes: int | None
    reserved_bytes: int | None
    """Held by the driver itself; not part of ``used_bytes`` in memory v2."""
    unified: bool
    """The GPU shares the machine's memory; the figures come from the host."""
    busy_percent: float | None
    """Share of the sample period in which any kernel ran; not a bandwidth."""
    power_w: float | None
    power_limit_w: float | None
    temperature_c: float | None
    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    max_memory_clock_mhz: int | None
    throttle: list[str] | None
    """Reasons in words; empty means none, null means not reported."""
    mig: bool | None
    processes: list[GpuProcess] | None
    missing: dict[str, str]
    """Field name to the sentence that says why it is null."""
    ecc: bool | None = None
    """Errors of the memory are corrected."""
    ecc_uncorrected: int | None = None
    """Errors since the driver was loaded that could not be."""
    followed: bool = True
    """The device that is watched; others are looked at now and then."""


class HostReading(Record, frozen=True, kw_only=True, tag="host"):
    """One look at the machine."""

    total_bytes: int
    available_bytes: int
    cpu_percent: float | None
    load_average: float | None
    worker_resident_bytes: int | None
    """Resident set of the watched worker, None when there is none."""


class StepTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles of the device time of a step, ms."""

    p10: float | None
    p50: float | None
    p90: float | None
    p99: float | None


class WallTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Median wall time of a step, ms."""

    p50: float | None


class Summary(Record, frozen=True, kw_only=True, tag="summary"):
    """Last line of a run, composed by ``session``: prediction beside measurement."""

    schema: str = SUMMARY_SCHEMA
    predicted_kv_bytes: int | None
    held_kv_bytes: int
    capacity_kv_bytes: int | None
    steps: int
    tokens: int
    prefill_ms: float | None
    step_ms: StepTimes
    wall_step_ms: WallTimes
    predicted_step_ms: float | None
    kv_bytes_per_s: float | None
    weight_bytes_per_s: float | None
    achieved_bytes_per_s: float | None
    limit_bytes_per_s: float | None
    share_of_limit: float | None
    tokens_per_s: float | None
    link_bytes_per_s: float | None = None
    """Rate at which the cold part of an offloaded cache came from the host."""
    flags: list[str]
    backend: str | None
    evidence: str | None
    device: str | None
    threads: int | None
    ended: EndReason
    sentence: str


AnyRecord = (
    Hello
    | Notice
    | EngineDevice
    | Stage
    | Limit
    | Plan
    | Started
    | Prefilled
    | Steps
    | Held
    | EngineMemory
    | Evidence
    | Ended
    | Gone
    | Pong
    | LinkReading
    | RecordingOpened
    | RunAsked
    | GpuReading
    | HostReading
    | Summary
)


class GroupShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A layer group on the wire; fields that the kind does not have stay 0."""

    kind: Literal["full", "window", "sinks", "mla", "none"]
    layers: int
    q_heads: int = 0
    kv_heads: int = 0
    k_width: int = 0
    v_width: int = 0
    window: int = 0
    sinks: int = 0
    kv_lora_rank: int = 0
    rope_dim: int = 0
    nope_dim: int = 0
    v_head_dim: int = 0


class Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="command"):
    """What the screen asks of a helper."""


class RunCommand(Command, frozen=True, kw_only=True, tag="run"):
    """Start a run; ``run`` numbers it in everything the worker answers."""

    run: int
    groups: list[GroupShape]
    batch: int
    start: int
    target: int
    dtype: str
    hidden_size: int | None
    cache: CacheName
    block: int
    work: Literal["attention", "layer", "block"]
    device: str
    threads: int | None
    margin_bytes: int | None
    time_limit_s: float | None
    probe_bytes: int | None
    seed: int
    lengths: list[int] = []
    shared_prefix: int = 0
    hot: int = DEFAULT_HOT
    backend: Backend = "auto"


class HoldCommand(Command, frozen=True, kw_only=True, tag="hold"):
    """Pause the run at a step boundary, or let it go on."""

    paused: bool


class StopCommand(Command, frozen=True, kw_only=True, tag="stop"):
    """End the run at the next step boundary."""


class WatchCommand(Command, frozen=True, kw_only=True, tag="watch"):
    """To the monitor: follow this device and this worker process."""

    uuid: str | None
    worker_pid: int | None


class PingCommand(Command, frozen=True, kw_only=True, tag="ping"):
    """Answer at once; who was pinged and then hears nothing takes the link for lost."""

    ping: int


AnyCommand = RunCommand | HoldCommand | StopCommand | WatchCommand | PingCommand

_encoder: Final = msgspec.json.Encoder()
_records: Final = msgspec.json.Decoder(AnyRecord)
_commands: Final = msgspec.json.Decoder(AnyCommand)


class _Tagged(msgspec.Struct):
    type: str


_tags: Final = msgspec.json.Decoder(_Tagged)
_known_tags: Final = frozenset(str(struct.__struct_config__.tag) for struct in AnyRecord.__args__)


class RecordError(KvtuiError):
    """A line that is no record of this schema."""


def encode(message: Record | Command) -> bytes:
    """One line, newline included."""
    return _encoder.encode(message) + b"\n"


def decode_record(line: bytes) -> AnyRecord | None:
    """The record in ``line``; None for a type this version does not know.

    Raises ``RecordError`` when the line is no JSON record at all.
    """
    try:
        return _records.decode(line)
    except msgspec.DecodeError as error:
        try:
            tag = _tags.decode(line).type
        except msgspec.DecodeError:
            raise RecordError(f"not a record: {error}") from None
        if tag not in _known_tags:
            return None
        raise RecordError(f"broken {tag} record: {error}") from None


def decode_command(line: bytes) -> AnyCommand:
    """The command in ``line``; raises ``RecordError`` when it is none."""
    try:
        return _commands.decode(line)
    except msgspec.DecodeError as error:
        raise RecordError(f"not a command: {error}") from None


_WIRE_KINDS: Final[dict[type[LayerGroup], Literal["full", "window", "sinks", "mla", "none"]]] = {
    FullAttention: "full",
    SlidingWindow: "window",
    SinksWindow: "sinks",
    LatentAttention: "mla",
    NoCache: "none",
}


def run_command(number: int, run: DecodeRun) -> RunCommand:
    """``run`` as the worker receives it."""
    return RunCommand(
        run=number,
        groups=[_group_shape(group) for group in run.groups],
        batch=run.batch,
        start=run.start,
        target=run.target,
        dtype=run.dtype,
        hidden_size=run.hidden_size,
        cache=run.cache,
        block=run.block,
        work=run.work,
        device=run.device,
        threads=run.threads,
        margin_bytes=run.margin_bytes,
        time_limit_s=run.time_limit_s,
        probe_bytes=run.probe_bytes,
        seed=run.seed,
        lengths=list(run.lengths),
        shared_prefix=run.shared_prefix,
        hot=run.hot,
        backend=run.backend,
    )


def decode_run(command: RunCommand) -> DecodeRun:
    """The run a command asks for."""
    return DecodeRun(
        groups=tuple(_layer_group(shape) for shape in command.groups),
        batch=command.batch,
        start=command.start,
        target=command.target,
        dtype=command.dtype,
        hidden_size=command.hidden_size,
        cache=command.cache,
        block=command.block,
        work=command.work,
        device=command.device,
        threads=command.threads,
        margin_bytes=command.margin_bytes,
        time_limit_s=command.time_limit_s,
        probe_bytes=command.probe_bytes,
        seed=command.seed,
        lengths=tuple(command.lengths),
        shared_prefix=command.shared_prefix,
        hot=command.hot,
        backend=command.backend,
    )


def _group_shape(group: LayerGroup) -> GroupShape:
    """``group`` on the wire; kinds that the engine does not run have no form there."""
    if type(group) not in _WIRE_KINDS:
        raise TypeError(f"layer kind {group.kind} does not cross the wire")
    match group:
        case FullAttention():
            return GroupShape(
                kind=_WIRE_KINDS[type(group)],
                layers=group.layers,
                q_heads=group.q_heads or 0,
                kv_heads=group.kv_heads,
                k_width=group.k_width,
                v_width=group.v_width,
                window=group.window if isinstance(group, SlidingWindow) else 0,
                sinks=group.sinks if isinstance(group, SinksWindow) else 0,
            )
        case LatentAttention():
            return GroupShape(
                kind="mla",
                layers=group.layers,
                q_heads=group.q_heads or 0,
                kv_lora_rank=group.kv_lora_rank,
                rope_dim=group.rope_dim,
                nope_dim=group.nope_dim or 0,
                v_head_dim=group.v_head_dim or 0,
            )
        case _:
            return GroupShape(kind="none", layers=group.layers)


def _layer_group(shape: GroupShape) -> LayerGroup:
    q_heads = shape.q_heads or None
    match shape.kind:
        case "full":
            return FullAttention(
                layers=shape.layers,
                q_heads=q_heads,
                kv_heads=shape.kv_heads,
                k_width=shape.k_width,
                v_width=shape.v_width,
            )
        case "window":
            return SlidingWindow(
                layers=shape.layers,
                q_heads=q_heads,
                kv_heads=shape.kv_heads,
                k_width=shape.k_width,
                v_width=shape.v_width,
                window=shape.window,
            )
        case "sinks":
            return SinksWindow(
                layers=shape.layers,
                q_heads=q_heads,
                kv_heads=shape.kv_heads,
                k_width=shape.k_width,
                v_width=shape.v_width,
                window=shape.window,
                sinks=shape.sinks,
            )
        case "mla":
            return LatentAttention(
                layers=shape.layers,
                q_heads=q_heads,
                kv_lora_rank=shape.kv_lora_rank,
                rope_dim=shape.rope_dim,
                nope_dim=shape.nope_dim or None,
                v_head_dim=shape.v_head_dim or None,
            )
        case "none":
            return NoCache(layers=shape.layers)
