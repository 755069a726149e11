"""Rotary positions against their definition in complex numbers (arXiv:2104.09864)."""

import torch

from kvtui.engine.rotary import Rotary

CPU = torch.device("cpu")


def test_pairs_turn_by_their_angle() -> None:
    """The pair (i, i + width/2) at position p is multiplied by exp(j p 10000^(-2i/width))."""
    width, first, tokens = 16, 5000, 3
    x = torch.randn(2, tokens, 4, width, generator=torch.Generator().manual_seed(0))
    pairs = torch.complex(x[..., : width // 2].double(), x[..., width // 2 :].double())
    frequency = 10000.0 ** (-2 * torch.arange(width // 2, dtype=torch.float64) / width)
    position = torch.arange(first, first + tokens, dtype=torch.float64)[:, None, None]
    turned = pairs * torch.exp(1j * position * frequency)
    expected = torch.cat((turned.real, turned.imag), dim=-1).float()
    torch.testing.assert_close(
        Rotary(width, torch.float32, CPU).rotate(x, first), expected, rtol=1e-3, atol=1e-3
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
