"""``kvtui serve``: the dashboard in a browser."""

import argparse
from typing import Final

from kvtui.cli import flags
from kvtui.cli.commands import Commands
from kvtui.errors import ExitCode, InputError, UnavailableError

_PORT: Final = 8000
_OWN: Final = ("bind", "port", "help")


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "serve",
        help="the dashboard in a browser",
        allow_abbrev=False,
        description="A dashboard of its own for each tab; the other flags are the dashboard's.",
    )
    parser.add_argument("--bind", default="127.0.0.1", metavar="ADDRESS", help="127.0.0.1")
    parser.add_argument("--port", default=f"{_PORT}", metavar="N", help=f"{_PORT}; 0 is any")
    flags.add_screen(parser)
    flags.add_host(parser)
    flags.add_shape(parser)
    flags.add_run(parser)
    parser.set_defaults(carry_out=lambda options: carry_out(options, parser))


def carry_out(options: argparse.Namespace, parser: argparse.ArgumentParser) -> ExitCode:
    """Serve until told to stop; what a dashboard would refuse is refused before."""
    text = options.port
    if not (text.isascii() and text.isdecimal() and int(text) < 2**16):
        raise InputError("port", text, "0 to 65535")
    request = flags.request(options)
    flags.run_options(options)
    flags.remote(options)
    flags.settings(options)
    try:
        from kvtui.headless.serve import serve
    except ImportError as error:
        raise UnavailableError(
            f"kvtui serve needs {error.name}: pip install 'kvtui[serve]'"
        ) from None
    if request.given():
        from kvtui.sources.request import scenario

        scenario(request, detect=flags.detect_on(options))
    return serve(_given(options, parser), bind=options.bind, port=int(text))


def _given(options: argparse.Namespace, parser: argparse.ArgumentParser) -> list[str]:
    """The flags of a dashboard as they were typed here."""
    typed = []
    for action in parser._actions:  # noqa: SLF001  # argparse has no other list of its flags
        if not action.option_strings or action.dest in _OWN:
            continue
        value = getattr(options, action.dest)
        if value == action.default:
            continue
        typed.append(action.option_strings[-1] + ("" if value is True else f"={value}"))
    return typed
