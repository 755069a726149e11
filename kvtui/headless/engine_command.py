"""``kvtui lab`` and ``kvtui check``: commands that need torch, each in a process of its own."""

import subprocess
import sys
from typing import Literal

from kvtui.errors import ExitCode


def engine_command(
    name: Literal["lab", "check"], *, device: str = "auto", as_json: bool = False
) -> ExitCode:
    """Run ``kvtui.NAME`` with these flags; its stdout is this command's."""
    arguments = [sys.executable, "-m", f"kvtui.{name}", "--device", device]
    if as_json:
        arguments.append("--json")
    return ExitCode(subprocess.run(arguments, stdin=subprocess.DEVNULL, check=False).returncode)
