"""``kvtui bench``: fixed cases as a share of this device's measured bandwidth limit."""

import argparse
from typing import Final

from kvtui.cli.commands import Commands
from kvtui.errors import ExitCode

_VALUES: Final = (
    ("--cases", "A,B", "some of the cases that --list names"),
    ("--threads", "N", "CPU threads; all cores but one if not given"),
    ("--dtype", "NAME", "fp32, bf16 or fp16 where formats are not compared"),
    ("--sweep", "SIZE", "most cache bytes of one candidate; 1GiB on a CPU"),
    ("--seconds", "S", "time to measure candidates that race each other; 1.5"),
    ("--time-limit", "S", "begin no case after this many seconds"),
    ("--compare", "FILE", "set it beside an earlier result"),
    ("--output", "FILE", "write the JSON to FILE too, after every case"),
)


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "bench",
        help="fixed cases as a share of the measured bandwidth limit",
        allow_abbrev=False,
        description="Candidates timed in turn on the same tensors, outputs checked, waste flagged.",
    )
    parser.add_argument("--list", action="store_true", help="name the cases and what each shows")
    parser.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda:N")
    for name, value, text in _VALUES:
        parser.add_argument(name, metavar=value, help=text)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(carry_out=carry_out)


def carry_out(options: argparse.Namespace) -> ExitCode:
    """Run it in a process of its own, since it needs torch."""
    from kvtui.headless.engine_command import engine_command

    given = vars(options)
    flags = ["--list"] if options.list else []
    for name, _, _ in _VALUES:
        value = given[name.removeprefix("--").replace("-", "_")]
        if value is not None:
            flags.append(f"{name}={value}")
    return engine_command("bench", device=options.device, as_json=options.json, flags=flags)
