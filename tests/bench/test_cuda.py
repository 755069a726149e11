"""The bench on a GPU, on small shapes: every case gives right outputs and names its kernels."""

import pytest
import torch

from kvtui.bench import measure
from kvtui.bench.cases import CASES, chosen
from kvtui.bench.course import Asked, Course
from kvtui.bench.results import Report

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
]
MIB = 2**20


@pytest.fixture(scope="module")
def report() -> Report:
    """All cases that run unasked, 16 MiB a candidate."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "_WARM_SECONDS", 0.05)
        asked = Asked(
            cases=chosen(None),
            device="cuda",
            sweep_bytes=16 * MIB,
            seconds=0.05,
            probe_bytes=256 * MIB,
        )
        return Course(asked).run()


def test_no_case_fails(report: Report) -> None:
    """Outputs agree with dense attention, graphs replay, rings wrap, pages are found."""
    assert report.failed == []
    expected = {case.name for case in CASES if not case.asked and case.only != "cpu"}
    assert {row.case for row in report.results} == expected


def test_the_kernel_is_evidence_and_not_cudnn(report: Report) -> None:
    """The profiler names what ran in the plain step, with its launches."""
    row = next(one for one in report.results if (one.case, one.backend) == ("mha", "contiguous"))
    assert row.kernel is not None
    assert "cudnn" not in row.kernel.lower()
    assert row.launches


def test_small_kernels_launched_one_by_one_are_host_bound(report: Report) -> None:
    """At 16 MiB a step the eager loop waits for its host, and says so."""
    eager = next(one for one in report.results if one.backend == "eager")
    assert "HOST-BOUND" in eager.flags


def test_the_device_is_described(report: Report) -> None:
    """Name, L2 and multiprocessors are the device's own."""
    machine = report.machine
    assert machine.kind == "cuda"
    assert machine.device == torch.cuda.get_device_name()
    assert machine.cache_bytes
    assert machine.multiprocessors
    assert report.versions.cuda == torch.version.cuda
