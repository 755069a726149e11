"""The report for a reader: a table a case, aims beside ratios, a sentence a flag."""

from typing import Final

from kvtui.bench.aims import LIMIT, aim
from kvtui.bench.case import Case
from kvtui.bench.results import Comparison, Report, Row
from kvtui.units import (
    format_bytes,
    format_count,
    format_ms,
    format_per_s,
    format_rate,
    format_share,
)

_SURE: Final = 6
"""Rounds from which on the interval of a median holds in 95 of 100 repetitions."""
_HEADER = (
    "",
    "dtype",
    "T",
    "B",
    "layers",
    "bytes",
    "step",
    "p10-p90",
    "n",
    "rate",
    "of limit",
    "tokens/s",
)


def listing(cases: tuple[Case, ...]) -> str:
    """The cases there are."""
    lines = []
    for case in cases:
        where = f" ({case.only} only)" if case.only else ""
        where += " (only when named)" if case.asked else ""
        lines.append(f"{case.name:<16}{case.shows}{where}")
    return "\n".join(lines)


def text(report: Report) -> str:
    """Machine, limit, cases, what was left out, and the comparison if there is one."""
    machine, limit, versions = report.machine, report.limit, report.versions
    threads = f"{machine.threads} CPU thread{'s' if machine.threads > 1 else ''}"
    cache = format_bytes(machine.cache_bytes)
    lines = [
        f"device {machine.device}, {threads}, kvtui {versions.kvtui}, torch {versions.torch}",
        f"read   {format_rate(limit.before)} before, {format_rate(limit.after)} after: the limit",
        f"copy   {format_rate(limit.copy_before)} before, {format_rate(limit.copy_after)} after",
        f"probe  {format_bytes(limit.probe_bytes)}, last-level cache {cache}",
    ]
    if machine.peak_bytes_per_s is not None:
        peak = format_rate(machine.peak_bytes_per_s)
        lines.append(f"peak   {peak} by table; shares are of the measured limit")
    lines += [f"note   {note}" for note in report.notes]
    for case in dict.fromkeys(row.case for row in report.results):
        lines += [
            "",
            *_case(case, [row for row in report.results if row.case == case], machine.kind),
        ]
    for title, left in (("SKIPPED", report.skipped), ("FAILED", report.failed)):
        if left:
            lines += ["", title]
            lines += [f"  {one.case:<16}{one.backend:<14}{one.reason}" for one in left]
    lines += _reasons(report.results)
    if report.compared is not None:
        lines += ["", *_compared(report.compared)]
    return "\n".join(lines)


def _case(name: str, rows: list[Row], kind: str) -> list[str]:
    cells = [_HEADER, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(_HEADER))]
    lines = [name]
    for line, row in zip(cells, [None, *rows], strict=True):
        shown = [
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        flags = "  " + " ".join(row.flags) if row is not None and row.flags else ""
        lines.append(f"  {'  '.join(shown).rstrip()}{flags}")
        if row is not None:
            lines += [f"      {one}" for one in _ratios(row, kind)]
    return lines


def _cells(row: Row) -> tuple[str, ...]:
    step, shape = row.step_ms, row.shape
    return (
        row.backend,
        row.dtype,
        format_count(shape.tokens) if shape else "",
        format_count(shape.batch) if shape else "",
        format_count(shape.layers) if shape else "",
        format_bytes(row.bytes),
        format_ms(step.p50),
        f"{format_ms(step.p10)} - {format_ms(step.p90)}",
        str(step.n),
        format_rate(row.bytes_per_s),
        format_share(row.share_of_limit),
        format_per_s(row.tokens_per_s) if shape else "",
    )


def _ratios(row: Row, kind: str) -> list[str]:
    lines = []
    for name, ratio in row.against.items():
        low, high = row.against_interval[name]
        sure = "95 %" if row.step_ms.n >= _SURE else "range"
        wanted = aim(row, name, kind)
        told = "" if wanted is None else f", aim {wanted:g}"
        quiet = row.against_by_cpu_time.get(name)
        also = "" if quiet is None else f"; {quiet:.3f} by processor time"
        lines.append(f"{ratio:.3f} times {name} ({sure}: {low:.3f} to {high:.3f}{told}){also}")
    wanted = aim(row, LIMIT, kind)
    if wanted is not None:
        lines.append(f"{format_share(row.share_of_limit)} of the limit, aim {format_share(wanted)}")
    return lines


def _reasons(rows: list[Row]) -> list[str]:
    """A flag's sentence of the first row that has it, and how many have it."""
    seen: dict[str, list[str]] = {}
    for row in rows:
        for name in row.flags:
            seen.setdefault(name, []).append(row.reasons[name])
    if not seen:
        return []
    lines = ["", "FLAGS: a flagged rate is not called the device's bandwidth"]
    for name, sentences in sorted(seen.items()):
        others = f" (the first of {len(sentences)})" if len(sentences) > 1 else ""
        lines.append(f"  {name:<14}{sentences[0]}{others}")
    return lines


def _compared(found: Comparison) -> list[str]:
    lines = [f"COMPARED WITH {found.file}"]
    lines += [f"  careful: {warning}" for warning in found.warnings]
    for one in found.changes:
        tokens = "" if one.tokens is None else f" T={one.tokens:,}"
        lines.append(
            f"  {one.verdict.upper():<11}{one.case:<16}{one.backend:<22}{one.dtype:<14}{tokens:<11}"
            f"speed {one.ratio:.2f}, share of limit {one.share_ratio:.2f} times the earlier"
        )
    for title, names in (("only now", found.only_now), ("only then", found.only_then)):
        if names:
            lines.append(f"  {title}: {', '.join(names)}")
    lines.append(
        f"  {found.slower} slower beyond noise" if found.slower else "  nothing slower beyond noise"
    )
    return lines
