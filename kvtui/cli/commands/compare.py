"""``kvtui compare``: the same workload under other kinds, formats, engines and models."""

import argparse

from kvtui.cli import flags
from kvtui.cli.commands import Commands
from kvtui.errors import ExitCode


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "compare",
        help="the same workload under other kinds, formats, engines, models",
        allow_abbrev=False,
        description="Variants of one question side by side; without a list, the usual moves.",
    )
    flags.add_shape(parser)
    group = parser.add_argument_group("side by side")
    group.add_argument("--models", metavar="A,B", help="models, as --model takes them")
    group.add_argument("--kinds", metavar="A,B", help="mha, gqa, mqa, mla, window, sinks")
    group.add_argument("--dtypes", metavar="A,B", help="element formats of the cache")
    group.add_argument("--runtimes", metavar="A,B", help="what each engine would reserve, or all")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--plot", action="store_true", help="bytes over T with the budget line")
    forms.add_argument("--json", action="store_true", help="one JSON object on stdout")
    forms.add_argument("--csv", action="store_true", help="one line a variant, plain values")
    forms.add_argument("--markdown", action="store_true", help="a Markdown table")
    parser.set_defaults(carry_out=carry_out)


def carry_out(options: argparse.Namespace) -> ExitCode:
    """Print the comparison."""
    from kvtui.headless.compare import FORMS, Compared, compare

    given = vars(options)
    return compare(
        flags.request(options),
        Compared(options.models, options.kinds, options.dtypes, options.runtimes),
        form=next((form for form in FORMS if given.get(form)), "text"),
        detect=flags.detect,
    )
