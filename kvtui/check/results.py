"""What a proof says of itself, as ``check --json`` prints it."""

from typing import Final, Literal

import msgspec

CHECK_SCHEMA: Final = "kvtui.check/1"
Status = Literal["passed", "failed", "skipped"]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One proof."""

    name: Literal[
        "cached equals recomputed",
        "schedule change noticed",
        "predicted equals allocated",
        "kernel evidence",
    ]
    cache: str
    attention: str
    dtype: str
    status: Status
    error: float | None
    """Largest absolute difference, or bytes apart."""
    bound: float | None
    """What it may be at most."""
    suspect: str
    """Which suspect it was when it failed, its word first; the kernel's name for evidence; why when
    skipped."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All proofs of one device."""

    schema: str = CHECK_SCHEMA
    device: str
    passed: int
    failed: int
    skipped: int
    results: list[Result]


def report(device: str, results: list[Result]) -> Report:
    """``results`` counted."""

    def counted(status: Status) -> int:
        return sum(one.status == status for one in results)

    return Report(
        device=device,
        passed=counted("passed"),
        failed=counted("failed"),
        skipped=counted("skipped"),
        results=results,
    )


def table(found: Report) -> str:
    """A line a proof, and the count."""
    lines = [f"device {found.device}"]
    attention, dtype = (
        max((len(getattr(one, column)) for one in found.results), default=0) + 2
        for column in ("attention", "dtype")
    )
    for one in found.results:
        error = "" if one.error is None else f"{one.error:.3g}"
        bound = "" if one.bound is None else f"(bound {one.bound:.3g})"
        lines.append(
            f"{one.status.upper():<8}{one.name:<28}{one.cache:<12}"
            f"{one.attention:<{attention}}{one.dtype:<{dtype}}"
            f"{error:>9} {bound} {one.suspect}".rstrip()
        )
    lines.append(f"{found.passed} passed, {found.failed} failed, {found.skipped} skipped")
    return "\n".join(lines)
