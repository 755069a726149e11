"""Which kernel really ran: asked of torch's profiler once, never inferred from an argument."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.profiler import ProfilerActivity, profile

# Kineto prints its own start and stop to stderr, which may be a terminal.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

_ATTENTION_WORDS: Final = ("attention", "flash", "fmha", "sdp", "mha")
_WRAPPERS: Final = ("aten::scaled_dot_product_attention", "sdpa_kernel")
_ON_DEVICE: Final = torch.autograd.DeviceType.CUDA  # type: ignore[attr-defined]
_BATCHED_PRODUCT: Final = "aten::bmm"
"""What scores and values of a latent cache are computed with; projections are plain products."""


@dataclass(frozen=True, slots=True)
class KernelEvidence:
    """The attention kernel of one step."""

    kernel: str | None
    """Name as the profiler gives it; None when none was seen."""
    method: str


def attention_kernel(step: Callable[[], object], device: torch.device) -> KernelEvidence:
    """Profile one ``step`` and name the attention kernel with the most time of its own.

    On CUDA the kernel itself is preferred to the operator that launched it. Where nothing is
    called attention (the matmul pair of a latent cache), a batched product is named if there is
    one.
    """
    on_cuda = device.type == "cuda"
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_cuda else [])
    with profile(activities=activities, acc_events=True) as seen:
        step()
        if on_cuda:
            torch.cuda.synchronize(device)
    return named_kernel(seen.key_averages(), on_cuda=on_cuda)


def named_kernel(averages: Any, *, on_cuda: bool) -> KernelEvidence:
    """The kernel among the profiler's ``averages`` (events with a key and times)."""
    field = "self_device_time_total" if on_cuda else "self_cpu_time_total"

    def rank(event: Any) -> tuple[bool, float]:
        return on_cuda and event.device_type == _ON_DEVICE, float(getattr(event, field))

    events = sorted(averages, key=rank, reverse=True)
    for event in events:
        name = str(event.key)
        if name not in _WRAPPERS and any(word in name.lower() for word in _ATTENTION_WORDS):
            return KernelEvidence(name, "torch.profiler, one warm-up step, most time of its own")
    if any(event.key == _BATCHED_PRODUCT for event in events):
        return KernelEvidence(
            _BATCHED_PRODUCT,
            "torch.profiler, one warm-up step: nothing called attention, but a batched product",
        )
    return KernelEvidence(None, "torch.profiler, one warm-up step: nothing called attention")
