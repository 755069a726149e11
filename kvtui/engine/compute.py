"""What attention is computed with: threads, and a kernel beside torch's where there is one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # importing it imports numba
    from kvtui.engine.kernels.cpu import CpuKernel
    from kvtui.engine.page_kernels import PageKernel


@dataclass(frozen=True, slots=True)
class Compute:
    """Passed to whatever attends."""

    threads: int = 1
    """CPU threads to keep busy."""
    kernel: "CpuKernel | None" = None
    page_kernel: "PageKernel | None" = None
    """The CUDA kernel that follows a block table."""


ONE_THREAD: Final = Compute()
