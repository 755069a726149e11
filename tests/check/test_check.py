"""``kvtui check``: proofs that can fail."""

import json
import subprocess
import sys

import pytest
import torch

from kvtui.check.proofs import KINDS, allocation, equality, evidence, small_run
from kvtui.check.results import report, table
from kvtui.lab.capacity import Case

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_proven(kind: str, dtype: str) -> None:
    """Cached equals recomputed for every layer kind in every format, within its bound."""
    found = equality(small_run("contiguous", KINDS[kind], dtype), kind, CPU)
    assert found.status == "passed"
    assert found.error is not None
    assert found.bound is not None
    assert 0 <= found.error <= found.bound


def test_what_a_cache_does_not_hold_is_skipped_with_a_reason() -> None:
    """The concatenating cache has no windows; that is said and not counted as passed."""
    found = equality(small_run("concat", KINDS["window"], "fp32"), "window", CPU)
    assert (found.status, found.suspect) == ("skipped", "cache concat: full only")


def test_allocation_is_proven_on_a_real_tensor() -> None:
    """The formula's bytes are what a written tensor takes, within pages on a CPU."""
    found = allocation(Case("GQA", 4, 2, 8, 4096, 128), "cpu")
    assert found.status == "passed"
    assert found.error is not None
    assert found.bound is not None
    assert found.error <= found.bound


def test_evidence_is_the_profilers_name() -> None:
    """The kernel is named by the profiler: flash attention on a CPU, a batched product for MLA."""
    assert "attention" in evidence("gqa", "cpu").suspect
    assert evidence("mla", "cpu").suspect == "aten::bmm"


def test_the_report_counts() -> None:
    """Passed, failed and skipped are counted, and every proof has its line."""
    results = [
        equality(small_run("contiguous", KINDS["gqa"], "fp32"), "gqa", CPU),
        equality(small_run("concat", KINDS["mla"], "fp32"), "mla", CPU),
    ]
    found = report("a CPU", results)
    assert (found.passed, found.failed, found.skipped) == (1, 0, 1)
    assert len(table(found).splitlines()) == 4


def test_columns_never_touch() -> None:
    """However long a name, two spaces follow it in the table."""
    run = small_run("contiguous", KINDS["gqa"], "fp32")
    results = [equality(run, name, CPU) for name in ("gqa", "window and sinks under yarn")]
    rows = table(report("a CPU", results)).splitlines()[1:3]
    assert "window and sinks under yarn  fp32  " in rows[1]
    assert rows[0].index("fp32") == rows[1].index("fp32")


def test_the_command_exits_by_its_result() -> None:
    """kvtui check --json is one object, exit 0 when nothing fails, and quiet on stderr.

    Its largest tensors are asked to be small: proofs are scaled by length and stay proofs.
    """
    result = subprocess.run(
        [sys.executable, *"-m kvtui check --json --device cpu --at-most 128MiB".split()],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    found = json.loads(result.stdout)
    assert found["schema"] == "kvtui.check/1"
    assert found["failed"] == 0
    names = [one["name"] for one in found["results"]]
    assert names.count("schedule change noticed") == 6
    tensors = [one for one in found["results"] if one["name"] == "predicted equals allocated"]
    assert [one["suspect"] for one in tensors] == ["scaled to T = 256", "scaled to T = 64"]
    assert found["passed"] == sum(one["status"] == "passed" for one in found["results"])
    assert result.returncode == 0
    assert result.stderr == ""


def test_a_device_that_is_not_there_is_a_sentence() -> None:
    """kvtui check --device cuda without CUDA exits 3 and says so."""
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    result = subprocess.run(
        [sys.executable, "-m", "kvtui", "check", "--device", "cuda"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 3
    assert "CUDA" in result.stderr
    assert result.stderr.count("\n") == 1
