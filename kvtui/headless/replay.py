"""``kvtui replay FILE --json``: the summary of each run in a recording, without a screen."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from kvtui.client.recording import Recording
from kvtui.errors import ExitCode, SourceError
from kvtui.headless import output
from kvtui.records import Gone, RunAsked, Summary, encode
from kvtui.session.live import Live
from kvtui.session.summary import summary


def replay_summary(paths: list[Path]) -> ExitCode:
    """Print one summary line for each run, in the order recorded.

    Raises:
        SourceError: a file is no recording, or holds no run.
    """
    found: list[Summary] = []
    for path in paths:
        with closing(Recording(path)) as recording:
            summaries = list(_summaries(recording))
        if not summaries:
            raise SourceError(f"recording {path}: it holds no run.")
        found += summaries
    for one in found:
        output.data(encode(one).decode().rstrip("\n"))
    return ExitCode.DONE


def _summaries(recording: Recording) -> Iterator[Summary]:
    """Of each run; one that was torn off ended as lost."""
    live = Live()
    reader = recording.read()
    for record in reader:
        if isinstance(record, RunAsked) and live.run is not None:
            yield summary(live)
        live.apply(record)
    if live.run is None:
        return
    sentence = "The recording breaks off here."
    live.apply(Gone(role="worker", sentence=sentence, exit_status=None, expected=False))
    yield summary(live)
