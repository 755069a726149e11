"""The trial that a kernel over pages must pass, run here with stand-ins for the kernels."""

import pytest
import torch
from torch import Tensor

from kvtui.engine.attention import decode_attention
from kvtui.engine.page_kernels import Pages, page_kernel, trial_error

CPU = torch.device("cpu")


def gathering(q: Tensor, pages: Pages, scale: float | None) -> Tensor:
    """Right, as a kernel over these pages should be."""
    outs = []
    for row in range(q.shape[0]):
        ids, filled = pages.table[row].long(), int(pages.lengths[row])
        k, v = (
            pool[ids].flatten(0, 1)[:filled].transpose(0, 1)[None] for pool in (pages.k, pages.v)
        )
        outs.append(decode_attention(q[row : row + 1].float(), k.float(), v.float(), scale=scale))
    return torch.cat(outs).to(q.dtype)


def unordered(q: Tensor, pages: Pages, scale: float | None) -> Tensor:
    """Wrong: it takes the pages as they lie."""
    lying = torch.arange(pages.table.numel()).view_as(pages.table)
    return gathering(q, Pages(pages.k, pages.v, lying, pages.lengths, pages.longest), scale)


def overlong(q: Tensor, pages: Pages, scale: float | None) -> Tensor:
    """Wrong: every sequence is as long as the longest."""
    longest = torch.full_like(pages.lengths, pages.longest)
    return gathering(q, Pages(pages.k, pages.v, pages.table, longest, pages.longest), scale)


@pytest.mark.parametrize("page", [1, 16, 256, 300, 1000, 8192])
def test_a_right_kernel_passes_and_wrong_ones_do_not(page: int) -> None:
    """Pages in shuffled order, lengths that end within one: what ignores either is far off."""
    shape = (CPU, torch.bfloat16, page, 8, 2, 64)
    assert trial_error(gathering, *shape) <= 3e-2
    assert trial_error(overlong, *shape) > 3e-2
    if page < 300:
        assert trial_error(unordered, *shape) > 3e-2


def test_on_a_cpu_there_is_none_and_it_says_why() -> None:
    """The kernels take 16-bit caches on CUDA; elsewhere none is tried."""
    chosen, why = page_kernel(CPU, torch.bfloat16, 256, 8, 2, 64)
    assert chosen is None
    assert "CUDA" in why[0]
