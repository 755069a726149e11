"""Which kernel really ran: asked of torch's profiler once, never inferred from an argument."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile


@dataclass(frozen=True, slots=True)
class KernelEvidence:
    """The attention kernel of one step."""

    kernel: str | None
    """Name as the profiler gives it; None when none was seen."""
    method: str


_ATTENTION_WORDS = ("attention", "flash", "fmha", "sdp", "mha")
_WRAPPERS = ("aten::scaled_dot_product_attention", "sdpa_kernel")


def attention_kernel(step: Callable[[], object], device: torch.device) -> KernelEvidence:
    """Profile one ``step`` and name the attention kernel with the most time of its own.

    Where no operator is called attention (the matmul pair of a latent cache), the operator with
    the most time is named.
    """
    on_cuda = device.type == "cuda"
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_cuda else [])
    with profile(activities=activities, acc_events=True) as seen:
        step()
        if on_cuda:
            torch.cuda.synchronize(device)
    events = [event for event in seen.key_averages() if event.key not in _WRAPPERS]

    def own_time(event: object) -> float:
        name = "self_device_time_total" if on_cuda else "self_cpu_time_total"
        return float(getattr(event, name, 0.0))

    if on_cuda:
        events = [event for event in events if own_time(event) > 0]
    named = [event for event in events if any(w in event.key.lower() for w in _ATTENTION_WORDS)]
    ranked = sorted(named or events, key=own_time, reverse=True)
    return KernelEvidence(
        kernel=str(ranked[0].key) if ranked else None,
        method="torch.profiler, one warm-up step, most time of its own",
    )
