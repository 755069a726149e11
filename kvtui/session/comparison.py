"""Two runs side by side: each figure of one beside the other's, and their ratio."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kvtui.session.live import Live
from kvtui.units import format_bytes, format_ms, format_per_s, format_rate


@dataclass(frozen=True, slots=True)
class Versus:
    """One figure of two runs."""

    name: str
    this: str
    other: str
    ratio: float | None
    """This over the other; None where either is unknown or 0."""


_FIGURES: Final[tuple[tuple[str, Callable[[Live], float | None], Callable[..., str]], ...]] = (
    ("step p50", lambda live: live.step_ms, format_ms),
    ("step p99", lambda live: live.step_percentile_ms(99), format_ms),
    ("KV read", lambda live: live.achieved_bytes_per_s, format_rate),
    ("tokens/s", lambda live: live.tokens_per_s, format_per_s),
    ("cache", lambda live: live.held_kv_bytes or None, format_bytes),
)


def versus(this: Live, other: Live) -> tuple[Versus, ...]:
    """Every figure of ``this`` beside that of ``other``, as both stand."""
    found = []
    for name, figure, shown in _FIGURES:
        mine, theirs = figure(this), figure(other)
        ratio = mine / theirs if mine is not None and theirs else None
        found.append(Versus(name, shown(mine), shown(theirs), ratio))
    return tuple(found)


def shape(live: Live) -> tuple[str, ...]:
    """What tells one run from another, in words."""
    run = live.run
    if run is None:
        return ("no run",)
    started = live.started
    cache = started.cache if started is not None else run.cache
    backend = (started.backend,) if started is not None else ()
    return f"L {live.layers}", f"B {run.batch}", run.dtype, cache, *backend
