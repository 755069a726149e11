"""A finished run as text."""

from pathlib import Path

from kvtui.client.recording import Recording
from kvtui.headless.run_report import run_report
from kvtui.session.flags import flags, regime
from kvtui.session.live import Live
from kvtui.session.summary import summary
from tests.client.recordings import write


def test_what_bounds_a_step_is_said_with_its_reason(tmp_path: Path) -> None:
    """The word and the sentence of the regime stand in one line, whatever the lengths."""
    write(tmp_path / "run", 500)
    live, recording = Live(), Recording(tmp_path / "run")
    for record in recording.read():
        live.apply(record)
    recording.close()
    word, sentence = regime(live)
    lines = run_report(live, summary(live), flags(live)).splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("bound")] == [
        f"{word}: {sentence}"
    ]
