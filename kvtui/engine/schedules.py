"""RoPE schedules: at which speed each pair of a head turns, and by how much the result is scaled.

A cached K carries the angles of the schedule it was written under. Reading it under another one
compares vectors of different coordinate systems, so a schedule is part of what a cache means (KV
cache tutorial, misconceptions: PI, NTK-aware and YaRN between prefill and decode). Notation is
that of YaRN (arXiv:2309.00071): a head is ``width`` wide, pair ``i`` turns by ``theta_i`` a token,
the context is stretched by ``factor``. Plain numbers, no torch.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Final


@dataclass(frozen=True)
class Schedule:
    """RoFormer (arXiv:2104.09864): ``theta_i = base^(-2i / width)``, nothing scaled."""

    name: ClassVar[str] = "rope"
    base: float = 10000.0

    def inverse_frequencies(self, width: int) -> tuple[float, ...]:
        """``theta_i`` of the ``width / 2`` pairs, radians a token."""
        return _powers(self.base, width)

    @property
    def attention_factor(self) -> float:
        """What rotated q and k are multiplied by."""
        return 1.0


@dataclass(frozen=True)
class Interpolated(Schedule):
    """Position interpolation (arXiv:2306.15595): position ``m`` becomes ``m / factor``.

    As frequencies: ``theta_i / factor``.
    """

    name: ClassVar[str] = "pi"
    factor: float = 4.0

    def inverse_frequencies(self, width: int) -> tuple[float, ...]:
        """Every pair ``factor`` times slower."""
        return tuple(theta / self.factor for theta in _powers(self.base, width))


@dataclass(frozen=True)
class NtkAware(Schedule):
    """NTK-aware interpolation (arXiv:2309.00071, section 3.1): another base.

    ``base' = base · factor^(width / (width - 2))``: the fastest pair keeps its speed, the slowest
    turns ``factor`` times slower.
    """

    name: ClassVar[str] = "ntk"
    factor: float = 4.0

    def inverse_frequencies(self, width: int) -> tuple[float, ...]:
        """The powers of the changed base; a head of one pair has nothing to spread."""
        if width <= 2:
            return _powers(self.base, width)
        return _powers(self.base * self.factor ** (width / (width - 2)), width)


@dataclass(frozen=True)
class Yarn(Schedule):
    """YaRN (arXiv:2309.00071, sections 3.2 to 3.4): interpolation by parts, and a temperature.

    ``r_i = trained_context · theta_i / 2π`` is how often pair ``i`` turns within the trained
    context; ``gamma`` rises from 0 at ``slow`` turns to 1 at ``fast`` turns, and the pair turns by
    ``(1 - gamma) · theta_i / factor + gamma · theta_i``. The paper's ramp is linear in ``r``; the
    authors' code ramps in the index of the pair between the same two ends.
    """

    name: ClassVar[str] = "yarn"
    factor: float = 4.0
    trained_context: int = 4096
    slow: float = 1.0
    """Alpha: pairs that turn less often are interpolated whole (the paper's value for Llama)."""
    fast: float = 32.0
    """Beta: pairs that turn more often are left alone (the paper's value for Llama)."""

    def inverse_frequencies(self, width: int) -> tuple[float, ...]:
        """Fast pairs unchanged, slow ones interpolated, a ramp between."""
        found = []
        for theta in _powers(self.base, width):
            turns = self.trained_context * theta / (2 * math.pi)
            gamma = min(1.0, max(0.0, (turns - self.slow) / (self.fast - self.slow)))
            found.append((1 - gamma) * theta / self.factor + gamma * theta)
        return tuple(found)

    @property
    def attention_factor(self) -> float:
        """``sqrt(1/t) = 0.1 ln(factor) + 1`` (section 3.4); 1 where nothing is stretched."""
        return 0.1 * math.log(self.factor) + 1 if self.factor > 1 else 1.0


UNSCALED: Final = Schedule()


def _powers(base: float, width: int) -> tuple[float, ...]:
    return tuple(base ** (-2 * pair / width) for pair in range(width // 2))
