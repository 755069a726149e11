"""The wire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtui.decode_run import DecodeRun
from kvtui.records import (
    Ended,
    RecordError,
    decode_command,
    decode_record,
    decode_run,
    encode,
    run_command,
)
from kvtui.spec import FullAttention, LatentAttention, NoCache, SinksWindow, SlidingWindow

RUN = DecodeRun(
    groups=(
        FullAttention(layers=3, q_heads=8, kv_heads=2, k_width=64, v_width=32),
        SlidingWindow(layers=1, q_heads=8, kv_heads=2, k_width=64, v_width=64, window=128),
        SinksWindow(layers=1, q_heads=8, kv_heads=2, k_width=64, v_width=64, window=128, sinks=4),
        LatentAttention(layers=2, q_heads=16, kv_lora_rank=512, rope_dim=64, nope_dim=128),
        NoCache(layers=1),
    ),
    batch=2,
    start=8,
    target=16,
    time_limit_s=1.5,
)


def test_a_run_crosses_the_wire_unchanged() -> None:
    """A run of every runnable layer kind reads back as it was sent."""
    assert decode_run(decode_command(encode(run_command(7, RUN)))) == RUN  # type: ignore[arg-type]


@given(st.integers(0, 2**40), st.text(max_size=200))
def test_a_record_is_one_line_whatever_it_says(held: int, sentence: str) -> None:
    """A record is one JSON line and reads back equal, whatever text is in it."""
    record = Ended(run=1, reason="target", sentence=sentence, steps=1, tokens=2, held_kv_bytes=held)
    line = encode(record)
    assert line.count(b"\n") == 1
    assert decode_record(line) == record


def test_unknown_record_types_are_skipped() -> None:
    """A record type of a later version is skipped, so that old screens read new recordings."""
    assert decode_record(b'{"type":"hologram","at_ms":1}') is None


@pytest.mark.parametrize(
    "line", [b"", b"Welcome to gpu-box", b"[]", b'{"a":1}', b'{"type":"ended"}', b"\xff\xfe"]
)
def test_what_is_no_record_is_an_error(line: bytes) -> None:
    """Banners, broken JSON and records without their fields are told apart from unknown types."""
    with pytest.raises(RecordError):
        decode_record(line)


def test_unknown_fields_of_known_records_are_ignored() -> None:
    """A field that a later version added does not break this reader."""
    record = decode_record(b'{"type":"held","run":1,"paused":true,"colour":"blue","at_ms":3.5}')
    assert record is not None
    assert record.at_ms == 3.5
