"""``kvtui reconcile``: what a start-up log's figures mean, as text or JSON."""

import sys
import textwrap
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from kvtui.errors import ExitCode, SourceError
from kvtui.headless import output
from kvtui.reconcile import Finding, Reconciliation, reconciled
from kvtui.sources.request import DetectDevice, Request

RECONCILE_SCHEMA: Final = "kvtui.reconcile/1"
_WIDTH: Final = 100
_INDENT: Final = " " * 4


def reconcile(
    log: str, request: Request, *, as_json: bool = False, detect: DetectDevice | None = None
) -> ExitCode:
    """Print what the figures of ``log`` (a file, or ``-`` for stdin) mean."""
    name = "stdin" if log == "-" else log
    try:
        with _opened(log) as file:
            found = reconciled(file, name, request, detect=detect)
    except OSError as error:
        raise SourceError(f"{name} cannot be read: {error.strerror or error}.") from None
    if as_json:
        output.data(_json(found))
    else:
        output.data(reconcile_text(found))
        for warning in found.warnings:
            output.note(warning)
    return ExitCode.DONE


def _opened(log: str) -> AbstractContextManager[BinaryIO]:
    if log != "-":
        return Path(log).open("rb")
    if sys.stdin is None:
        raise SourceError("stdin is closed; give a file.")
    return nullcontext(sys.stdin.buffer)


def _json(found: Reconciliation) -> str:
    values = msgspec.to_builtins(found)
    values["unexplained"] = [one.figure for one in found.unexplained]
    return msgspec.json.encode({"schema": RECONCILE_SCHEMA, **values}).decode()


def reconcile_text(found: Reconciliation) -> str:
    """Every figure with what it means, then what is left over."""
    parts = [_title(found), *map(_paragraph, found.findings), _summary(found)]
    return "\n\n".join(parts)


def _title(found: Reconciliation) -> str:
    version = f" {found.version}" if found.version else ""
    if found.model is None:
        return f"{found.engine}{version} · model unknown"
    source = "as typed" if found.model_from == "typed" else "as the log says"
    pages = f" · pages of {found.block}" if found.block != 1 else ""
    return (
        f"{found.engine}{version} · {found.model} ({source}) · {found.dtype} · tp {found.tp}{pages}"
    )


def _paragraph(one: Finding) -> str:
    place = f", {one.place}" if one.place else ""
    head = f"{one.figure}: {one.printed}  [line {one.line}{place}]"
    words = {
        "explained": "= ",
        "measured": "measured: ",
        "unexplained": "NOT EXPLAINED, ",
    }[one.status]
    text = f"{words}{_left(one)}{one.explanation}"
    if one.assumes:
        text += f"; only if {one.assumes}"
    return f"{head}\n" + textwrap.fill(
        text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT
    )


def _left(one: Finding) -> str:
    return f"{one.remainder} than " if one.status == "unexplained" else ""


def _summary(found: Reconciliation) -> str:
    count = {
        status: sum(one.status == status for one in found.findings)
        for status in ("explained", "measured", "unexplained")
    }
    counts = (
        f"{count['explained']} explained, {count['measured']} measured by the engine, "
        f"{count['unexplained']} unexplained."
    )
    left = [
        f"Unexplained: {one.figure} is {one.remainder} than the rule gives."
        for one in found.unexplained
    ]
    return "\n".join((counts, *left))
