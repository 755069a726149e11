"""Planned scratch covers what torch really allocates."""

from typing import Any

import pytest
from torch.profiler import ProfilerActivity, profile

from kvtui.decode_run import DecodeRun
from kvtui.engine.control import Control
from kvtui.engine.run import Run
from kvtui.spec import FullAttention, LatentAttention, LayerGroup, SlidingWindow

HEADS = {"layers": 1, "q_heads": 8, "k_width": 64}
GROUPS: dict[str, LayerGroup] = {
    "gqa": FullAttention(kv_heads=2, v_width=64, **HEADS),
    "wide-k": FullAttention(kv_heads=2, v_width=32, **HEADS),
    "window": SlidingWindow(kv_heads=2, v_width=64, window=300, **HEADS),
    "mla": LatentAttention(layers=1, q_heads=8, kv_lora_rank=128, rope_dim=32),
}


def allocations(seen: profile) -> list[int]:
    """Bytes taken (positive) and given back (negative) by torch's allocator, in order."""
    recorded: Any = seen.profiler  # its results are not in torch's stubs
    found = [event for event in recorded.kineto_results.events() if event.name() == "[memory]"]
    return [event.nbytes() for event in sorted(found, key=lambda event: event.start_ns())]


def peak_bytes(run: Run) -> int:
    """Most bytes alive at once during prefill and four steps, beyond those alive before."""
    control = Control()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as seen:
        run.prefill(control)
        for step in run.steps(control):
            if step.index == 4:
                control.stop()
    changes = allocations(seen)
    assert changes
    alive = most = 0
    for change in changes:
        alive += change
        most = max(most, alive)
    return most


@pytest.mark.parametrize(
    ("work", "dtype", "batch", "start"),
    [
        ("attention", "fp32", 3, 700),
        ("layer", "fp32", 1, 1300),
        ("layer", "bf16", 3, 300),
        ("block", "fp32", 1, 700),
    ],
)
@pytest.mark.parametrize("kind", GROUPS)
def test_the_plan_covers_what_is_allocated(
    kind: str, work: str, dtype: str, batch: int, start: int
) -> None:
    """No more is alive in prefill and decode than the workspace says, and it says no absurd sum."""
    run = Run(
        DecodeRun(
            groups=(GROUPS[kind],), batch=batch, start=start, target=start + 9, dtype=dtype,
            work=work, device="cpu",  # type: ignore[arg-type]
        )
    )  # fmt: skip
    planned = run.need().workspace_bytes
    run.allocate()
    peak = peak_bytes(run)
    assert peak <= planned
    assert planned <= 3 * peak + 16 * 2**20


def test_a_concatenating_cache_is_planned_twice_for_one_layer() -> None:
    """`torch.cat` has the old and the new cache of a layer at once; the plan has both."""
    group = FullAttention(layers=1, q_heads=2, kv_heads=2, k_width=64, v_width=64)
    run = Run(
        DecodeRun(groups=(group,), batch=8, start=2000, target=2010, cache="concat", device="cpu")
    )
    need = run.need()
    run.allocate()
    assert peak_bytes(run) <= need.workspace_bytes
    assert need.cache_bytes == 2 * 8 * 2 * 2010 * 64 * 4


def test_scratch_does_not_grow_with_the_prompt() -> None:
    """Pieces bound prefill: a prompt 256 times as long plans the same scratch but for its mask."""
    group = FullAttention(layers=1, q_heads=8, kv_heads=2, k_width=64, v_width=64)

    def planned(start: int) -> int:
        run = DecodeRun(groups=(group,), batch=1, start=start, target=start + 1, device="cpu")
        return Run(run).need().workspace_bytes

    assert planned(262_144) - planned(1024) <= 256 * 262_144 * 20


def test_planning_allocates_nothing() -> None:
    """Counting shapes touches no memory."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as seen:
        group = FullAttention(layers=2, q_heads=8, kv_heads=2, k_width=64, v_width=64)
        run = DecodeRun(groups=(group,), batch=8, start=1, target=4096, device="cpu")
        Run(run).need(available_bytes=1)
    assert sum(size for size in allocations(seen) if size > 0) < 4096
