"""``kvtui check`` and ``kvtui lab``: what the engine proves and repeats on this machine."""

import argparse

from kvtui.cli.commands import Commands
from kvtui.errors import ExitCode


def add(commands: Commands) -> None:
    """Declare both commands."""
    for name, text in (
        ("check", "prove that cached equals recomputed and predicted equals allocated"),
        ("lab", "the lessons' experiments, figure beside figure"),
    ):
        parser = commands.add_parser(name, help=text, allow_abbrev=False)
        parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
        parser.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda:N")
        parser.set_defaults(carry_out=carry_out)


def carry_out(options: argparse.Namespace) -> ExitCode:
    """Run it in a process of its own, since it needs torch."""
    from kvtui.headless.engine_command import engine_command

    return engine_command(options.command, device=options.device, as_json=options.json)
