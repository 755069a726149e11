"""No command: the dashboard; the same job headless where there is no terminal to draw on."""

import argparse
import os
import sys
from pathlib import Path

from kvtui.cli import flags
from kvtui.errors import ExitCode


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its flags on the parser of ``kvtui`` itself."""
    flags.add_screen(parser)
    flags.add_host(parser)
    flags.add_record(parser)
    flags.add_shape(parser)
    flags.add_run(parser)
    parser.set_defaults(carry_out=carry_out)


def carry_out(options: argparse.Namespace) -> ExitCode | int:
    """Show the dashboard, or say why not and do its job as text."""
    why = no_screen()
    if why is None:
        if in_browser():
            from kvtui.helper_process import die_with_parent

            die_with_parent()
        from kvtui.tui.app import run as run_dashboard

        return run_dashboard(
            flags.request(options),
            flags.run_options(options),
            settings=flags.screen_settings(options),
            record=None if options.record is None else Path(options.record),
            detect=flags.detect_on(options),
            helpers=flags.helpers(options),
        )
    from kvtui.headless.main_job import main_job

    flags.begin_log(flags.settings(options))
    return main_job(
        flags.request(options),
        flags.run_options(options),
        why=why,
        detect=flags.detect_on(options),
        helpers=flags.helpers(options),
        record=options.record,
    )


def no_screen() -> str | None:
    """Why the dashboard cannot be drawn; None when it can. Textual draws on stderr."""
    if in_browser():
        return None
    if os.environ.get("TERM", "") == "dumb":
        return "TERM is dumb"
    for name, stream in (("stdin", sys.stdin), ("stderr", sys.stderr)):
        try:
            if stream is None or not stream.isatty():
                return f"{name} is not a terminal"
        except ValueError:
            return f"{name} is closed"
    return None


def in_browser() -> bool:
    """``kvtui serve`` started this: what is drawn goes to a page, and there is no terminal."""
    return os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")
