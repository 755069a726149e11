"""``kvtui replay FILE``: the dashboard over a recording, or its summary."""

import argparse
from pathlib import Path

from kvtui.cli import flags
from kvtui.cli.commands import Commands
from kvtui.cli.commands.dashboard import no_screen
from kvtui.errors import ExitCode, KvtuiError


class NoTerminalError(KvtuiError):
    """A screen was asked for where none can be drawn."""

    exit_code = ExitCode.USAGE


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "replay",
        help="the dashboard over a recording",
        allow_abbrev=False,
        description="Plays what kvtui run --record FILE, or w on the dashboard, has written.",
    )
    parser.add_argument("file", metavar="FILE", help="a recording, .gz or plain")
    parser.add_argument(
        "--against", metavar="FILE", help="another recording, drawn into the same plot"
    )
    parser.add_argument("--json", action="store_true", help="only the summary of each run")
    flags.add_screen(parser)
    parser.set_defaults(carry_out=carry_out)


def carry_out(options: argparse.Namespace) -> ExitCode | int:
    """Play it on the screen, or print its summary."""
    if options.json:
        from kvtui.headless.replay import replay_summary

        flags.begin_log(flags.settings(options))
        return replay_summary([Path(one) for one in (options.file, options.against) if one])
    why = no_screen()
    if why is not None:
        raise NoTerminalError(f"replay needs a terminal, and {why}; --json prints the summary.")
    from kvtui.tui.replay import replay

    return replay(
        Path(options.file),
        against=Path(options.against) if options.against else None,
        detect=flags.detect,
        settings=flags.screen_settings(options),
    )
