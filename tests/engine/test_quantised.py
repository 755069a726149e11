"""The int8 cache: its bytes, its step, and what its error may be."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvtui.check.proofs import quantised_error
from kvtui.engine.caches.quantised import Int8Cache, quantised
from kvtui.engine.decoder import Decoder
from kvtui.engine.run import Run
from kvtui.errors import InputError
from kvtui.session.live import predicted_kv_bytes
from kvtui.spec import DecodeRun, FullAttention, SlidingWindow

CPU = torch.device("cpu")


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=16))
def test_no_value_is_off_by_more_than_half_a_step(values: list[float]) -> None:
    """Reading back, each value is within half of its row's step; zero rows stay zero."""
    row = torch.tensor([values])
    integers, scale = quantised(row)
    assert integers.dtype == torch.int8
    assert int(integers.abs().max()) <= 127
    difference = (integers.float() * scale - row).abs().max()
    assert float(difference) <= float(scale) / 2 * (1 + 1e-5)


def test_held_bytes_are_values_and_scales() -> None:
    """A run in int8 holds a byte a value and four a row, as sizing says."""
    run = DecodeRun(
        groups=(FullAttention(layers=2, q_heads=4, kv_heads=2, k_width=8, v_width=8),), batch=3,
        start=6, target=20, dtype="int8",
    )  # fmt: skip
    with torch.inference_mode():
        decoder = Decoder(run, torch.float32, CPU)
        x = decoder.inputs(3, 20, torch.Generator().manual_seed(1))
        list(decoder.fill(x[:, :6], slice(0, 3), 0))
        decoder.filled(6)
        for position in range(6, 20):
            out = decoder.step(x[:, position : position + 1], position)
    assert bool(torch.isfinite(out).all())
    assert decoder.held_bytes == 2 * 2 * 3 * 20 * 2 * (8 + 4) == predicted_kv_bytes(run, 20)
    assert decoder.capacity_bytes == decoder.held_bytes


@pytest.mark.parametrize("kind", ["mha", "gqa", "mqa"])
def test_the_error_is_within_the_bound_of_the_step(kind: str) -> None:
    """Over more than one chunk the output moves, and by less than the step size allows."""
    found = quantised_error(kind, CPU)
    assert found.status == "passed"
    assert found.error is not None
    assert found.bound is not None
    assert 0 < found.error <= found.bound


def test_a_wrong_scale_breaks_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales that are off by a quarter are caught."""

    def wrong(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, scale = quantised(rows)
        return values, scale * 3

    monkeypatch.setattr("kvtui.engine.caches.quantised.quantised", wrong)
    assert quantised_error("mha", CPU).status == "failed"


def test_rewinding_leaves_no_trace() -> None:
    """A step taken back is overwritten by the next."""
    cache = Int8Cache(1, 1, 4, 2, 2, device=CPU)
    first, second = torch.ones(1, 1, 1, 2), torch.full((1, 1, 1, 2), 3.0)
    cache.append(first, first)
    cache.append(first, first)
    cache.rewind()
    cache.append(second, second)
    keys, _ = cache.views()
    assert keys[0, 0].flatten().tolist() == pytest.approx([1.0, 1.0, 3.0, 3.0])


def test_int8_is_refused_where_it_does_not_run() -> None:
    """Windows and pages have no int8 form yet, and it is said by name."""
    window = SlidingWindow(layers=1, q_heads=2, kv_heads=1, k_width=4, v_width=4, window=4)
    full = FullAttention(layers=1, q_heads=2, kv_heads=1, k_width=4, v_width=4)
    for group, cache in ((window, "contiguous"), (full, "paged")):
        run = DecodeRun(
            groups=(group,), batch=1, start=2, target=4, dtype="int8",
            cache=cache,  # type: ignore[arg-type]
        )  # fmt: skip
        with pytest.raises(InputError, match="dtype is 'int8'"):
            Run(run).need()


def test_the_saving_is_what_the_format_says() -> None:
    """At D = 128 int8 with fp32 scales takes 0.516 of 16 bits, the published 48.4 % saved."""
    cache = Int8Cache(1, 1, 1, 128, 128, device=CPU)
    assert math.isclose(cache.entry_bytes / (2 * 128 * 2), 0.516, abs_tol=5e-4)
