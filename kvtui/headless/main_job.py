"""``kvtui`` without a terminal: the dashboard's three answers as text, one after another.

What will it cost (the sizing report), what does it cost (a short live run), where did the bytes
go (the ladder). One line on stderr says why there is no screen.
"""

from dataclasses import replace

from kvtui.client.local import LOCAL, Helpers
from kvtui.errors import ExitCode, InputError
from kvtui.headless import output
from kvtui.headless.live import demonstrated, live_outcome
from kvtui.headless.run_report import ladder_report, run_report
from kvtui.headless.size_report import size_report
from kvtui.session.answer import compose
from kvtui.session.flags import flags
from kvtui.session.ladder import ladder
from kvtui.session.runs import RunOptions, decode_run
from kvtui.sources.request import DetectDevice, Request, scenario

_SHORT_S = 5.0


def main_job(
    request: Request,
    options: RunOptions,
    *,
    why: str,
    detect: DetectDevice,
    record: str | None = None,
    helpers: Helpers = LOCAL,
) -> ExitCode:
    """Size, run shortly, and account for the bytes; the run goes to ``record`` as well."""
    output.note(f"{why}, so this is the report instead of the dashboard (kvtui --help).")
    request, options = demonstrated(request, options)
    if request.gpu is None and request.memory is None and not _brings_memory(request):
        request = replace(request, gpu="host")
    asked = scenario(request, detect=detect)
    output.data("WHAT WILL IT COST\n")
    output.data(size_report(compose(asked)))
    output.data("\nWHAT DOES IT COST\n")
    try:
        run = decode_run(
            asked, replace(options, time_limit_s=min(options.time_limit_s or _SHORT_S, _SHORT_S))
        )
    except InputError as error:
        output.data(f"No live run of this question: {error}")
        return ExitCode.DONE
    outcome = live_outcome(run, fields=request.given(), record=record, helpers=helpers)
    output.data(run_report(outcome.live, outcome.summary, flags(outcome.live)))
    output.data("\nWHERE DID THE BYTES GO\n")
    output.data(ladder_report(ladder(outcome.live)))
    return outcome.exit_code


def _brings_memory(request: Request) -> bool:
    """The workload preset states a device's memory of its own."""
    if request.workload is None:
        return False
    from kvtui.sources.presets import workload_table

    return "memory" in workload_table(request.workload)
