"""``kvtui presets``: list models, devices and workloads."""

import argparse

from kvtui.cli.commands import Commands
from kvtui.errors import ExitCode


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "presets", help="list models, devices and workloads", allow_abbrev=False
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(carry_out=carry_out)


def carry_out(options: argparse.Namespace) -> ExitCode:
    """Print the lists."""
    from kvtui.headless.listing import presets

    return presets(as_json=options.json)
