"""The command line: parses, then imports the one front end that was asked for.

Nothing heavy is imported before a command is chosen. Expected failures leave as one sentence on
stderr and their exit status; stdout stays empty then.

A command is a module of ``kvtui.cli.commands``: ``add`` declares its flags, ``carry_out`` does
the work. Adding one touches that file and one line of the table here.
"""

import argparse
from collections.abc import Sequence
from typing import Final, NoReturn

from kvtui import __version__
from kvtui.cli.commands import (
    bench,
    compare,
    config,
    dashboard,
    monitor,
    presets,
    proofs,
    reconcile,
    replay,
    run_loop,
    serve,
    size,
)
from kvtui.errors import ExitCode, KvtuiError

_COMMANDS: Final = (
    size,
    compare,
    reconcile,
    run_loop,
    replay,
    proofs,
    bench,
    presets,
    config,
    monitor,
    serve,
)


class _Parser(argparse.ArgumentParser):
    """Usage errors are sentences with exit status 2, like all other bad input."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is."""
        raise KvtuiUsageError(f"{message}. See {self.prog} --help.")


class KvtuiUsageError(KvtuiError):
    """A command line that cannot be parsed."""

    exit_code = ExitCode.USAGE


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line; the exit status."""
    try:
        options = _parser().parse_args(arguments)
        return int(options.carry_out(options))
    except KvtuiError as error:
        from kvtui.headless import output

        output.note(str(error))
        return int(error.exit_code)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kvtui",
        description="Size a KV cache, run it live, see where the bytes went. "
        "Without a command: the dashboard.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kvtui {__version__}")
    dashboard.add(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for command in _COMMANDS:
        command.add(commands)
    return parser
