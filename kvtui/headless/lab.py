"""``kvtui lab``: the lessons' experiments, in a process of their own since they need torch."""

import subprocess
import sys

from kvtui.errors import ExitCode


def lab(*, device: str = "auto", as_json: bool = False) -> ExitCode:
    """Run the experiments; their stdout is this command's."""
    arguments = [sys.executable, "-m", "kvtui.lab", "--device", device]
    if as_json:
        arguments.append("--json")
    return ExitCode(subprocess.run(arguments, stdin=subprocess.DEVNULL, check=False).returncode)
