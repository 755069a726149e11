"""The tutorial's capacity experiment: the formula against one real tensor, written through.

``[L, 2, B, Hkv, T, D]`` in fp16 is allocated whole, zeroed, its first and last element read back,
and numel x element size set against the allocator's increase (CUDA) or the resident set's (CPU).
Before that the payload and a safety margin must be free; a case that does not fit is scaled down
over T, and says so, as is one that is larger than asked for.
"""

import gc
from dataclasses import dataclass
from typing import Final

import torch

from kvtui.engine import memory
from kvtui.engine.plan import resolved_device
from kvtui.units import GIB, format_bytes

MARGIN_BYTES: Final = 4 * GIB
"""The experiment's own margin beside the payload."""
_SMALLEST_T: Final = 64


@dataclass(frozen=True, slots=True)
class Case:
    """L, B, Hkv, T, D of one tensor, as the tutorial allocates it."""

    name: str
    layers: int
    batch: int
    kv_heads: int
    tokens: int
    head_dim: int


CASES: Final = (Case("GQA", 32, 4, 8, 4096, 128), Case("MHA", 32, 4, 32, 4096, 128))


@dataclass(frozen=True, slots=True)
class Measured:
    """One case on this machine."""

    case: Case
    tokens: int
    """As run: less than the case's where memory, or what was asked for, did not allow it."""
    formula_bytes: int
    tensor_bytes: int
    """Numel x element size."""
    increase_bytes: int | None
    """Of the allocator on CUDA, of the resident set on a CPU."""
    skipped: str
    """Why nothing was allocated; empty when it was."""


def run(case: Case, device_name: str = "auto", *, at_most_bytes: int | None = None) -> Measured:
    """Allocate, write through, read back and release one case, of ``at_most_bytes``."""
    device = resolved_device(device_name)
    available = memory.available_bytes(device)
    margin = MARGIN_BYTES if device.type == "cuda" else min(MARGIN_BYTES, available // 4)
    most = available - margin if at_most_bytes is None else min(at_most_bytes, available - margin)
    tokens = case.tokens
    while tokens > _SMALLEST_T and _formula(case, tokens) > most:
        tokens //= 2
    formula = _formula(case, tokens)
    if formula + margin > available:
        return Measured(case, tokens, formula, 0, None, "payload and margin do not fit")
    if formula > most:
        return Measured(case, tokens, formula, 0, None, f"larger than {format_bytes(most)}")
    before = _in_use(device)
    shape = (case.layers, 2, case.batch, case.kv_heads, tokens, case.head_dim)
    tensor = torch.empty(shape, dtype=torch.float16, device=device)
    tensor.zero_()
    ends = float(tensor.flatten()[0]) + float(tensor.flatten()[-1])
    size = tensor.numel() * tensor.element_size()
    after = _in_use(device)
    del tensor
    gc.collect()
    memory.release(device)
    if ends != 0.0:
        return Measured(case, tokens, formula, size, None, "the zeros written were not read back")
    increase = None if before is None or after is None else after - before
    return Measured(case, tokens, formula, size, increase, "")


def _formula(case: Case, tokens: int) -> int:
    """2·L·B·T·Hkv·D·s with s = 2."""
    return 2 * case.layers * case.batch * tokens * case.kv_heads * case.head_dim * 2


def _in_use(device: torch.device) -> int | None:
    found = memory.readout(device)
    return found.allocated_bytes if device.type == "cuda" else found.resident_bytes
