"""The dashboard with its helpers elsewhere, in a real terminal, through a fake ssh."""

from pathlib import Path

import psutil
import pytest

from tests.client.far import FakeSsh, far_kvtui
from tests.tui.test_terminal import Terminal, assert_clean


def test_a_run_elsewhere_and_the_loss_of_the_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header has the machine's name; cut links are said and r starts anew; q ends cleanly."""
    FakeSsh(tmp_path / "bin", monkeypatch).write(banner=("Welcome",))
    terminal = Terminal("--host", "gpu-box", "--host-python", far_kvtui(tmp_path).python)
    terminal.shows("payload against budget")
    terminal.shows("gpu-box")
    terminal.press("r")
    terminal.shows("RUNNING", 120)
    for one in terminal.children():
        one.kill()
    terminal.wait_for(lambda: b"LINK LOST" in terminal.output and b"SIGKILL" in terminal.output, 20)
    terminal.press("r")
    assert terminal.worker().is_running()
    children = terminal.children()
    terminal.press("q")
    assert terminal.ends(5) == 0
    assert_clean(terminal.output)
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive
