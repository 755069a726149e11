"""What each command really loads, seen from inside a fresh interpreter."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "textual", "rich", "plotext", "pynvml", "psutil")


def loaded_by(code: str) -> set[str]:
    """Top-level modules among HEAVY that ``code`` leaves in ``sys.modules``."""
    probe = f"{code}\nimport sys\nprint('LOADED', *(n for n in {HEAVY!r} if n in sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60
    )
    line = next(line for line in result.stdout.splitlines() if line.startswith("LOADED"))
    return set(line.split()[1:])


def command(*arguments: str) -> str:
    return (
        "from kvtui.cli import run\n"
        f"try:\n    status = run({list(arguments)!r})\n"
        "except SystemExit as end:\n    status = end.code or 0\n"
        "assert status == 0, status"
    )


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("size", "--help")])
def test_help_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    """Help and version load neither torch nor the screen nor a driver."""
    assert loaded_by(command(*arguments)) == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ("size", "--workload", "support-desk"),
        ("size", "--model", "llama-3.1-8b", "--gpu", "h200", "--context", "8192", "--json"),
        ("presets",),
    ],
)
def test_sizing_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    """Sizing loads neither torch, numpy, Textual nor a driver."""
    assert loaded_by(command(*arguments)) == set()


def test_the_screen_never_loads_torch() -> None:
    """The dashboard's modules load neither torch nor numpy, nor plotext before a plot needs it."""
    assert loaded_by("import kvtui.tui.app") & {"torch", "numpy", "plotext", "pynvml"} == set()


def test_the_monitor_is_light() -> None:
    """The monitor loads neither torch, numpy nor the screen."""
    assert loaded_by("import kvtui.monitor") & {"torch", "numpy", "textual", "rich"} == set()


def test_the_root_holds_the_version_alone() -> None:
    """Importing the package loads none of its parts."""
    code = (
        "import sys, kvtui\n"
        "assert not [n for n in sys.modules if n.startswith('kvtui.')], sys.modules.keys()"
    )
    assert loaded_by(code) == set()
