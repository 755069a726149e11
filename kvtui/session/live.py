"""The live run as a reducer: records in, view state out.

No I/O and no clock: times come from the records. Samples are thinned and histograms merged, so
that an hour of decoding costs no more memory than a minute. ``revision`` counts what changed, so
that a screen can see that nothing did.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from kvtui.decode_run import DecodeRun
from kvtui.errors import KvtuiError
from kvtui.history import LogHistogram, Thinned
from kvtui.records import (
    AnyRecord,
    Ended,
    EngineDevice,
    EngineMemory,
    Evidence,
    Gone,
    GpuReading,
    Held,
    Hello,
    HostReading,
    Limit,
    LinkReading,
    Notice,
    Plan,
    Prefilled,
    RunAsked,
    Stage,
    Started,
    Steps,
    decode_run,
)
from kvtui.session.predictions import predicted_kv_bytes, step_kv_bytes

Phase = Literal["idle", "starting", "decoding", "held", "ended"]


class Sample(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One ``Steps`` record as a point of the curves; a struct, for a replay makes very many."""

    step: int
    tokens: int
    held_kv_bytes: int
    step_ms: float
    """Median of the merged steps."""
    fastest_ms: float
    slowest_ms: float
    kv_bytes_per_s: float
    """Algorithmic KV bytes over device time."""
    at_ms: float


@dataclass(slots=True)
class Live:
    """What is known of the current (or last) run, and of the processes around it.

    Fields are read by the front ends and written by ``apply`` and ``begin`` alone.
    """

    phase: Phase = "idle"
    run: DecodeRun | None = None
    number: int = 0
    stage: Stage | None = None
    device: EngineDevice | None = None
    worker_pid: int | None = None
    limit_before: Limit | None = None
    limit_after: Limit | None = None
    plan: Plan | None = None
    started: Started | None = None
    prefilled: Prefilled | None = None
    evidence: Evidence | None = None
    memory: EngineMemory | None = None
    gpu: GpuReading | None = None
    other_gpus: dict[str, GpuReading] = field(default_factory=dict)
    """The machine's other devices by UUID, as they were looked at last."""
    host: HostReading | None = None
    link: LinkReading | None = None
    """The way to a worker on another machine."""
    ended: Ended | None = None
    steps: int = 0
    tokens: int = 0
    held_kv_bytes: int = 0
    kv_bytes: int = 0
    weight_bytes: int = 0
    device_ns: LogHistogram = field(default_factory=LogHistogram)
    wall_ns: LogHistogram = field(default_factory=LogHistogram)
    kv_rate: LogHistogram = field(default_factory=LogHistogram)
    spreads: LogHistogram = field(default_factory=LogHistogram)
    """p90 over p50 within each record, which growth alone hardly moves."""
    samples: Thinned[Sample] = field(default_factory=Thinned)
    throttled: set[str] = field(default_factory=set)
    notices: dict[str, Notice] = field(default_factory=dict)
    """The latest notice of each topic."""
    gone: Gone | None = None
    """The worker, when it ended unasked."""
    recent: Sample | None = None
    first_at_ms: float | None = None
    revision: int = 0

    # -- what the front ends ask -----------------------------------------------------------

    @property
    def running(self) -> bool:
        """A run was asked for and has not ended."""
        return self.phase in ("starting", "decoding", "held")

    @property
    def _answered(self) -> bool:
        """Sizing knows the shapes, and the length reached is one that this run can have."""
        run = self.run
        return run is not None and bool(run.groups) and not 0 < self.tokens < run.start

    @property
    def layers(self) -> int:
        """Layers of the run, as asked or, where that is not known, as started."""
        if self.run is not None and self.run.groups:
            return sum(group.layers for group in self.run.groups)
        return self.started.layers if self.started is not None else 0

    @property
    def limit_bytes_per_s(self) -> float | None:
        """Measured read limit: the better of the probes around this run."""
        found = [one.read_bytes_per_s for one in (self.limit_before, self.limit_after) if one]
        return max(found) if found else None

    @property
    def predicted_kv_bytes(self) -> int | None:
        """What sizing says the cache holds at the length reached; None where shapes are unknown."""
        if self.run is None or not self._answered:
            return None
        return predicted_kv_bytes(self.run, self.tokens)

    @property
    def touched_bytes(self) -> int | None:
        """What sizing says one step moves at the length reached, weights included."""
        if self.run is None or not self._answered:
            return None
        weights_bytes = self.started.weights_bytes if self.started else 0
        return step_kv_bytes(self.run, self.tokens) + weights_bytes

    @property
    def step_ms(self) -> float | None:
        """Median device time of all steps."""
        return _ms(self.device_ns.percentile(50))

    def step_percentile_ms(self, percent: float) -> float | None:
        """A percentile of the device time of all steps."""
        return _ms(self.device_ns.percentile(percent))

    @property
    def wall_step_ms(self) -> float | None:
        """Median wall time of all steps."""
        return _ms(self.wall_ns.percentile(50))

    @property
    def achieved_bytes_per_s(self) -> float | None:
        """KV bytes of an average step over the median step."""
        median = self.step_ms
        if median is None or not self.steps:
            return None
        return self.kv_bytes / self.steps / (median / 1e3)

    @property
    def weight_bytes_per_s(self) -> float | None:
        """Weight bytes of a step over the median step."""
        median = self.step_ms
        if median is None or not self.steps:
            return None
        return self.weight_bytes / self.steps / (median / 1e3)

    @property
    def share_of_limit(self) -> float | None:
        """Achieved KV bandwidth over the measured limit."""
        limit, achieved = self.limit_bytes_per_s, self.achieved_bytes_per_s
        return None if limit is None or achieved is None else achieved / limit

    @property
    def moved_share_of_limit(self) -> float | None:
        """KV and weight bytes together over the limit: what tells the regime."""
        limit, kv, weight = (
            self.limit_bytes_per_s,
            self.achieved_bytes_per_s,
            self.weight_bytes_per_s,
        )
        return None if limit is None or kv is None or weight is None else (kv + weight) / limit

    @property
    def tokens_per_s(self) -> float | None:
        """Sequences over the median wall time of a step."""
        wall = self.wall_step_ms
        return self.run.batch * 1e3 / wall if wall and self.run else None

    @property
    def predicted_step_ms(self) -> float | None:
        """Floor of a step at the length reached: bytes over the measured limit."""
        limit, moved = self.limit_bytes_per_s, self.touched_bytes
        if limit is None or moved is None or not self.tokens:
            return None
        return moved / limit * 1e3

    @property
    def predicted_tokens_per_s(self) -> float | None:
        """Upper bound on tokens per second at the length reached."""
        floor = self.predicted_step_ms
        return self.run.batch * 1e3 / floor if floor and self.run else None

    @property
    def budget_bytes(self) -> int | None:
        """Room for this run's cache: what was available less weights, workspace and margin."""
        if self.plan is None:
            return None
        plan = self.plan
        return plan.available_bytes - plan.weights_bytes - plan.workspace_bytes - plan.margin_bytes

    @property
    def progress(self) -> float:
        """Share of the way from start to target, 0 to 1."""
        if self.run is None or not self.tokens:
            return 0.0
        way = self.run.target - self.run.start
        return min(1.0, max(0.0, (self.tokens - self.run.start) / way)) if way else 1.0

    @property
    def seconds_left(self) -> float | None:
        """Time to the target at the recent step time; None before the first steps."""
        if self.run is None or self.recent is None or self.phase != "decoding":
            return None
        to_target = (self.run.target - self.tokens) * self.recent.step_ms / 1e3
        if self.run.time_limit_s is None or self.first_at_ms is None:
            return to_target
        spent = (self.recent.at_ms - self.first_at_ms) / 1e3
        return min(to_target, max(0.0, self.run.time_limit_s - spent))

    # -- what changes it -------------------------------------------------------------------

    def begin(self, run: DecodeRun, number: int) -> None:
        """Forget the last run; what is known of device, monitor and host stays."""
        kept = (self.device, self.worker_pid, self.gpu, self.host, self.link, self.notices)
        limit, revision = self.limit_after or self.limit_before, self.revision
        fresh = Live(phase="starting", run=run, number=number)
        for name in Live.__slots__:
            setattr(self, name, getattr(fresh, name))
        self.device, self.worker_pid, self.gpu, self.host, self.link, self.notices = kept
        self.limit_before, self.revision = limit, revision + 1

    def snapshot(self) -> "Live":
        """What is known now, on its own: nothing that comes later changes it."""
        found = Live()
        found._take_over(self)
        return found

    def restore(self, earlier: "Live") -> None:
        """Go back to ``earlier``, a snapshot; ``revision`` moves on, for something changed."""
        revision = max(self.revision, earlier.revision) + 1
        self._take_over(earlier)
        self.revision = revision

    def _take_over(self, other: "Live") -> None:
        for name in Live.__slots__:
            value = getattr(other, name)
            own = isinstance(value, LogHistogram | Thinned | set | dict)
            setattr(self, name, value.copy() if own else value)

    def apply(self, record: AnyRecord) -> None:
        """Take one record in; those of an older run are skipped."""
        if getattr(record, "run", self.number) != self.number:
            return
        self.revision += 1
        match record:
            case Steps():
                self._take_steps(record)
            case Hello(role="worker"):
                self.worker_pid, self.gone = record.pid, None
            case RunAsked():
                self.begin(_answerable(decode_run(record.command)), record.command.run)
            case Notice():
                self.notices[record.topic] = record
            case EngineDevice():
                self.device = record
            case Stage():
                self.stage = record
            case Limit():
                if record.when == "before":
                    self.limit_before = record
                else:
                    self.limit_after = record
            case Plan():
                self.plan = record
            case Started():
                self.started = record
            case Prefilled():
                self.prefilled = record
                self.tokens, self.held_kv_bytes = record.tokens, record.held_kv_bytes
            case Held():
                if self.running:
                    self.phase = "held" if record.paused else "decoding"
            case EngineMemory():
                self.memory = record
            case Evidence():
                self.evidence = record
            case Ended():
                self._end(record)
            case Gone():
                self._take_gone(record)
            case GpuReading():
                if record.followed:
                    self.gpu = record
                    self.other_gpus.pop(record.uuid, None)
                else:
                    self.other_gpus[record.uuid] = record
                if self.running and record.throttle:
                    self.throttled.update(record.throttle)
            case HostReading():
                self.host = record
            case LinkReading():
                self.link = record
            case _:
                self.revision -= 1

    def _take_steps(self, record: Steps) -> None:
        if self.first_at_ms is None:
            self.first_at_ms = record.at_ms
        if self.phase == "starting":
            self.phase = "decoding"
        counted = record.last_step - record.first_step + 1
        self.steps += counted
        self.tokens, self.held_kv_bytes = record.tokens, record.held_kv_bytes
        self.kv_bytes += record.kv_bytes
        self.weight_bytes += record.weight_bytes
        self.device_ns.merge(record.device_ns, record.device_total_ns)
        self.wall_ns.merge(record.wall_ns, record.wall_total_ns)
        self.kv_rate.merge(record.kv_rate, record.kv_rate_total)
        here = LogHistogram(record.device_ns, record.device_total_ns)
        median, high = here.percentiles(50, 90)
        if median is None or high is None or record.device_total_ns <= 0:
            return
        if counted >= 10:
            self.spreads.add(high / median)
        self.recent = Sample(
            step=record.last_step,
            tokens=record.tokens,
            held_kv_bytes=record.held_kv_bytes,
            step_ms=median / 1e6,
            fastest_ms=record.fastest_ns / 1e6,
            slowest_ms=record.slowest_ns / 1e6,
            kv_bytes_per_s=record.kv_bytes / (record.device_total_ns / 1e9),
            at_ms=record.at_ms,
        )
        self.samples.append(self.recent)

    def _end(self, record: Ended) -> None:
        self.phase, self.ended = "ended", record
        if record.tokens:
            self.tokens, self.held_kv_bytes = record.tokens, record.held_kv_bytes

    def _take_gone(self, record: Gone) -> None:
        if record.role == "monitor":
            if not record.expected:
                self.notices["monitor"] = Notice(
                    topic="monitor", severity="warning", sentence=record.sentence
                )
            return
        self.worker_pid = None
        if not record.expected:
            self.gone = record
        if self.running:
            self._end(
                Ended(
                    run=self.number,
                    reason="stopped" if record.expected else "lost",
                    sentence=record.sentence,
                    steps=self.steps,
                    tokens=self.tokens,
                    held_kv_bytes=self.held_kv_bytes,
                )
            )


def _answerable(run: DecodeRun) -> DecodeRun:
    """``run``, without its shapes where sizing cannot answer them: a recording holds anything."""
    try:
        for tokens in (run.start, run.target):
            predicted_kv_bytes(run, tokens)
            step_kv_bytes(run, tokens)
    except (KvtuiError, ArithmeticError, ValueError, TypeError):
        return replace(run, groups=())
    return run


def _ms(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e6
