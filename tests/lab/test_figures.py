"""What is set beside what: the lessons' figures, on which hardware, and where they report none."""

import pytest

from kvtui.lab import sections
from kvtui.lab.capacity import CASES, Measured
from kvtui.lab.crossing import Crossing, Overtaking, Timed
from kvtui.lab.desk import desk
from kvtui.lab.figures import Figure, Section, lines, milliseconds, shown
from kvtui.lab.peaks import Peak
from kvtui.lab.reference import ON_CPU, ON_CUDA, Outcome, Shape
from kvtui.units import GIB, MIB


def outcome(shape: Shape) -> Outcome:
    """An outcome with every figure set, as a CUDA device gives it."""
    return Outcome(
        shape=shape,
        cache_shape=(2, 2, 288, 64),
        max_abs_difference=2e-7,
        prefill_ms=1.0,
        recompute_ms=10.0,
        cached_ms=4.0,
        theoretical_bytes=589_824,
        held_bytes=589_824,
        peak_recompute=Peak(20 * MIB, 24 * MIB),
        peak_cached=Peak(13 * MIB, 22 * MIB),
        peak_decode=Peak(2 * MIB, 0),
        allocated_bytes=5 * MIB,
        reserved_bytes=30 * MIB,
        recompute_flops=10**9,
        cached_flops=10**7,
        recompute_projection_flops=10**9,
        cached_projection_flops=10**8,
    )


def figure(section: Section, name: str) -> Figure:
    """The figure called ``name``."""
    return next(one for one in section.figures if one.name == name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("prefill", "0.370 ms"),
        ("recompute, all steps", "8.080 ms"),
        ("cached, all steps", "3.435 ms"),
        ("final KV by formula", "0.562 MiB"),
        ("peak, cached path, allocated", "13.750 MiB"),
        ("peak, cached path, reserved", "22.000 MiB"),
        ("peak, decode alone, allocated", "2.414 MiB"),
        ("peak, decode alone, reserved", "0 MiB"),
    ],
)
def test_the_tutorials_figures_stand_beside_ours(name: str, text: str) -> None:
    """Each figure of its run on the RTX 3080 is beside the same figure of the same shape."""
    found = figure(sections.reference(outcome(ON_CUDA)), name)
    assert found.reported is not None
    assert found.reported.text == text
    assert found.reported.on.startswith("RTX 3080 20 GiB")


def test_the_tutorials_ratio_is_told_with_what_its_own_times_give() -> None:
    """It says 2.26; 8.080 / 3.435 is 2.35, and neither is hidden."""
    found = figure(sections.reference(outcome(ON_CUDA)), "recompute / cached").reported
    assert found is not None
    assert found.value == 2.26
    assert f"{8.080 / 3.435:.2f}" in found.text


@pytest.mark.parametrize(
    "name",
    ["peak, recompute, allocated", "attention, recompute", "projections, cached", "final KV held"],
)
def test_what_the_tutorial_does_not_report_is_said_to_be_none(name: str) -> None:
    """No reported figure is made up for what it only prints, or does not count."""
    section = sections.reference(outcome(ON_CUDA))
    assert figure(section, name).reported is None
    row = next(row for row in lines(section) if name in row)
    assert row.endswith("none reported")


def test_another_shape_is_not_set_beside_the_reported_one() -> None:
    """The tutorial reports one shape; the one its code takes on a CPU has no reported figure."""
    assert all(one.reported is None for one in sections.reference(outcome(ON_CPU)).figures)


def test_the_small_examples_difference_is_the_reported_one() -> None:
    """1.788e-07 on the RTX 3080."""
    found = figure(sections.small(outcome(ON_CUDA)), "largest difference").reported
    assert found is not None
    assert (found.text, found.value) == ("1.788e-07", 1.788e-07)


def test_scaled_capacity_has_no_reported_figure() -> None:
    """2 GiB and 8 GiB stand beside the whole cases only."""
    whole = [
        Measured(case, case.tokens, size, size, size, "")
        for case, size in zip(CASES, (2 * GIB, 8 * GIB), strict=True)
    ]
    section = sections.capacity(whole)
    assert len(section.figures) == 6
    for found in section.figures:
        value = 2 * GIB if found.name.startswith("GQA") else 8 * GIB
        assert found.reported is not None
        assert found.here == found.reported.value == value
    scaled = sections.capacity([Measured(CASES[0], 64, 32 * MIB, 32 * MIB, None, "")])
    assert all(one.reported is None for one in scaled.figures)
    assert scaled.notes == ["GQA scaled to T=64 from 4,096"]


def test_the_crossing_is_printed_with_its_sweep() -> None:
    """Every measured length, where the path crosses, and that it may not."""
    found = Crossing(
        steps=8,
        lengths=[Timed(16, 0.1, 1.0, 0.9, 2.0), Timed(64, 0.2, 4.0, 2.0, 2.0)],
        path=Overtaking(32.0, "from 32.0, between 16 and 64 measured"),
        fused=Overtaking(None, "not within 64"),
        steps_alone=Overtaking(31.0, "from 31.0, between 16 and 64 measured"),
    )
    text = "\n".join(lines(sections.crossing(found)))
    assert "prompt    16: recompute  1.00 ms" in text
    assert "prefill and cached steps overtake recomputation from 32.0" in text
    assert "the same with the prefill's fused attention: not within 64" in text
    assert "n/a here" in text


def test_the_desk_is_the_lessons() -> None:
    """Its figures, rounded as the lesson rounds them, are the sizing's."""
    asked, fewer, shorter, summarised = desk().moves
    assert [move.batch for move in desk().moves] == [24, 16, 24, 24]
    assert [move.context for move in desk().moves] == [6000, 6000, 3000, 3300]
    assert round(asked.kv_bytes / GIB) == 70
    assert round(asked.with_weights_bytes / GIB) == 85
    assert round(-asked.spare_bytes / GIB) == 11
    assert asked.step_ms == pytest.approx(30, rel=0.02)
    assert asked.attention_ms == pytest.approx(0.075, rel=0.01)
    assert asked.tokens_per_s == pytest.approx(800, rel=0.02)
    assert asked.tokens_per_s_per_session == pytest.approx(33, rel=0.02)
    assert fewer.kv_bytes * 24 == asked.kv_bytes * 16
    assert fewer.spare_bytes > 0
    assert round(shorter.kv_bytes / GIB) == 35
    assert round(shorter.with_weights_bytes / GIB) == 50
    assert (summarised.kv_bytes - shorter.kv_bytes) / GIB == pytest.approx(3.5, abs=0.05)
    assert round(summarised.with_weights_bytes / GIB) == 54
    assert round(summarised.spare_bytes / GIB) == 20
    assert summarised.step_ms == pytest.approx(19, rel=0.02)
    assert summarised.tokens_per_s_per_session == pytest.approx(52, rel=0.01)


def test_summaries_are_paid_for() -> None:
    """A prefill of 3,000 tokens every ten turns of 200: 1.5 times, a small share of time."""
    price = desk().summaries
    assert (price.prefill_tokens, price.generated_tokens, price.ratio) == (3000, 2000, 1.5)
    # 15 GiB of fp16 weights: two FLOPs a weight and token, and causal attention besides.
    linear = 2 * (15 * GIB // 2) * 3000
    attention = 4 * 4096 * 32 * 1500 * 3000
    assert price.prefill_flops == linear + attention
    assert price.prefill_ms == pytest.approx((linear + attention) / 1e15 * 1e3)
    assert price.share is not None
    assert 0.02 < price.share < 0.05


def test_the_decision_keeps_every_session_and_says_its_price() -> None:
    """T before B: what fits with all 24 sessions and remembers most, with its prefills."""
    found = desk()
    assert found.chosen == "T 3000 and summaries"
    assert "all 24 sessions stay" in found.decision
    assert "722 with 16" in found.decision
    assert "3,000 tokens every 10 turns, 1.5 times" in found.price
    text = "\n".join(lines(sections.support_desk(found)))
    assert "decision: T 3000 and summaries" in text
    assert "not measured" in text


def test_each_place_is_numbered_once() -> None:
    """Figures of one machine share one footnote."""
    section = Section(
        title="A",
        notes=[],
        figures=[
            Figure(name="x", here=1.0, unit="ms", reported=milliseconds(2, "there")),
            Figure(name="y", here=None, unit="bytes", reported=milliseconds(3, "elsewhere")),
            Figure(name="z", here=3.0, unit="times", reported=milliseconds(4, "there")),
        ],
    )
    rows = lines(section)
    assert [row[-3:] for row in rows[1:4]] == ["[1]", "[2]", "[1]"]
    assert rows[4:] == ["  [1] there", "  [2] elsewhere"]
    assert shown(None, "bytes") == "n/a here"
