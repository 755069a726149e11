"""``kvtui size``: size a cache against a budget."""

import argparse

from kvtui.cli import flags
from kvtui.cli.commands import Commands
from kvtui.errors import ExitCode


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "size",
        help="size a cache against a budget",
        allow_abbrev=False,
        description="Bytes, verdict, limits, step floor and levers of one cache.",
    )
    flags.add_shape(parser)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="one JSON object on stdout")
    forms.add_argument("--csv", action="store_true", help="one line a figure, plain values")
    forms.add_argument("--markdown", action="store_true", help="Markdown tables")
    parser.add_argument("--check", action="store_true", help="exit 4 when it does not fit")
    parser.add_argument(
        "--runtime", metavar="NAME|all", help="what these engines would reserve, side by side"
    )
    parser.add_argument("--explain", action="store_true", help="every number with its formula")
    parser.set_defaults(carry_out=carry_out)


def carry_out(options: argparse.Namespace) -> ExitCode:
    """Print the report."""
    from kvtui.headless.size import size

    given = vars(options)
    return size(
        flags.request(options),
        form=next((form for form in ("json", "csv", "markdown") if given[form]), "text"),
        check=options.check,
        explain=options.explain,
        runtime=options.runtime,
        detect=flags.detect,
    )
