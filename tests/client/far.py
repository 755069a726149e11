"""A far side for tests: an ``ssh`` on the PATH that notes its call and runs things here."""

import shlex
import sys
from pathlib import Path

import pytest

from kvtui.client.ssh import RemoteHost

ROOT = Path(__file__).resolve().parents[2]

FAKE = '''#!{python}
"""Takes what OpenSSH takes, and gives the far command to a shell, as sshd does."""
import json, os, sys
arguments = sys.argv[1:]
with open({calls!r}, "a") as calls:
    calls.write(json.dumps(arguments) + chr(10))
at = arguments.index("--")
name, command = arguments[at + 1:]
for line in {banner!r}:
    print(line, flush=True)
for line in {noise!r}:
    print(line, file=sys.stderr, flush=True)
if {status!r} is not None:
    sys.exit({status!r})
os.execv("/bin/sh", ["sh", "-c", command])
'''


def far_kvtui(folder: Path) -> RemoteHost:
    """A machine whose Python has kvtui: this checkout, installed here or not."""
    return far_python(folder, f'PYTHONPATH={shlex.quote(str(ROOT))} exec {sys.executable} "$@"')


def far_python(folder: Path, script: str, *, shell: str = "/bin/sh") -> RemoteHost:
    """A machine whose Python is ``script``."""
    program = folder / "far-python"
    program.write_text(f"#!{shell}\n{script}\n")
    program.chmod(0o755)
    return RemoteHost("gpu-box", str(program))


class FakeSsh:
    """Put ``folder`` first on the PATH; every call's arguments are lines of ``calls``."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.calls = folder / "calls"
        folder.mkdir()
        monkeypatch.setenv("PATH", str(folder), prepend=":")
        self.write()

    def write(
        self,
        *,
        banner: tuple[str, ...] = (),
        noise: tuple[str, ...] = (),
        status: int | None = None,
    ) -> None:
        """What it says first on stdout and stderr, and the status it ends with, None to connect."""
        program = self.folder / "ssh"
        program.write_text(
            FAKE.format(
                python=sys.executable,
                calls=str(self.calls),
                banner=banner,
                noise=noise,
                status=status,
            )
        )
        program.chmod(0o755)
