"""A set-up of a megabyte: every case runs in a blink, and its figures mean nothing."""

import torch

from kvtui.bench.case import Setup
from kvtui.engine.kernels.compilation import Compilation
from kvtui.engine.limits import Probe

CPU = torch.device("cpu")
MIB = 2**20


def small_setup(*, threads: int = 1, dtype: str = "fp32", kernel: bool = False) -> Setup:
    """One layer of some hundred tokens a candidate."""
    return Setup(
        device=CPU,
        dtype=dtype,
        threads=threads,
        sweep_bytes=MIB // 4,
        room_bytes=4 * MIB,
        seconds=0.0,
        probe=Probe(CPU, MIB),
        kernel=Compilation().load(threads) if kernel else None,
        kernel_why="It was not asked for.",
    )
