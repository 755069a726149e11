"""A whole bench on tiny shapes: the keys others read, the flags, failures that end nothing."""

import json
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest
import torch

from kvtui.bench import cases, course
from kvtui.bench.case import Case, Group, Setup, Skip
from kvtui.bench.cases import chosen
from kvtui.bench.course import Asked, Course
from kvtui.bench.results import Report
from kvtui.bench.text import text
from kvtui.engine.kernels.compilation import Compilation
from kvtui.errors import InputError
from tests.bench.small import MIB


@pytest.fixture(autouse=True)
def without_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compilation, "load", lambda self, threads: None)


def run(names: str, **fields: object) -> Report:
    asked = {"sweep_bytes": MIB, "seconds": 0.01, "probe_bytes": MIB, "threads": 1, **fields}
    return Course(Asked(cases=chosen(names), device="cpu", **asked)).run()  # type: ignore[arg-type]


def crashing(setup: Setup) -> Iterator[Group]:
    yield Group((), (Skip("never", "A reason."),))
    raise RuntimeError("CUDA error: an illegal memory access\nmore")


def test_the_published_keys_are_there() -> None:
    """bench --json holds what the interface promises, and plain JSON reads it."""
    found = json.loads(msgspec.json.encode(run("probe,gqa-long")))
    assert found["schema"] == "kvtui.bench/1"
    assert {"machine", "versions", "limit", "results"} <= found.keys()
    assert found["limit"]["before"] > 0
    assert found["limit"]["after"] > 0
    assert found["versions"]["torch"] == torch.__version__
    row = next(one for one in found["results"] if one["backend"] == "contiguous")
    promised = "case backend dtype threads bytes step_ms bytes_per_s share_of_limit tokens_per_s"
    assert set(promised.split()) <= row.keys()
    assert {"p10", "p50", "p90", "n"} == row["step_ms"].keys()
    assert row["step_ms"]["p10"] <= row["step_ms"]["p50"] <= row["step_ms"]["p90"]
    assert row["step_ms"]["n"] >= 6
    assert row["against"]["sdpa-alone"] > 0
    low, high = row["against_interval"]["sdpa-alone"]
    assert low <= row["against"]["sdpa-alone"] <= high
    assert row["bytes_per_s"] == pytest.approx(row["bytes"] / row["step_ms"]["p50"] * 1e3)
    assert row["share_of_limit"] == pytest.approx(row["bytes_per_s"] / row["limit_bytes_per_s"])
    assert row["tokens_per_s"] == pytest.approx(1e3 / row["step_ms"]["p50"])
    assert row["error"] <= row["error_bound"]
    assert "attention" in row["kernel"]
    assert isinstance(row["flags"], list)
    assert found["failed"] == []


def test_the_control_is_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """One small layer replayed stays on the chip, and the flag says so; with no cache it is not."""
    monkeypatch.setattr("kvtui.host.last_level_cache_bytes", lambda: 32 * MIB)
    (row,) = run("l2-control").results
    assert "L2-RESIDENT" in row.flags
    assert "32.0 MiB" in row.reasons["L2-RESIDENT"]
    monkeypatch.setattr("kvtui.host.last_level_cache_bytes", lambda: 1024)
    (row,) = run("l2-control").results
    assert "of the read limit" in row.reasons.get("L2-RESIDENT", "of the read limit")


def test_a_limit_from_inside_the_cache_is_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe of a megabyte beside a cache of 32 says that it measures the cache."""
    monkeypatch.setattr("kvtui.host.last_level_cache_bytes", lambda: 32 * MIB)
    assert any("partly that of the cache" in note for note in run("l2-control").notes)


def test_waste_is_flagged_where_it_is() -> None:
    """PADDED on the mask, EXPANDED on the concatenating cache, neither on the plain step."""
    rows = {one.backend: one for one in run("mask-vs-slice,cat-vs-inplace").results}
    assert "PADDED" in rows["mask"].flags
    assert "EXPANDED" in rows["concat"].flags
    assert not {"PADDED", "EXPANDED"} & set(rows["contiguous"].flags + rows["slice"].flags)


def test_a_case_that_crashes_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a case says when it fails is a line; the cases after it are measured."""
    broken = Case(name="broken", shows="", groups=crashing)
    asked = Asked(
        cases=[broken, *chosen("l2-control")],
        device="cpu",
        threads=1,
        sweep_bytes=MIB,
        seconds=0.01,
        probe_bytes=MIB,
    )
    found = Course(asked).run()
    (left,) = found.failed
    assert (left.case, left.reason) == (
        "broken",
        "RuntimeError: CUDA error: an illegal memory access",
    )
    assert [one.reason for one in found.skipped] == ["A reason."]
    assert [one.case for one in found.results] == ["l2-control"]


def test_a_wrong_output_gets_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate that differs from the reference is reported as failed, not timed."""
    right = cases.controls.l2_control

    def wrong(setup: Setup) -> Iterator[Group]:
        for group in right(setup):
            (one,) = group.candidates
            assert one.check is not None
            bad = replace(one.check, q=one.check.q + 1.0)
            yield Group((replace(one, check=bad),))

    asked = Asked(
        cases=[Case(name="wrong", shows="", groups=wrong)],
        device="cpu",
        threads=1,
        sweep_bytes=MIB,
        seconds=0.01,
        probe_bytes=MIB,
    )
    found = Course(asked).run()
    assert found.results == []
    assert "differs from dense attention" in found.failed[0].reason


def test_what_is_for_another_device_is_skipped_with_a_reason() -> None:
    """Graphs need CUDA; that is said and nothing else happens."""
    found = run("graph,l2-control")
    assert [(one.case, one.reason) for one in found.skipped] == [
        ("graph", "It is for a cuda device.")
    ]


def test_a_time_limit_skips_what_has_not_begun() -> None:
    """Cases after the limit are skipped with the limit named; the first ones keep their rows."""
    found = run("l2-control", time_limit_s=1e-9)
    assert found.results == []
    assert "time limit" in found.skipped[0].reason


def test_what_is_known_is_kept_after_every_case() -> None:
    """Whoever ends the bench has all cases before that moment."""
    asked = Asked(
        cases=chosen("probe,l2-control"),
        device="cpu",
        threads=1,
        sweep_bytes=MIB,
        seconds=0.01,
        probe_bytes=MIB,
    )
    kept: list[Report] = []
    Course(asked).run(kept.append)
    assert [len(one.results) for one in kept] == [2, 3]


def test_a_soak_tells_its_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last quarter of a soak is set beside its first."""
    (soak,) = chosen("soak")
    monkeypatch.setattr(course, "_SECONDS", 0.0)
    asked = Asked(
        cases=[replace(soak, seconds=0.2)],
        device="cpu",
        threads=1,
        sweep_bytes=MIB,
        probe_bytes=MIB,
    )
    (row,) = Course(asked).run().results
    assert row.step_ms.n >= 16
    assert row.against["first-quarter"] > 0


@pytest.mark.parametrize(
    ("field", "value"), [("dtype", "int8"), ("threads", 0), ("threads", 10**6)]
)
def test_bad_fields_are_refused_before_anything_is_allocated(field: str, value: object) -> None:
    """The sentence names field, value and what is allowed."""
    with pytest.raises(InputError, match=field):
        Course(Asked(cases=chosen("probe"), device="cpu", **{field: value}))  # type: ignore[arg-type]


def test_the_text_says_everything() -> None:
    """Ratios with their interval, flags with their sentence, what was skipped."""
    shown = text(run("probe,mask-vs-slice,graph"))
    assert "times mask (95 %:" in shown
    assert "PADDED" in shown
    assert "It is for a cuda device." in shown
    assert "FLAGS: a flagged rate is not called the device's bandwidth" in shown
