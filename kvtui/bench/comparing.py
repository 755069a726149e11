"""This result beside an earlier one: what got slower beyond noise, and what else differs.

Noise is what both runs show themselves: a row is slower when its p10 lies above the earlier p90
and the medians differ by more than a twentieth. A machine whose limit moved shows it in the ratio
of shares, which is taken of each run's own limit.
"""

from pathlib import Path
from typing import Final

import msgspec

from kvtui.bench.results import BENCH_SCHEMA, Change, Comparison, Report, Row
from kvtui.errors import SourceError

_LEAST_CHANGE: Final = 0.05
_DIFFERENT_SIZE: Final = 0.01
Key = tuple[str, str, str, int, int | None, int | None]


def earlier(path: Path) -> Report:
    """The result in ``path``; raises ``SourceError`` where it is none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(f"compare: {path}: {error.strerror}.") from None
    try:
        found = msgspec.json.decode(data, type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SourceError(f"compare: {path} is no result of kvtui bench --json: {error}.") from None
    if found.schema != BENCH_SCHEMA:
        raise SourceError(f"compare: {path} has schema {found.schema!r}, not {BENCH_SCHEMA!r}.")
    return found


def comparison(now: Report, then: Report, file: str) -> Comparison:
    """Every row that both have, and the names of those that one has."""
    new = {_key(row): row for row in now.results}
    old = {_key(row): row for row in then.results}
    changes = [_change(row, old[key]) for key, row in new.items() if key in old]
    return Comparison(
        file=file,
        warnings=_warnings(now, then),
        slower=sum(one.verdict == "slower" for one in changes),
        changes=changes,
        only_now=[_name(key) for key in new if key not in old],
        only_then=[_name(key) for key in old if key not in new],
    )


def _key(row: Row) -> Key:
    shape = row.shape
    return (
        row.case,
        row.backend,
        row.dtype,
        row.threads,
        shape.tokens if shape else None,
        shape.batch if shape else None,
    )


def _name(key: Key) -> str:
    case, backend, dtype, threads, tokens, _ = key
    length = "" if tokens is None else f" T={tokens:,}"
    return f"{case}/{backend} {dtype}{length} threads={threads}"


def _change(now: Row, then: Row) -> Change:
    ratio = (now.bytes / now.step_ms.p50) / (then.bytes / then.step_ms.p50)
    return Change(
        case=now.case,
        backend=now.backend,
        dtype=now.dtype,
        threads=now.threads,
        tokens=now.shape.tokens if now.shape else None,
        ratio=ratio,
        share_ratio=now.share_of_limit / then.share_of_limit,
        verdict=_verdict(now, then, ratio),
    )


def _verdict(now: Row, then: Row, ratio: float) -> str:
    if abs(now.bytes - then.bytes) > _DIFFERENT_SIZE * then.bytes:
        return "other size"
    if ratio < 1 - _LEAST_CHANGE and now.step_ms.p10 > then.step_ms.p90:
        return "slower"
    if ratio > 1 + _LEAST_CHANGE and now.step_ms.p90 < then.step_ms.p10:
        return "faster"
    return "same"


def _warnings(now: Report, then: Report) -> list[str]:
    """A sentence a difference that is not the code's."""
    told = []
    for name, mine, its in (
        ("device", now.machine.device, then.machine.device),
        ("CPU", now.machine.cpu, then.machine.cpu),
        ("cores", now.machine.cores, then.machine.cores),
        ("kvtui", now.versions.kvtui, then.versions.kvtui),
        ("torch", now.versions.torch, then.versions.torch),
        ("CUDA", now.versions.cuda, then.versions.cuda),
        ("Python", now.versions.python, then.versions.python),
        ("numba", now.versions.numba, then.versions.numba),
    ):
        if mine != its:
            told.append(f"{name} is {mine} now and was {its} then.")
    low, high = sorted((now.limit.before, then.limit.before))
    if high and low / high < 1 - 2 * _LEAST_CHANGE:
        told.append(
            f"The read limit is {now.limit.before / then.limit.before:.2f} times the earlier: "
            "another machine, or a busier one. Shares of the limit say more than speeds."
        )
    return told
