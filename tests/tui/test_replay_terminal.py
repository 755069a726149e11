"""A replay in a real terminal: every way in and out."""

import os
import signal
import time
from pathlib import Path

from tests.client.recordings import write
from tests.tui.test_terminal import Terminal, assert_clean


def test_quitting_a_replay_leaves_a_clean_terminal(tmp_path: Path) -> None:
    """It plays without any child process, and q leaves within a second."""
    write(tmp_path / "run.jsonl.gz", 2000)
    terminal = Terminal("replay", str(tmp_path / "run.jsonl.gz"))
    terminal.shows("REPLAY")
    assert terminal.children() == []
    terminal.press(">>>")
    terminal.shows("8x")
    began = time.monotonic()
    terminal.press("q")
    assert terminal.ends(5) == 0
    assert time.monotonic() - began < 1.5
    assert_clean(terminal.output)


def test_a_signal_ends_a_replay_as_it_ends_a_run(tmp_path: Path) -> None:
    """SIGTERM while it plays as fast as it can restores the terminal and says 143."""
    write(tmp_path / "run.jsonl", 2000)
    terminal = Terminal("replay", str(tmp_path / "run.jsonl"), columns=80, rows=24)
    terminal.shows("REPLAY")
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.ends(5) == 143
    assert_clean(terminal.output)


def test_what_cannot_be_replayed_never_paints(tmp_path: Path) -> None:
    """A foreign file is one sentence on the plain terminal, exit 2."""
    (tmp_path / "file").write_bytes(b"\0rubbish")
    terminal = Terminal("replay", str(tmp_path / "file"))
    assert terminal.ends(10) == 2
    assert b"\x1b[?1049h" not in terminal.output
    assert b"binary data" in terminal.output
