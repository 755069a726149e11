"""``kvtui monitor``: NVML and host readings."""

import argparse

from kvtui.cli import flags
from kvtui.cli.commands import Commands
from kvtui.errors import ExitCode


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("monitor", help="NVML and host readings", allow_abbrev=False)
    parser.add_argument("--once", action="store_true", help="one reading of every device")
    parser.add_argument("--interval", metavar="SECONDS", help="between readings (1)")
    parser.add_argument("--samples", metavar="N", help="end after N rounds of readings")
    parser.add_argument("--csv", action="store_true", help="a table of numbers, a row a GPU")
    flags.add_host(parser)
    parser.set_defaults(carry_out=carry_out)


def carry_out(options: argparse.Namespace) -> ExitCode | int:
    """Print readings until told to stop, or one."""
    from kvtui.headless.monitor import monitor

    return monitor(
        once=options.once,
        interval=options.interval,
        host=flags.remote(options),
        samples=options.samples,
        as_csv=options.csv,
    )
