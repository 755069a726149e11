"""Which length sets the step of a run whose sequences differ."""

from dataclasses import replace

from kvtui.session.live import Live
from kvtui.session.predictions import step_kv_bytes
from kvtui.units import format_bytes


def ragged_sentence(live: Live) -> str | None:
    """Mean against longest sequence, and which of them the step's bytes follow; None when even.

    What the engine counted as read is set beside what either would mean.
    """
    run = live.run
    if run is None or not run.behind or not live.steps:
        return None
    middle, moved = live.tokens - live.steps // 2, live.kv_bytes / live.steps
    by_mean = step_kv_bytes(run, middle)
    by_longest = step_kv_bytes(replace(run, lengths=()), middle)
    follows = "mean" if abs(moved - by_mean) <= abs(moved - by_longest) else "longest"
    mean = live.tokens - sum(run.behind) / run.batch
    return (
        f"mean {mean:,.0f}, longest {live.tokens:,} tokens: the {follows} sets what a step moves, "
        f"{format_bytes(round(moved))}; {format_bytes(by_longest)} if all were the longest"
    )
