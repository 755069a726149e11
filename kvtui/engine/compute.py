"""What attention is computed with: threads, and the CPU kernel where there is one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # importing it imports numba
    from kvtui.engine.kernels.cpu import CpuKernel


@dataclass(frozen=True, slots=True)
class Compute:
    """Passed to whatever attends."""

    threads: int = 1
    """CPU threads to keep busy."""
    kernel: "CpuKernel | None" = None


ONE_THREAD: Final = Compute()
