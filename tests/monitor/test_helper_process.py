"""What both helper processes do first, tried on small processes of their own."""

import os
import select
import subprocess
import sys


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True
    )


def test_only_records_reach_stdout() -> None:
    """What Python, a child and a C library print goes to stderr; the private stream is stdout."""
    done = run(
        "import os, sys\n"
        "from kvtui.helper_process import take_over_stdout\n"
        "records = take_over_stdout()\n"
        "print('python', flush=True); os.system('echo child'); os.write(1, b'library\\n')\n"
        "records.write(b'record\\n')\n"
    )
    assert done.stdout == "record\n"
    assert sorted(done.stderr.split()) == ["child", "library", "python"]


def test_a_helper_dies_with_its_parent() -> None:
    """SIGKILL of the parent ends the helper, although nothing else tells it."""
    helper = (
        "import time; from kvtui.helper_process import die_with_parent; die_with_parent()\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    parent = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {helper!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        watched = os.pidfd_open(int(child.stdout.readline()))
        try:
            child.kill()
            assert select.select([watched], [], [], 5)[0]
        finally:
            os.close(watched)


def test_an_orphan_leaves_at_once() -> None:
    """A helper whose parent is not the one it was told of ends with status 0."""
    run(
        "import os; from kvtui.helper_process import die_with_parent\n"
        "die_with_parent(os.getpid())\nraise SystemExit(7)"
    )
