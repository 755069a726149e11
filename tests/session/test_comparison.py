"""Two runs side by side."""

from pathlib import Path

import pytest

from kvtui.client.recording import Recording
from kvtui.session.comparison import shape, versus
from kvtui.session.live import Live
from tests.client.recordings import write


def run(path: Path, step_ms: float) -> Live:
    write(path, 1000, step_ms=step_ms)
    live, recording = Live(), Recording(path)
    for record in recording.read():
        live.apply(record)
    recording.close()
    return live


def test_a_run_twice_as_slow_has_twice_the_step(tmp_path: Path) -> None:
    """Times double, rates halve, bytes stay; histograms are exact to a percent."""
    fast, slow = run(tmp_path / "fast", 4.0), run(tmp_path / "slow", 8.0)
    found = {one.name: one.ratio for one in versus(slow, fast)}
    assert found["step p50"] == pytest.approx(2, rel=0.02)
    assert found["step p99"] == pytest.approx(2, rel=0.02)
    assert found["KV read"] == pytest.approx(0.5, rel=0.02)
    assert found["tokens/s"] == pytest.approx(0.5, rel=0.02)
    assert found["cache"] == 1


def test_what_is_unknown_has_no_ratio(tmp_path: Path) -> None:
    """Nothing is compared with nothing."""
    live = run(tmp_path / "run", 4.0)
    assert {one.ratio for one in (*versus(Live(), live), *versus(live, Live()))} == {None}
    assert shape(Live()) == ("no run",)
    assert shape(live) == ("L 8", "B 1", "fp32", "contiguous", "SDPA folded")
