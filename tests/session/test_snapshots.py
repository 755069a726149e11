"""Going back to what was known before."""

from pathlib import Path

from kvtui.client.recording import Recording
from kvtui.session.live import Live
from kvtui.session.summary import summary
from tests.client.recordings import write


def test_a_snapshot_is_not_changed_by_what_comes_later(tmp_path: Path) -> None:
    """Restoring gives every figure back, and reading on from there the same end."""
    write(tmp_path / "run", 3000)
    recording = Recording(tmp_path / "run")
    records = list(recording.read())
    recording.close()
    half = len(records) // 2
    live = Live()
    for record in records[:half]:
        live.apply(record)
    kept, known = live.snapshot(), summary(live)
    samples = list(live.samples)
    for record in records[half:]:
        live.apply(record)
    end, revision = summary(live), live.revision
    assert summary(kept) == known != end
    live.restore(kept)
    assert summary(live) == known
    assert list(live.samples) == samples
    assert live.revision > revision, "a screen must see that something changed"
    for record in records[half:]:
        live.apply(record)
    assert summary(live) == end
    assert summary(kept) == known
