"""``kvtui size``: one sizing answer as text or JSON, the verdict as exit status on request."""

import msgspec

from kvtui.errors import ExitCode, InputError
from kvtui.headless import output
from kvtui.headless.size_report import size_report
from kvtui.session.answer import Answer, compose
from kvtui.sources.request import DetectDevice, Request, scenario


def size(
    request: Request,
    *,
    as_json: bool = False,
    check: bool = False,
    explain: bool = False,
    detect: DetectDevice | None = None,
) -> ExitCode:
    """Print the answer to ``request``; with ``check`` the exit status is the verdict."""
    answer = compose(scenario(request, detect=detect))
    if check and answer.budget.verdict is None:
        raise InputError("memory", None, "given for --check (--memory SIZE or --gpu NAME)")
    if as_json:
        output.data(msgspec.json.encode(answer).decode())
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
