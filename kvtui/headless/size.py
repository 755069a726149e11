"""``kvtui size``: one sizing answer in one of four forms, the verdict as exit status on request."""

import msgspec

from kvtui import runtimes
from kvtui.errors import ExitCode, InputError
from kvtui.headless import output
from kvtui.headless.size_report import size_report
from kvtui.headless.size_tables import size_csv, size_markdown
from kvtui.runtimes import ideal
from kvtui.session.answer import Answer, compose
from kvtui.sources.request import DetectDevice, Request, scenario
from kvtui.units import format_bytes


def size(
    request: Request,
    *,
    form: str = "text",
    check: bool = False,
    explain: bool = False,
    runtime: str | None = None,
    detect: DetectDevice | None = None,
) -> ExitCode:
    """Print the answer to ``request`` as text, json, csv or markdown.

    With ``check`` the exit status is the verdict; an engine named by ``runtime`` has to fit too.
    ``runtime`` is engines separated by commas, or all: their reservations are set side by side,
    and no others are given.
    """
    names = _runtimes(runtime)
    answer = compose(scenario(request, detect=detect))
    if check and answer.budget.verdict is None:
        raise InputError("memory", None, "given for --check (--memory SIZE or --gpu NAME)")
    if names:
        kept = [one for one in answer.reservations if one.runtime in names]
        answer = msgspec.structs.replace(answer, reservations=kept)
    if form == "json":
        output.data(msgspec.json.encode(answer).decode())
    elif form == "csv":
        output.data(size_csv(answer))
    elif form == "markdown":
        output.data(size_markdown(answer, names))
    else:
        output.data(size_report(answer, explain=explain, runtimes=names))
    if not check:
        return ExitCode.DONE
    asked = () if runtime is None or runtimes.ALL in _typed(runtime) else names
    return _checked(answer, asked)


def _runtimes(text: str | None) -> tuple[str, ...]:
    """The runtimes that were named; all of them beside the ideal for ``all``."""
    if text is None:
        return ()
    asked = _typed(text)
    if runtimes.ALL in asked:
        return runtimes.runtime_names()
    named = dict.fromkeys(runtimes.runtime(name).name for name in asked)
    return (ideal.NAME, *(name for name in named if name != ideal.NAME))


def _typed(text: str) -> list[str]:
    """Names separated by commas, in lower case."""
    return [part.strip().lower() for part in text.split(",")]


def _checked(answer: Answer, engines: tuple[str, ...]) -> ExitCode:
    """The ideal's verdict; over as well where an engine that was named does not fit."""
    for one in answer.reservations:
        if one.runtime in engines and one.fits is False and one.runtime != ideal.NAME:
            output.note(
                f"{one.runtime} reserves {format_bytes(one.bytes)} and has "
                f"{format_bytes(one.pool.bytes)} for the cache: {one.share_of}."
            )
            return ExitCode.DOES_NOT_FIT
    if answer.budget.verdict == "over":
        output.note(answer.sentence)
        return ExitCode.DOES_NOT_FIT
    if answer.budget.verdict == "tight":
        output.note(answer.sentence)
    return ExitCode.DONE
