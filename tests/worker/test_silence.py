"""A worker that was pinged and hears nothing any more ends, since its link may be cut."""

import os

import pytest

from kvtui.worker.serving import _lines


def test_lines_end_with_a_silence_once_there_is_a_patience() -> None:
    """Without pings silence is patience without end; with them it is the end of stdin."""
    out, into = os.pipe()
    patience: list[float | None] = [5.0]
    try:
        os.write(into, b"one\ntwo\nthr")
        lines = _lines(out, lambda: patience[0])
        assert [next(lines), next(lines)] == [b"one", b"two"]
        os.write(into, b"ee\n")
        assert next(lines) == b"three"
        patience[0] = 0.0
        with pytest.raises(StopIteration):
            next(lines)
    finally:
        os.close(out)
        os.close(into)
