"""Before anything is allocated: is the run valid, what will it take, does it fit.

Needs are counted from a decoder on the ``meta`` device, which has the run's very tensors without
their storage, so that what is planned is what is allocated.
"""

from dataclasses import dataclass
from typing import Final

import torch

from kvtui import host
from kvtui.decode_run import DecodeRun
from kvtui.engine import memory
from kvtui.engine.caches import QUANTISED, check_cache
from kvtui.engine.decoder import Decoder
from kvtui.engine.workspace import workspace_bytes
from kvtui.errors import InputError, RefusedError, UnavailableError
from kvtui.spec import FullAttention, LatentAttention, NoCache, SinksWindow, SlidingWindow
from kvtui.units import GIB, format_bytes

_DTYPES: Final = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    # Stored in fewer bits; computed with in fp32.
    **dict.fromkeys(QUANTISED, torch.float32),
}
_KERNEL_DTYPES: Final = ("fp32", "bf16", "int8", "int8-channel")
_RUNNABLE: Final = (FullAttention, SlidingWindow, SinksWindow, LatentAttention, NoCache)
_MOST_LAYERS: Final = 1024
_MOST_RAGGED: Final = 1024
_MOST_TOKENS: Final = 2**32
"""Beyond this no device holds a cache; sizing still answers."""
_LARGE_CARD: Final = 16 * GIB
_MARGIN: Final = 4 * GIB
"""The tutorial's capacity experiment checks payload + 4 GiB; a share on small memories."""
_MARGIN_SHARE: Final = 8


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes a run takes, counted from the shapes of its tensors, and what there is."""

    cache_bytes: int
    weights_bytes: int
    workspace_bytes: int
    """Activations of prefill and of a step, and the inputs; counted from above."""
    margin_bytes: int
    available_bytes: int

    @property
    def need_bytes(self) -> int:
        """What will be allocated."""
        return self.cache_bytes + self.weights_bytes + self.workspace_bytes


def needed(
    run: DecodeRun,
    dtype: torch.dtype,
    device: torch.device,
    *,
    available_bytes: int | None = None,
) -> Need:
    """What ``run`` takes, from a decoder without storage, beside what ``device`` has.

    ``available_bytes`` replaces the device's own figure.
    """
    if available_bytes is None:
        available_bytes = memory.available_bytes(device)
    with torch.inference_mode():
        shape = Decoder(run, dtype, torch.device("meta"))
    return Need(
        cache_bytes=_cache_bytes(shape, device),
        weights_bytes=shape.weights_bytes,
        workspace_bytes=workspace_bytes(shape, device),
        margin_bytes=_margin_bytes(device) if run.margin_bytes is None else run.margin_bytes,
        available_bytes=available_bytes,
    )


def guard(need: Need) -> None:
    """Refuse with the shortfall when need and margin exceed what is available."""
    short = need.need_bytes + need.margin_bytes - need.available_bytes
    if short <= 0:
        return
    raise RefusedError(
        f"The run needs {format_bytes(need.need_bytes)} (cache "
        f"{format_bytes(need.cache_bytes)}, weights {format_bytes(need.weights_bytes)}, "
        f"workspace {format_bytes(need.workspace_bytes)}) and a margin of "
        f"{format_bytes(need.margin_bytes)}; {format_bytes(need.available_bytes)} are "
        f"available: {format_bytes(short)} short. Lower the context or the batch.",
        need_bytes=need.need_bytes,
        available_bytes=need.available_bytes,
    )


def resolved_device(name: str) -> torch.device:
    """The torch device called ``name``: auto, cpu, cuda or cuda:N."""
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    text = "cuda:0" if name in ("auto", "cuda") else name
    kind, _, index = text.partition(":")
    if kind != "cuda" or not index.isdigit():
        raise InputError("device", name, "auto, cpu, cuda or cuda:N")
    if not torch.cuda.is_available():
        raise UnavailableError(
            f"device {name}: this torch ({torch.__version__}) sees no CUDA device; "
            "--device cpu runs on the CPU."
        )
    if int(index) >= torch.cuda.device_count():
        last = torch.cuda.device_count() - 1
        raise InputError("device", name, f"cuda:0 to cuda:{last}")
    return torch.device("cuda", int(index))


def checked_dtype(name: str) -> torch.dtype:
    """The torch dtype of a format the loop computes in."""
    if name not in _DTYPES:
        raise InputError(
            "dtype",
            name,
            f"one of {', '.join(_DTYPES)} in a live run (sizing still answers for every format)",
        )
    return _DTYPES[name]


def check_shapes(run: DecodeRun) -> None:
    """Refuse shapes that cannot run, naming field, value and range."""
    layers = sum(group.layers for group in run.groups)
    if not run.groups or min(group.layers for group in run.groups) < 1:
        raise InputError("layers", layers, f"1 to {_MOST_LAYERS:,}, in every group")
    if run.batch < 1:
        raise InputError("batch", run.batch, "at least 1")
    if layers > _MOST_LAYERS:
        raise InputError("layers", layers, f"1 to {_MOST_LAYERS:,} in a live run")
    if run.batch * run.target > _MOST_TOKENS:
        tokens = f"{run.batch} x {run.target}"
        raise InputError("batch x context", tokens, f"at most {_MOST_TOKENS:,} in a live run")
    if not 1 <= run.start < run.target:
        raise InputError(
            "start", run.start, f"1 to {run.target - 1}, below the target {run.target}"
        )
    _check_sequences(run)
    for group in run.groups:
        if type(group) not in _RUNNABLE:
            # Kinds derived from these keep something else; a look-alike would mislead.
            raise InputError(
                "layer kind",
                group.kind,
                "full, window, sinks or mla in a live run (sizing answers every kind)",
            )
        if isinstance(group, FullAttention):
            if group.q_heads is None:
                raise InputError("q heads", None, "given for a live run")
            if group.q_heads < group.kv_heads or group.q_heads % group.kv_heads:
                raise InputError(
                    "q heads", group.q_heads, f"a multiple of {group.kv_heads} KV heads"
                )
            if group.k_width % 2:
                raise InputError("head dim", group.k_width, "even in a live run, since RoPE pairs")
        elif isinstance(group, LatentAttention):
            if group.q_heads is None:
                raise InputError("q heads", None, "given for a live run")
            if group.rope_dim % 2:
                raise InputError("rope dim", group.rope_dim, "even in a live run, since RoPE pairs")

    check_cache(run)


def _check_sequences(run: DecodeRun) -> None:
    """Lengths, prefix and the hot part, where they are given."""
    if run.lengths:
        if len(run.lengths) != run.batch or max(run.lengths) != run.target:
            raise InputError("lengths", run.lengths, f"{run.batch}, the longest {run.target}")
        if run.batch > _MOST_RAGGED:
            raise InputError("batch", run.batch, f"1 to {_MOST_RAGGED:,} of different lengths")
        least = run.start - max(run.behind, default=0)
        if least < max(1, run.shared_prefix + 1 if run.shared_prefix else 1):
            raise InputError(
                "start",
                run.start,
                f"more than {max(run.behind) + run.shared_prefix}, so that the shortest sequence "
                "has a prompt of its own",
            )
    if run.block < 1:
        raise InputError("block", run.block, "at least 1")
    if not 0 <= run.shared_prefix < run.start:
        raise InputError("shared prefix", run.shared_prefix, f"0 to {run.start - 1}, below start")
    if run.hot < 1:
        raise InputError("hot", run.hot, "at least 1")


def kernel_suits(run: DecodeRun) -> bool:
    """Whether the CPU kernel takes every cache of ``run``."""
    if run.dtype not in _KERNEL_DTYPES or run.cache == "offload":
        return False
    return all(
        isinstance(group, NoCache)
        or (
            isinstance(group, FullAttention)
            and group.k_width == group.v_width
            and group.k_width % 8 == 0
        )
        for group in run.groups
    )


def engine_threads(run: DecodeRun, device: torch.device) -> int:
    """CPU threads of the engine: asked for, else all cores but the one the screen needs."""
    cores = host.cores()
    if run.threads is not None:
        if not 1 <= run.threads <= cores:
            raise InputError("threads", run.threads, f"1 to {cores}, the cores of this machine")
        return run.threads
    return max(1, cores - 1) if device.type == "cpu" else 1


def _margin_bytes(device: torch.device) -> int:
    """Memory that stays free: 4 GiB on cards of 16 GiB and more, an eighth below.

    Of a host's memory at most 2 GiB, since the system can also shrink its page cache.
    """
    total = memory.total_bytes(device)
    if device.type == "cpu":
        return min(2 * GIB, total // _MARGIN_SHARE)
    return _MARGIN if total >= _LARGE_CARD else total // _MARGIN_SHARE


def _cache_bytes(shape: Decoder, device: torch.device) -> int:
    """On ``device``: the host's part of an offloaded cache is not there."""
    if shape.run.cache == "concat":
        return shape.appended_bytes * shape.run.target
    return shape.capacity_bytes - (shape.host_bytes if device.type == "cuda" else 0)
