"""``python -m kvtui.engine.kernels.warm``: compile the CPU kernel onto the disk and mark it.

With ``--alone`` it outlives whoever started it, as an installer wants.
"""

import importlib.util
import os
import sys
from typing import Final

from kvtui.engine.kernels.compilation import mark, use_cache
from kvtui.helper_process import die_with_parent

_POLITE: Final = 10
"""What a run does meanwhile comes first."""


def main() -> None:
    """Compile for every element type, as wide as this processor is."""
    if mark().exists() or importlib.util.find_spec("numba") is None:
        return
    if "--alone" not in sys.argv:
        die_with_parent()
    os.nice(_POLITE)
    use_cache()
    import torch

    from kvtui.engine.kernels.cpu import STORED, CpuKernel, max_lanes
    from kvtui.engine.kernels.rows import contiguous_rows

    kernel = CpuKernel(hint=0)
    q = torch.zeros(1, 1, 1, max_lanes())
    for dtype in STORED:
        k = torch.zeros(1, 1, 1, max_lanes(), dtype=dtype)
        kernel.attend(q, contiguous_rows(k, k, torch.tensor([1])))
        if dtype == torch.int8:
            scale = torch.ones(1, 1, 1, 1)
            kernel.attend(q, contiguous_rows(k, k, torch.tensor([1]), scale, scale))
    mark().parent.mkdir(parents=True, exist_ok=True)
    mark().touch()


if __name__ == "__main__":
    main()
