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

    With ``check`` the exit status is the verdict. ``runtime`` names engines, separated by commas,
    or all: their reservations are then set side by side, and no others given.
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
    return _checked(answer) if check else ExitCode.DONE


def _runtimes(text: str | None) -> tuple[str, ...]:
    """The runtimes that were named; all of them beside the ideal for ``all``."""
    if text is None:
        return ()
    asked = [part.strip() for part in text.split(",")]
    if runtimes.ALL in asked:
        return runtimes.runtime_names()
    return (ideal.NAME, *(runtimes.runtime(name).name for name in asked))


def _checked(answer: Answer) -> ExitCode:
    if answer.budget.verdict == "over":
        output.note(answer.sentence)
        return ExitCode.DOES_NOT_FIT
    if answer.budget.verdict == "tight":
        output.note(answer.sentence)
    return ExitCode.DONE
