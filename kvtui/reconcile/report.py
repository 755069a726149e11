"""From a log to findings: which engine wrote it, for which model, and what each figure means."""

from dataclasses import dataclass
from typing import BinaryIO, Final

from kvtui.errors import SourceError
from kvtui.reconcile.case import case
from kvtui.reconcile.findings import Finding
from kvtui.reconcile.readings import Log, logs
from kvtui.reconcile.registry import ENGINES, Engine
from kvtui.reconcile.stream import lines
from kvtui.sources.request import DetectDevice, Request
from kvtui.units import format_bytes

_TELLING_MIN: Final = 2
"""Lines of an engine's own wording that make it its log; one may be a quotation."""
_QUOTES: Final = "'\" "
_GZIP: Final = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What a log's figures mean."""

    engine: str
    version: str | None
    """As the log states it."""
    model: str | None
    """None where nobody named one that is known."""
    model_from: str | None
    """Who named it: ``typed``, or the log."""
    model_hint: str | None
    """What the log calls its model."""
    dtype: str | None
    tp: int | None
    block: int | None
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]

    @property
    def unexplained(self) -> tuple[Finding, ...]:
        """Figures that nothing here explains."""
        return tuple(one for one in self.findings if one.status == "unexplained")


def reconciled(
    file: BinaryIO, name: str, typed: Request, *, detect: DetectDevice | None = None
) -> Reconciliation:
    """Read ``file`` and explain its figures for the model in question.

    Args:
        file: the log, as bytes; read once, in pieces.
        name: what to call it in a sentence.
        typed: model and shape as typed; what the log states fills the gaps.
        detect: finds the device of ``--gpu auto``.

    Raises:
        SourceError: the log is empty, packed, or of no engine that is known here.
        InputError: a typed field cannot be used.
    """
    engine, log = _read(file, name)
    hint = log.text("model")
    found = case(typed, engine.said(log), hint, detect)
    warnings = () if found is None else found.scenario.warnings
    if found is None:
        called = f" ({hint.strip(_QUOTES)})" if hint else ""
        unknown = f"The log's model{called} is not known by name; give --model or its shape."
        warnings = (unknown,)
    findings = tuple(engine.findings(log, found))
    if not findings:
        raise SourceError(
            f"{name} is a log of {engine.title}, but holds none of its memory lines; "
            "it may start too late or end too early."
        )
    question = None if found is None else found.scenario
    return Reconciliation(
        engine=engine.title,
        version=log.text("version"),
        model=None if question is None else question.model.name,
        model_from=None if found is None else found.model_from,
        model_hint=None if hint is None else hint.strip(_QUOTES),
        dtype=None if question is None else question.storage.kv.name,
        tp=None if question is None else question.parallel.tp,
        block=None if question is None else question.storage.block,
        findings=findings,
        warnings=warnings,
    )


def _read(file: BinaryIO, name: str) -> tuple[Engine, Log]:
    """The engine that wrote most of its own lines, and what they say."""
    counted = _Counted(file)
    patterns = {one.name: one.patterns for one in ENGINES}
    anchors = tuple(dict.fromkeys(p.anchor for one in ENGINES for p in one.patterns))
    by_engine = logs(lines(counted, anchors), patterns)
    best = max(ENGINES, key=lambda one: by_engine[one.name].telling)
    if by_engine[best.name].telling >= _TELLING_MIN:
        return best, by_engine[best.name]
    titles = ", ".join(one.title for one in ENGINES[:-1]) + f" or {ENGINES[-1].title}"
    if not counted.total:
        raise SourceError(f"{name} is empty; give a start-up log of {titles}.")
    if counted.head.startswith(_GZIP):
        raise SourceError(f"{name} is compressed; unpack it first, as in zcat {name} | ... -.")
    where = "" if counted.ended else f" in its first {format_bytes(counted.total)}"
    raise SourceError(f"{name} holds no start-up lines of {titles}{where}; nothing to reconcile.")


class _Counted:
    """A file that remembers how it begins and how much of it was read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.head = b""
        self.total = 0
        self.ended = False

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes."""
        found = self._file.read(size)
        if not self.total:
            self.head = found[:16]
        self.total += len(found)
        self.ended = not found
        return found
