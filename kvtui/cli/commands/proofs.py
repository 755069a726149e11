"""``kvtui check`` and ``kvtui lab``: what the engine proves and repeats on this machine."""

import argparse

from kvtui.cli.commands import Commands
from kvtui.errors import ExitCode

_SCHEDULES = "rope, pi, ntk or yarn"


def add(commands: Commands) -> None:
    """Declare both commands."""
    for name, text in (
        ("check", "prove that cached equals recomputed and predicted equals allocated"),
        ("lab", "the lessons' experiments, figure beside figure"),
    ):
        parser = commands.add_parser(name, help=text, allow_abbrev=False)
        parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
        parser.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda:N")
        parser.add_argument(
            "--at-most",
            metavar="SIZE",
            help="largest tensor of the capacity experiment; longer cases are scaled down",
        )
        if name == "check":
            parser.add_argument(
                "--rope",
                metavar="NAME",
                help=f"only the positions, under one RoPE schedule: {_SCHEDULES}",
            )
            parser.add_argument(
                "--decode-rope",
                metavar="NAME",
                help="change to this schedule after prefill: the proof must fail",
            )
        parser.set_defaults(carry_out=carry_out)


def carry_out(options: argparse.Namespace) -> ExitCode:
    """Run it in a process of its own, since it needs torch."""
    from kvtui.headless.engine_command import engine_command

    flags: list[str] = []
    for name in ("at_most", "rope", "decode_rope"):
        value = getattr(options, name, None)
        if value is not None:
            flags.append(f"--{name.replace('_', '-')}={value}")
    return engine_command(options.command, device=options.device, as_json=options.json, flags=flags)
