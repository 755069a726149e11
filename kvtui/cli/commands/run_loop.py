"""``kvtui run``: a decode loop that grows the cache, without a screen."""

import argparse

from kvtui.cli import flags
from kvtui.cli.commands import Commands
from kvtui.errors import ExitCode


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "run",
        help="run a decode loop that grows the cache",
        allow_abbrev=False,
        description="A real decode loop on this machine; without a shape, a demonstration.",
    )
    flags.add_shape(parser)
    flags.add_run(parser)
    parser.add_argument("--json", action="store_true", help="one record a line, last the summary")
    flags.add_host(parser)
    flags.add_record(parser)
    flags.add_log(parser)
    parser.set_defaults(carry_out=carry_out)


def carry_out(options: argparse.Namespace) -> ExitCode:
    """Run to the target and print the summary."""
    from kvtui.headless.live import run_live

    flags.begin_log(flags.settings(options))
    return run_live(
        flags.request(options),
        flags.run_options(options),
        as_json=options.json,
        record=options.record,
        detect=flags.detect_on(options),
        helpers=flags.helpers(options),
    )
