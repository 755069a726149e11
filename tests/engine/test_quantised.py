"""Quantised caches: their bytes, their step, and what their error may be."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvtui.check.proofs import quantised_error
from kvtui.decode_run import DecodeRun
from kvtui.engine.caches.codecs import QUANTISED, TokenHeadCodec, codec
from kvtui.engine.caches.quantised import QuantisedCache
from kvtui.engine.decoder import Decoder
from kvtui.engine.run import Run
from kvtui.errors import InputError
from kvtui.session.predictions import predicted_kv_bytes
from kvtui.spec import FullAttention, SlidingWindow

CPU = torch.device("cpu")
BYTES_A_ROW = {
    # vLLM's per-token-head forms: a byte a value and an fp32 scale.
    "int8": 64 + 4,
    "fp8-token-head": 64 + 4,
    # Static scales: a byte a value and nothing a token.
    "int8-channel": 64,
    "fp8": 64,
    "fp8-head": 64,
    # KIVI: half a byte a value, and fp16 scale and zero for every 32.
    "int4": 32 + 2 * 4,
}


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=16))
def test_no_value_is_off_by_more_than_half_a_step(values: list[float]) -> None:
    """Reading back, each value is within half of its row's step; zero rows stay zero."""
    row = torch.tensor([values])
    integers, scale = TokenHeadCodec("int8").encode(row)
    assert integers.dtype == torch.int8
    assert int(integers.abs().max()) <= 127
    difference = (integers.float() * scale - row).abs().max()
    assert float(difference) <= float(scale) / 2 * (1 + 1e-5)


@given(
    st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=80).filter(
        lambda row: len(row) % 2 == 0
    )
)
def test_int4_keeps_every_value_within_half_a_step_of_its_group(values: list[float]) -> None:
    """A row of any even width, in groups of 32 of which the last may be short."""
    row = torch.tensor([values])
    made = codec("int4")
    back = made.decode(*made.encode(row))
    assert back.shape == row.shape
    for first in range(0, len(values), 32):
        group = row[0, first : first + 32]
        spread, largest = float(group.max() - group.min()), float(group.abs().max())
        allowed = spread / 30 + (2 * spread + 2 * largest) * 2**-11 + 16 * 2**-24
        assert float((back[0, first : first + 32] - group).abs().max()) <= allowed


@pytest.mark.parametrize("dtype", QUANTISED)
def test_held_bytes_are_values_and_metadata(dtype: str) -> None:
    """A run holds what its format takes a row, as sizing says, in every format."""
    run = DecodeRun(
        groups=(FullAttention(layers=2, q_heads=4, kv_heads=2, k_width=64, v_width=64),), batch=3,
        start=6, target=20, dtype=dtype,
    )  # fmt: skip
    with torch.inference_mode():
        decoder = Decoder(run, torch.float32, CPU)
        x = decoder.inputs(3, 20, torch.Generator().manual_seed(1))
        list(decoder.fill(x[:, :6], slice(0, 3), 0))
        decoder.filled(6)
        for position in range(6, 20):
            out = decoder.step(x[:, position : position + 1], position)
    assert bool(torch.isfinite(out).all())
    rows = 2 * 2 * 3 * 20 * 2
    assert decoder.held_bytes == rows * BYTES_A_ROW[dtype] == predicted_kv_bytes(run, 20)
    assert decoder.capacity_bytes == decoder.held_bytes


@pytest.mark.parametrize("dtype", QUANTISED)
@pytest.mark.parametrize("kind", ["mha", "gqa", "mqa"])
def test_the_error_is_within_half_a_step(kind: str, dtype: str) -> None:
    """Over more than one chunk values move, and by no more than half a step of the format."""
    found = quantised_error(kind, dtype, CPU)
    assert found.status == "passed"
    assert found.error is not None
    assert found.bound is not None
    assert 0 < found.error <= found.bound


def test_a_wrong_scale_breaks_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales that are off by a hundredth are caught."""
    right = TokenHeadCodec.encode

    def wrong(self: TokenHeadCodec, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, scale = right(self, rows)
        return values, scale * 1.01

    monkeypatch.setattr(TokenHeadCodec, "encode", wrong)
    assert quantised_error("mha", "int8", CPU).status == "failed"


def test_wrong_attention_over_right_values_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that attends to all tokens but the last fails, though every value is right."""
    right = QuantisedCache.attend

    def wrong(self: QuantisedCache, q: torch.Tensor) -> torch.Tensor:
        self.seen -= 1
        out = right(self, q)
        self.seen += 1
        return out

    monkeypatch.setattr(QuantisedCache, "attend", wrong)
    found = quantised_error("gqa", "int4", CPU)
    assert found.status == "failed"
    assert "append axis" in found.suspect


def test_rewinding_leaves_no_trace() -> None:
    """A step taken back is overwritten by the next."""
    cache = QuantisedCache(1, 1, 4, 2, 2, dtype="int8", device=CPU)
    first, second = torch.ones(1, 1, 1, 2), torch.full((1, 1, 1, 2), 3.0)
    cache.append(first, first)
    cache.append(first, first)
    cache.rewind()
    cache.append(second, second)
    keys, _ = cache.views()
    assert keys[0, 0].flatten().tolist() == pytest.approx([1.0, 1.0, 3.0, 3.0])


def test_int8_is_refused_where_it_does_not_run() -> None:
    """Windows and pages have no int8 form, and it is said by name before anything is made."""
    window = SlidingWindow(layers=1, q_heads=2, kv_heads=1, k_width=4, v_width=4, window=4)
    full = FullAttention(layers=1, q_heads=2, kv_heads=1, k_width=4, v_width=4)
    for group, cache in ((window, "contiguous"), (full, "paged")):
        run = DecodeRun(
            groups=(group,), batch=1, start=2, target=4, dtype="int8",
            cache=cache,  # type: ignore[arg-type]
        )  # fmt: skip
        with pytest.raises(InputError, match="dtype is 'int8'"):
            Run(run)


@pytest.mark.parametrize(
    ("dtype", "share"),
    [
        # A published int8 cache with fp32 scales saves 48.4 % of fp16.
        ("int8", 0.516),
        # Per-token-head int4 and int8 caches are said to hold 3.86 and 1.95 times as much.
        ("int8-channel", 0.5),
        ("int4", 0.3125),
    ],
)
def test_the_saving_is_what_the_format_says(dtype: str, share: float) -> None:
    """At D = 128 a token takes this share of its bytes in 16 bits."""
    cache = QuantisedCache(1, 1, 1, 128, 128, dtype=dtype, device=CPU)
    assert math.isclose(cache.entry_bytes / (2 * 128 * 2), share, abs_tol=5e-4)
