"""``kvtui lab``, ``check`` and ``bench``: commands that need torch, each a process of its own."""

import subprocess
from collections.abc import Sequence
from typing import Literal

from kvtui.client.local import helper_command, helper_environment
from kvtui.errors import ExitCode
from kvtui.headless import output


def engine_command(
    name: Literal["lab", "check", "bench"],
    *,
    device: str = "auto",
    as_json: bool = False,
    flags: Sequence[str] = (),
) -> ExitCode:
    """Run ``kvtui.NAME`` with these ``flags``; its stdout is this command's.

    A process that a signal ended has failed, with one line that says so.
    """
    arguments = [*helper_command(name), "--device", device, *flags]
    if as_json:
        arguments.append("--json")
    status = subprocess.run(
        arguments, stdin=subprocess.DEVNULL, env=helper_environment(), check=False
    ).returncode
    if status < 0:
        output.note(f"{name} was ended by signal {-status}.")
        return ExitCode.RUN_FAILED
    return ExitCode(status)
