"""What each runtime would reserve for the same question; one file a runtime, one line here."""

from typing import Final

from kvtui.errors import InputError
from kvtui.runtimes.base import Difference, Pool, Reservation, Runtime
from kvtui.runtimes.least import Ideal, Transformers
from kvtui.runtimes.llama_cpp import LlamaCpp, LlamaCppUnified
from kvtui.runtimes.sglang import Sglang
from kvtui.runtimes.tensorrt_llm import TensorRtLlm
from kvtui.runtimes.vllm import Vllm
from kvtui.spec import Scenario

__all__ = (
    "ALL",
    "RUNTIMES",
    "Difference",
    "Pool",
    "Reservation",
    "Runtime",
    "reservation",
    "reservations",
    "reserved_bytes",
    "runtime",
    "runtime_names",
)

ALL: Final = "all"
"""Stands for every runtime there is."""

RUNTIMES: Final[dict[str, Runtime]] = {
    known.name: known
    for known in (
        Ideal(),
        Transformers(),
        Vllm(),
        Sglang(),
        TensorRtLlm(),
        LlamaCpp(),
        LlamaCppUnified(),
    )
}


def runtime_names() -> tuple[str, ...]:
    """The names that ``runtime`` knows, the ideal first."""
    return tuple(RUNTIMES)


def runtime(name: str, *, field: str = "runtime") -> Runtime:
    """The runtime called ``name``; ``field`` is what the name was typed as.

    Raises:
        InputError: there is none.
    """
    found = RUNTIMES.get(name.strip().lower())
    if found is None:
        raise InputError(field, name, "one of " + ", ".join((ALL, *RUNTIMES)))
    return found


def reserved_bytes(name: str, scenario: Scenario) -> int:
    """Bytes alone of one runtime, for searches that ask hundreds of times."""
    return runtime(name).reserved_bytes(scenario)


def reservation(name: str, scenario: Scenario) -> Reservation:
    """One runtime's answer to ``scenario``."""
    return runtime(name).reservation(scenario)


def reservations(scenario: Scenario) -> tuple[Reservation, ...]:
    """Every runtime side by side, the ideal first."""
    return tuple(one.reservation(scenario) for one in RUNTIMES.values())
