"""What a ratio should be here, printed beside it and never forced on it.

Aims hold for fp32 on a CPU unless the name of the candidate says otherwise, and were set on a
two-core machine; they are ratios within one run because those move least with the machine.
"""

from typing import Final

from kvtui.bench.results import Row

LIMIT: Final = "limit"
"""Stands for the measured read limit where a candidate is compared with it."""
_CPU: Final[dict[tuple[str, str, str], float]] = {
    ("gqa-long", "contiguous", "sdpa-alone"): 0.95,
    ("gqa-batch", "contiguous", "sdpa-alone"): 0.95,
    ("mha", "contiguous", "sdpa-alone"): 0.95,
    ("repeat-vs-fold", "contiguous", "enable_gqa"): 1.7,
    ("cat-vs-inplace", "contiguous", "concat"): 3.5,
    ("paged", "paged-256", "contiguous"): 0.7,
    ("tp-slice", "split", "unsplit"): 1.5,
    ("kernel", "kernel-fp32-g4", "sdpa-fp32-g4"): 2.5,
    ("kernel", "kernel-bf16-g4", "sdpa-fp32-g4"): 2.8,
    ("kernel", "kernel-int8-g4", "sdpa-fp32-g4"): 2.8,
    ("kernel", "kernel-fp32-g1", "sdpa-fp32-g1"): 2.2,
    ("kernel", "kernel-bf16-g1", "sdpa-fp32-g1"): 5.0,
    ("kernel", "kernel-int8-g1", "sdpa-fp32-g1"): 6.0,
    ("kernel", "kernel-fp32-g4", LIMIT): 0.6,
    ("instrumentation", "timed", "bare"): 0.99,
}
"""(case, candidate, compared with): the least ratio of tokens/s, or share of the limit."""
_FORMATS: Final = ("kernel",)
"""Cases whose aims name the format."""
_LONG: Final = 8192
"""torch.cat is compared at 64 MiB a layer, which is this many tokens in fp32."""
_LEAST_BYTES: Final = 2**28
"""Smaller sweeps are cut down, and no aim was set for them."""


def aim(row: Row, other: str, kind: str) -> float | None:
    """The least ratio of ``row`` to ``other`` aimed at; None where there is none for it."""
    if kind != "cpu" or row.bytes < _LEAST_BYTES:
        return None
    if row.dtype != "fp32" and row.case not in _FORMATS:
        return None
    if row.case == "cat-vs-inplace" and row.shape and row.shape.tokens < _LONG:
        return None
    return _CPU.get((row.case, row.backend, other))
