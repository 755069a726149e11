"""Two results side by side: slower beyond noise, and what else differs."""

from pathlib import Path

import msgspec
import pytest

from kvtui.bench.aims import LIMIT, aim
from kvtui.bench.comparing import comparison, earlier
from kvtui.bench.results import (
    Limit,
    Machine,
    Report,
    Row,
    ShapeFacts,
    StepMs,
    Versions,
)
from kvtui.bench.text import text
from kvtui.errors import SourceError


def row(p10: float, p50: float, p90: float, *, size: int = 2**30, case: str = "paged") -> Row:
    return Row(
        case=case,
        backend="paged-256",
        dtype="fp32",
        threads=1,
        shape=ShapeFacts(
            layers=16, batch=1, q_heads=32, kv_heads=8, k_width=128, v_width=128, tokens=8192
        ),
        bytes=size,
        step_ms=StepMs(p10=p10, p50=p50, p90=p90, n=9),
        wall_step_ms=p50,
        cpu_step_ms=p50,
        bytes_per_s=size / p50 * 1e3,
        limit_bytes_per_s=2e10,
        share_of_limit=size / p50 * 1e3 / 2e10,
        tokens_per_s=1e3 / p50,
        intensity=2.0,
        against={"contiguous": 0.8},
        against_interval={"contiguous": (0.7, 0.9)},
        against_by_cpu_time={"contiguous": 0.81},
        error=0.0,
        error_bound=1e-5,
        kernel=None,
        launches=None,
        flags=[],
        reasons={},
    )


def report(*rows: Row, device: str = "a CPU", torch: str = "2.13.0", limit: float = 2e10) -> Report:
    return Report(
        machine=Machine(
            device=device,
            kind="cpu",
            cpu=device,
            cores=2,
            threads=1,
            memory_bytes=2**34,
            cache_bytes=2**25,
            multiprocessors=None,
            load_average=0.1,
            peak_bytes_per_s=None,
            peak_flop_per_s=None,
            peak_source=None,
        ),
        versions=Versions(kvtui="1", torch=torch, python="3.11", cuda=None, numba=None),
        limit=Limit(
            before=limit, after=limit, copy_before=limit, copy_after=limit, probe_bytes=2**29
        ),
        results=list(rows),
        skipped=[],
        failed=[],
        notes=[],
        seconds=1.0,
    )


@pytest.mark.parametrize(
    ("now", "then", "verdict"),
    [
        (row(130, 140, 150), row(95, 100, 105), "slower"),
        (row(95, 100, 105), row(130, 140, 150), "faster"),
        (row(90, 140, 150), row(95, 100, 105), "same"),
        (row(101, 102, 103), row(99, 99.5, 100), "same"),
        (row(130, 140, 150, size=2**29), row(95, 100, 105), "other size"),
    ],
)
def test_only_what_lies_beyond_noise_is_slower(now: Row, then: Row, verdict: str) -> None:
    """The middle ranges must be apart and the medians by more than a twentieth."""
    found = comparison(report(now), report(then), "then.json")
    assert [one.verdict for one in found.changes] == [verdict]
    assert found.slower == (verdict == "slower")
    assert found.warnings == []


def test_another_machine_or_version_is_said_plainly() -> None:
    """A comparison across machines says so, as it does when the limit moved."""
    now = report(row(1, 2, 3), device="another CPU", torch="2.14.0", limit=1e10)
    told = " ".join(comparison(now, report(row(1, 2, 3)), "then.json").warnings)
    assert "device is another CPU now and was a CPU then." in told
    assert "torch is 2.14.0 now and was 2.13.0 then." in told
    assert "0.50 times the earlier" in told


def test_rows_that_one_result_lacks_are_listed() -> None:
    """A case that was added or left out is no silent gap."""
    found = comparison(report(row(1, 2, 3, case="mha")), report(row(1, 2, 3)), "then.json")
    assert found.only_now == ["mha/paged-256 fp32 T=8,192 threads=1"]
    assert found.only_then == ["paged/paged-256 fp32 T=8,192 threads=1"]
    assert found.changes == []


def test_a_result_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    """What --output writes, --compare reads; the text says that nothing got slower."""
    now = report(row(1, 2, 3))
    path = tmp_path / "then.json"
    path.write_bytes(msgspec.json.encode(now))
    assert earlier(path) == now
    shown = text(msgspec.structs.replace(now, compared=comparison(now, earlier(path), str(path))))
    assert "nothing slower beyond noise" in shown
    assert "SAME" in shown


@pytest.mark.parametrize("content", ["", "[]", '{"schema": "kvtui.check/1"}', "\x00"])
def test_what_is_no_result_is_a_sentence(tmp_path: Path, content: str) -> None:
    """A file of something else is refused by name, before anything is measured."""
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(SourceError, match=r"other\.json"):
        earlier(path)
    with pytest.raises(SourceError, match="No such file"):
        earlier(tmp_path / "none.json")


def test_an_aim_is_for_the_size_and_device_it_was_set_on() -> None:
    """Aims stand beside fp32 sweeps on a CPU; smaller ones and GPUs have none."""
    assert aim(row(1, 2, 3), "contiguous", "cpu") == 0.7
    assert aim(row(1, 2, 3, size=2**20), "contiguous", "cpu") is None
    assert aim(row(1, 2, 3), "contiguous", "cuda") is None
    assert aim(row(1, 2, 3), LIMIT, "cpu") is None
    assert "aim 0.7" in text(report(row(1, 2, 3)))
