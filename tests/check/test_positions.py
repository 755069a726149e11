"""A RoPE schedule is part of what a cache means: kept it is proven, changed it is accused."""

import itertools
import json
import subprocess
import sys

import pytest
import torch

from kvtui.check.positions import SCHEDULES, agreement, noticed, prove_positions
from kvtui.errors import InputError

CPU = torch.device("cpu")
CHANGES = list(itertools.permutations(SCHEDULES, 2))


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("kind", ["mha", "gqa", "mqa", "window", "sinks", "mla"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_one_schedule_throughout_is_proven(name: str, kind: str, dtype: str) -> None:
    """Cached equals recomputed under position interpolation, NTK-aware and YaRN alike."""
    found = agreement("contiguous", kind, name, name, CPU, dtype)
    assert (found.status, found.suspect) == ("passed", "")


@pytest.mark.parametrize("kind", ["mha", "gqa", "mqa", "window", "sinks", "mla"])
@pytest.mark.parametrize(("prompt", "steps"), CHANGES)
def test_a_schedule_changed_after_prefill_fails_and_names_position(
    prompt: str, steps: str, kind: str
) -> None:
    """Whatever the two schedules, the proof fails and its suspect begins with position."""
    found = agreement("contiguous", kind, prompt, steps, CPU)
    assert found.status == "failed"
    assert found.error is not None
    assert found.bound is not None
    assert found.error > 20 * found.bound
    assert found.suspect.startswith("position: K of tokens ")


@pytest.mark.parametrize("cache", ["paged", "concat"])
def test_other_caches_keep_the_schedule_they_were_filled_under(cache: str) -> None:
    """Blocks and concatenated keys are as unreadable under another schedule as contiguous ones."""
    assert agreement(cache, "gqa", "yarn", "yarn", CPU).status == "passed"  # type: ignore[arg-type]
    found = agreement(cache, "gqa", "rope", "yarn", CPU)  # type: ignore[arg-type]
    assert (found.status, found.suspect[:9]) == ("failed", "position:")


def test_interpolation_is_told_as_the_positions_it_stands_for() -> None:
    """Plain keys read under interpolation by 4 stand at four times their position."""
    found = agreement("contiguous", "gqa", "rope", "pi", CPU)
    assert "as at position 4, 8, 12, 16, 20, 24, 28" in found.suspect


def test_yarns_temperature_is_told_as_a_scale() -> None:
    """Keys cached plain lack the factor 0.1 ln 4 + 1 = 1.139, and the other way round."""
    assert "scaled by 0.878" in agreement("contiguous", "mha", "rope", "yarn", CPU).suspect
    assert "scaled by 1.139" in agreement("contiguous", "mha", "yarn", "rope", CPU).suspect


def test_a_proof_that_noticed_nothing_would_fail() -> None:
    """The second half is no tautology: with no change between the phases it fails and says so."""
    found = noticed("gqa", "ntk", "ntk", CPU)
    assert found.status == "failed"
    assert found.suspect == "the outputs agree although the schedule changed"


def test_both_halves_are_part_of_check() -> None:
    """Three schedules are proven and each change is noticed."""
    results = list(prove_positions(CPU))
    assert {one.status for one in results} == {"passed"}
    changes = [one.attention for one in results if one.name == "schedule change noticed"]
    assert changes == [
        f"{kind} rope>{to}" for to in ("pi", "ntk", "yarn") for kind in ("gqa", "mla")
    ]


def test_an_unknown_schedule_is_named_with_those_there_are() -> None:
    """The sentence names the value and every schedule."""
    with pytest.raises(InputError, match=r"longrope.*rope, pi, ntk, yarn"):
        agreement("contiguous", "gqa", "longrope", "rope", CPU)


def test_the_command_fails_when_told_to_change_the_schedule() -> None:
    """kvtui check --rope rope --decode-rope yarn exits 1; every line that failed says position."""
    command = "kvtui check --json --device cpu --rope rope --decode-rope yarn".split()
    result = subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 1, result.stderr
    found = json.loads(result.stdout)
    assert found["passed"] == 0
    assert found["failed"] == len(found["results"]) > 0
    assert all(one["suspect"].startswith("position") for one in found["results"])


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
def test_positions_are_proven_on_a_gpu() -> None:
    """Both halves hold with the kernels a GPU attends with."""
    results = list(prove_positions(torch.device("cuda", 0)))
    assert [one for one in results if one.status != "passed"] == []
