"""``kvtui size``: one sizing answer in one of four forms, the verdict as exit status on request."""

import msgspec

from kvtui.errors import ExitCode, InputError
from kvtui.headless import output
from kvtui.headless.size_report import size_report
from kvtui.headless.size_tables import size_csv, size_markdown
from kvtui.session.answer import Answer, compose
from kvtui.sources.request import DetectDevice, Request, scenario


def size(
    request: Request,
    *,
    form: str = "text",
    check: bool = False,
    explain: bool = False,
    detect: DetectDevice | None = None,
) -> ExitCode:
    """Print the answer to ``request`` as text, json, csv or markdown.

    With ``check`` the exit status is the verdict.
    """
    answer = compose(scenario(request, detect=detect))
    if check and answer.budget.verdict is None:
        raise InputError("memory", None, "given for --check (--memory SIZE or --gpu NAME)")
    if form == "json":
        output.data(msgspec.json.encode(answer).decode())
    elif form == "csv":
        output.data(size_csv(answer))
    elif form == "markdown":
        output.data(size_markdown(answer))
    else:
        output.data(size_report(answer, explain=explain))
    return _checked(answer) if check else ExitCode.DONE


def _checked(answer: Answer) -> ExitCode:
    if answer.budget.verdict == "over":
        output.note(answer.sentence)
        return ExitCode.DOES_NOT_FIT
    if answer.budget.verdict == "tight":
        output.note(answer.sentence)
    return ExitCode.DONE
