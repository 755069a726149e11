"""Rotary positions against their definition in complex numbers, and schedules against papers.

RoPE is arXiv:2104.09864, position interpolation arXiv:2306.15595, NTK-aware and YaRN
arXiv:2309.00071.
"""

import math

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from kvtui.engine.rotary import Rotary
from kvtui.engine.schedules import UNSCALED, Interpolated, NtkAware, Schedule, Yarn

CPU = torch.device("cpu")
WIDTH = 128
TRAINED = 4096


def turned(x: torch.Tensor, first: int, speeds: torch.Tensor) -> torch.Tensor:
    """Pairs (i, i + width/2) of ``x`` times exp(j p speed), in double precision."""
    half = x.shape[-1] // 2
    pairs = torch.complex(x[..., :half].double(), x[..., half:].double())
    position = torch.arange(first, first + x.shape[1], dtype=torch.float64)[:, None, None]
    result = pairs * torch.exp(1j * position * speeds.double())
    return torch.cat((result.real, result.imag), dim=-1).float()


def in_transformers(
    kind: str, length: int | None = None, **more: float
) -> tuple[list[float], float]:
    """Frequencies and attention factor as transformers computes them for the same head."""
    config = LlamaConfig(
        hidden_size=WIDTH,
        num_attention_heads=1,
        max_position_embeddings=TRAINED,
        rope_parameters={"rope_type": kind, "rope_theta": 10000.0, **more},
    )
    found, factor = ROPE_INIT_FUNCTIONS[kind](config, CPU, length)
    return found.tolist(), float(factor)


def test_pairs_turn_by_their_angle() -> None:
    """The pair (i, i + width/2) at position p is multiplied by exp(j p 10000^(-2i/width))."""
    width, first = 16, 5000
    x = torch.randn(2, 3, 4, width, generator=torch.Generator().manual_seed(0))
    speeds = 10000.0 ** (-2 * torch.arange(width // 2, dtype=torch.float64) / width)
    torch.testing.assert_close(
        Rotary(width, torch.float32, CPU).rotate(x, first),
        turned(x, first, speeds),
        rtol=1e-3,
        atol=1e-3,
    )


def test_scores_depend_on_distance_alone() -> None:
    """q at 40 and k at 33 score as q at 107 and k at 100."""
    rotary = Rotary(32, torch.float32, CPU)
    q, k = torch.randn(2, 1, 1, 1, 32, generator=torch.Generator().manual_seed(1))
    near = (rotary.rotate(q, 40) * rotary.rotate(k, 33)).sum()
    far = (rotary.rotate(q, 107) * rotary.rotate(k, 100)).sum()
    torch.testing.assert_close(near, far, rtol=1e-4, atol=1e-4)


def test_each_step_has_its_own_angle() -> None:
    """Angles kept for one position are not used for the next."""
    rotary = Rotary(8, torch.float32, CPU)
    x = torch.ones(1, 1, 1, 8)
    assert not torch.equal(rotary.rotate(x, 1), rotary.rotate(x, 2))
    assert torch.equal(rotary.rotate(x, 0), x)


def test_interpolated_positions_are_divided() -> None:
    """Under position interpolation by 4, position 40 turns as position 10 did."""
    rotary = Rotary(16, torch.float32, CPU)
    x = torch.randn(1, 1, 2, 16, generator=torch.Generator().manual_seed(2))
    before = rotary.rotate(x, 10)
    rotary.follow(Interpolated(factor=4))
    torch.testing.assert_close(rotary.rotate(x, 40), before, rtol=1e-5, atol=1e-6)


def test_ntk_keeps_the_fastest_pair_and_slows_the_last_by_the_factor() -> None:
    """NTK-aware: theta_0 stays 1, and theta of the last pair is divided by exactly the factor."""
    plain = UNSCALED.inverse_frequencies(WIDTH)
    found = NtkAware(factor=8).inverse_frequencies(WIDTH)
    assert found[0] == plain[0] == 1
    assert found[-1] == pytest.approx(plain[-1] / 8)
    ratios = [now / then for now, then in zip(found, plain, strict=True)]
    assert ratios == sorted(ratios, reverse=True)


def test_yarn_interpolates_by_how_often_a_pair_turns() -> None:
    """Pairs that turn 32 times in 4,096 tokens stay; below one turn they are divided by 16."""
    plain = UNSCALED.inverse_frequencies(WIDTH)
    found = Yarn(factor=16, trained_context=TRAINED).inverse_frequencies(WIDTH)
    seen = {"whole": 0, "kept": 0, "between": 0}
    for now, then in zip(found, plain, strict=True):
        wavelength = 2 * math.pi / then
        if TRAINED / wavelength > 32:
            assert now == then
            seen["kept"] += 1
        elif TRAINED / wavelength < 1:
            assert now == pytest.approx(then / 16)
            seen["whole"] += 1
        else:
            assert then / 16 < now < then
            seen["between"] += 1
    assert min(seen.values()) > 0


def test_schedules_are_those_of_transformers() -> None:
    """Frequencies and factors equal transformers' own, which follows the authors' code.

    Its dynamic NTK at twice the trained length stretches by ``2 factor - (factor - 1)``. Its YaRN
    ramps over the pair's index, so only pairs outside both ramps must be equal.
    """
    speeds, factor = in_transformers("linear", factor=4.0)
    assert Interpolated(factor=4).inverse_frequencies(WIDTH) == pytest.approx(speeds)
    assert factor == Interpolated(factor=4).attention_factor == 1
    speeds, _ = in_transformers("dynamic", length=2 * TRAINED, factor=3.0)
    assert NtkAware(factor=2 * 3 - 2).inverse_frequencies(WIDTH) == pytest.approx(speeds)
    speeds, factor = in_transformers("yarn", factor=16.0, original_max_position_embeddings=TRAINED)
    yarn = Yarn(factor=16, trained_context=TRAINED)
    assert yarn.attention_factor == pytest.approx(factor) == pytest.approx(1.2772589)
    plain, ours = UNSCALED.inverse_frequencies(WIDTH), yarn.inverse_frequencies(WIDTH)
    outside = [i for i, then in enumerate(plain) if ours[i] in (then, then / 16)]
    outside = [i for i in outside if not 20 <= i <= 46]  # the other ramp, from pair 20 to 46
    assert len(outside) > 30
    assert [ours[i] for i in outside] == pytest.approx([speeds[i] for i in outside])


@pytest.mark.parametrize("schedule", [UNSCALED, Interpolated(), NtkAware(), Yarn()])
def test_each_schedule_turns_by_its_own_speeds(schedule: Schedule) -> None:
    """Rotation multiplies pairs by exp(j p theta_i) and by the attention factor."""
    rotary = Rotary(16, torch.float32, CPU)
    x = torch.randn(2, 3, 4, 16, generator=torch.Generator().manual_seed(3))
    rotary.rotate(x, 7)
    rotary.follow(schedule)
    speeds = torch.tensor(schedule.inverse_frequencies(16), dtype=torch.float64)
    torch.testing.assert_close(
        rotary.rotate(x, 7),
        schedule.attention_factor * turned(x, 7, speeds),
        rtol=1e-4,
        atol=1e-4,
    )


def test_a_factor_of_one_changes_nothing() -> None:
    """Stretching by 1 is the plain schedule for all three, YaRN's temperature included."""
    plain = UNSCALED.inverse_frequencies(WIDTH)
    for schedule in (Interpolated(factor=1), NtkAware(factor=1), Yarn(factor=1)):
        assert schedule.inverse_frequencies(WIDTH) == pytest.approx(plain)
        assert schedule.attention_factor == 1
