"""``kvtui reconcile``: what the figures of an engine's start-up log mean."""

import argparse

from kvtui.cli import flags
from kvtui.cli.commands import Commands
from kvtui.errors import ExitCode


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "reconcile",
        help="what an engine's start-up log means",
        allow_abbrev=False,
        description="Reads a start-up log of vLLM, SGLang, TensorRT-LLM or llama.cpp and says "
        "which rule gives each figure. What the log states need not be typed.",
    )
    parser.add_argument("log", metavar="LOG", help="a file, or - for stdin")
    flags.add_shape(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(carry_out=carry_out)


def carry_out(options: argparse.Namespace) -> ExitCode:
    """Print the findings."""
    from kvtui.headless.reconcile import reconcile

    return reconcile(options.log, flags.request(options), as_json=options.json, detect=flags.detect)
