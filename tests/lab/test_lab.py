"""The lessons' experiments as commands."""

import json
import subprocess
import sys

import pytest

from kvtui.lab import capacity, reference
from kvtui.lab.capacity import Case


def test_the_small_example_is_the_tutorials() -> None:
    """The example checked by hand ends in a cache of [1, 2, 13, 4], equal to a few 1e-7."""
    found = reference.run(reference.SMALL, "cpu")
    assert found.cache_shape == (1, 2, 13, 4)
    assert found.max_abs_difference < 1e-5
    assert found.held_bytes == found.theoretical_bytes == 2 * 1 * 13 * 2 * 4 * 4


def test_the_reference_shape_pays_for_recomputation() -> None:
    """Recomputing attends over more pairs of tokens and holds the same bytes by formula."""
    found = reference.run(reference.ON_CPU, "cpu")
    assert found.held_bytes == found.theoretical_bytes == 147_456
    pairs = sum(length**2 for length in range(65, 73))
    assert found.recompute_flops == 4 * 8 * 64 * 2 * pairs
    assert found.cached_flops == 4 * 8 * 64 * 2 * (64**2 + sum(range(65, 73)))
    assert min(found.prefill_ms, found.recompute_ms, found.cached_ms) > 0


def test_the_tutorials_own_shape_is_0_5625_mib() -> None:
    """B=2, T=288, Hkv=2, D=64 in fp32 holds 589,824 bytes."""
    shape = reference.ON_CUDA
    tokens = shape.prompt + shape.steps
    assert 2 * shape.batch * tokens * shape.kv_heads * shape.head_dim * 4 == 589_824


def test_capacity_grows_by_what_the_formula_says() -> None:
    """A tensor that is written through grows the process by its bytes, within pages."""
    case = Case("tiny", 4, 2, 8, 4096, 128)
    found = capacity.run(case, "cpu")
    assert found.skipped == ""
    assert found.tensor_bytes == found.formula_bytes == 2 * 4 * 2 * 4096 * 8 * 128 * 2
    assert found.increase_bytes is not None
    assert found.increase_bytes == pytest.approx(found.tensor_bytes, rel=0.05)


def test_capacity_is_guarded_before_it_allocates(monkeypatch: pytest.MonkeyPatch) -> None:
    """With less memory a case is scaled over T; with far too little it is skipped with a reason."""
    monkeypatch.setattr("kvtui.engine.memory.available_bytes", lambda _: 2**30)
    scaled = capacity.run(Case("GQA", 32, 4, 8, 4096, 128), "cpu")
    assert scaled.tokens < 4096
    assert scaled.tensor_bytes == scaled.formula_bytes
    monkeypatch.setattr("kvtui.engine.memory.available_bytes", lambda _: 2**20)
    skipped = capacity.run(Case("GQA", 32, 4, 8, 4096, 128), "cpu")
    assert skipped.tensor_bytes == 0
    assert skipped.skipped == "payload and margin do not fit"


def test_the_command_prints_one_object() -> None:
    """kvtui lab --json is one object with both experiments and what the lesson reports."""
    result = subprocess.run(
        [sys.executable, "-m", "kvtui", "lab", "--json", "--device", "cpu"],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    found = json.loads(result.stdout)
    assert found["schema"] == "kvtui.lab/1"
    assert found["small"]["cache_shape"] == [1, 2, 13, 4]
    assert found["reported"]["recompute_ms"] == 8.080
    for case in found["capacity"]:
        assert case["tensor_bytes"] in (0, case["formula_bytes"])
