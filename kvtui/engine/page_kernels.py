"""CUDA kernels that follow a block table by themselves: FlashAttention's and torch's own.

Which of them a machine has, and which page sizes they take, changes between releases, so none is
assumed: each candidate is tried once on a small cache of the run's own shape and compared with
plain attention over the same values. The first that answers right is used; where none does, blocks
are gathered first. Why a candidate was passed over is kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from kvtui.engine.attention import dense_attention

_TOLERANCE: Final = {torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Of outputs of about 1: a few units in the last place."""
_PAGE_MULTIPLE: Final = 256
"""What FlashAttention-2 asks pages to be multiples of."""
_LONGEST_TRIAL: Final = 2 * _PAGE_MULTIPLE
_TRIAL_TOKENS: Final = 300
"""More than one page of 256, the last one partly filled."""


@dataclass(frozen=True, slots=True)
class Pages:
    """A cache as kernels with a block table read it."""

    k: Tensor
    """``[pages, page, Hkv, D]``, a view with D contiguous."""
    v: Tensor
    table: Tensor
    """int32 ``[B, pages of a sequence]``, on the device."""
    lengths: Tensor
    """int32 ``[B]``, on the device."""
    longest: int


_Attend = Callable[[Tensor, Pages, float | None], Tensor]


class PageKernel:
    """A kernel that was tried and answered right."""

    def __init__(self, name: str, attend: _Attend) -> None:
        """Keep its name for the record of what was asked for."""
        self.name = name
        self._attend = attend

    def attend(self, q: Tensor, pages: Pages, *, scale: float | None = None) -> Tensor:
        """Attention of one token per sequence, q ``[B, Hq, 1, D]``."""
        return self._attend(q, pages, scale)


def page_kernel(
    device: torch.device, dtype: torch.dtype, page: int, q_heads: int, kv_heads: int, width: int
) -> tuple[PageKernel | None, tuple[str, ...]]:
    """The first candidate that is right for these shapes, and why others are not used."""
    passed: list[str] = []
    if device.type != "cuda" or dtype not in _TOLERANCE:
        return None, ("kernels over pages take 16-bit caches on CUDA",)
    for name, found in (("flash_attn_with_kvcache", _flash_attn), ("varlen_attn", _varlen)):
        try:
            attend = found()
            error = trial_error(attend, device, dtype, page, q_heads, kv_heads, width)
        except Exception as failure:  # noqa: BLE001  # absent, refused or broken: all the same here
            passed.append(f"{name}: {type(failure).__name__}: {failure}".splitlines()[0][:160])
            continue
        if error <= _TOLERANCE[dtype]:
            return PageKernel(name, attend), tuple(passed)
        passed.append(f"{name}: off by {error:.2g} from plain attention")
    return None, tuple(passed)


def trial_error(
    attend: _Attend,
    device: torch.device,
    dtype: torch.dtype,
    page: int,
    q_heads: int,
    kv_heads: int,
    width: int,
) -> float:
    """Largest difference from the dense reference over two sequences in shuffled pages."""
    generator = torch.Generator(device=device).manual_seed(11)
    # As the page divides, so does a short one; a trial must not take the run's memory.
    page = page if page <= _LONGEST_TRIAL else _PAGE_MULTIPLE + page % _PAGE_MULTIPLE

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, generator=generator).to(dtype)

    lengths = (_TRIAL_TOKENS, _TRIAL_TOKENS // 3)
    each = -(-_TRIAL_TOKENS // page)
    order = torch.randperm(2 * each, device=device, generator=generator).to(torch.int32)
    table = order.view(2, each)
    k, v = drawn(kv_heads, 2 * each, page, width), drawn(kv_heads, 2 * each, page, width)
    q = drawn(2, q_heads, 1, width)
    pages = Pages(
        k=k.permute(1, 2, 0, 3),
        v=v.permute(1, 2, 0, 3),
        table=table,
        lengths=torch.tensor(lengths, dtype=torch.int32, device=device),
        longest=_TRIAL_TOKENS,
    )
    with torch.inference_mode():
        out = attend(q, pages, None).float()
        worst = 0.0
        for row, tokens in enumerate(lengths):
            rows = [pool[:, table[row].long()].flatten(1, 2)[None, :, :tokens] for pool in (k, v)]
            expected = dense_attention(q[row : row + 1], rows[0], rows[1])
            worst = max(worst, float((out[row : row + 1] - expected).abs().max()))
    return worst


def _flash_attn() -> _Attend:
    """FlashAttention-2's decode entry; pages must be multiples of 256 there."""
    from flash_attn import flash_attn_with_kvcache

    def attend(q: Tensor, pages: Pages, scale: float | None) -> Tensor:
        out: Any = flash_attn_with_kvcache(
            q.transpose(1, 2),
            pages.k,
            pages.v,
            cache_seqlens=pages.lengths,
            block_table=pages.table,
            softmax_scale=scale,
            causal=False,
        )
        answer: Tensor = out.transpose(1, 2)
        return answer

    return attend


def _varlen() -> _Attend:
    """torch's variable-length attention; its keywords changed between drafts, so by name."""
    from torch.nn.attention.varlen import varlen_attn

    def attend(q: Tensor, pages: Pages, scale: float | None) -> Tensor:
        batch, q_heads, _, width = q.shape
        out: Any = varlen_attn(
            q.reshape(batch, q_heads, width),
            pages.k,
            pages.v,
            torch.arange(batch + 1, dtype=torch.int32, device=q.device),
            None,
            1,
            pages.longest,
            scale=scale,
            enable_gqa=q_heads != pages.k.shape[2],
            seqused_k=pages.lengths,
            block_table=pages.table,
        )
        answer: Tensor = out.view(batch, q_heads, 1, width)
        return answer

    return attend
