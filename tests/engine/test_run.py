"""A run from check to end: what it refuses, what it holds, how it is held and stopped."""

import pytest
import torch

from kvtui.decode_run import DecodeRun
from kvtui.engine.control import Control
from kvtui.engine.figures import StepFigures
from kvtui.engine.plan import guard
from kvtui.engine.run import Run
from kvtui.errors import InputError, RefusedError, UnavailableError
from kvtui.spec import (
    CrossAttention,
    FullAttention,
    LatentAttention,
    LayerGroup,
    NoCache,
    SinksWindow,
    SlidingWindow,
)

GQA = FullAttention(layers=2, q_heads=4, kv_heads=2, k_width=8, v_width=8)
WINDOW = SlidingWindow(layers=3, q_heads=4, kv_heads=2, k_width=8, v_width=8, window=6)
SINKS = SinksWindow(layers=1, q_heads=4, kv_heads=4, k_width=8, v_width=8, window=5, sinks=2)
MLA = LatentAttention(layers=2, q_heads=4, kv_lora_rank=16, rope_dim=4, nope_dim=8, v_head_dim=8)


def decode_run(*groups: LayerGroup, **changed: object) -> DecodeRun:
    fields: dict[str, object] = {"batch": 3, "start": 10, "target": 40, "device": "cpu"}
    return DecodeRun(groups=groups or (GQA,), **fields | changed)  # type: ignore[arg-type]


def carried_out(run: Run, control: Control | None = None) -> list[StepFigures]:
    control = control or Control()
    run.allocate()
    run.prefill(control)
    run.warm_up(control)
    return list(run.steps(control))


@pytest.mark.parametrize(("q_heads", "kv_heads"), [(33, 2), (3, 2), (12, 5), (8, 16)])
def test_query_heads_must_be_a_multiple_of_kv_heads(q_heads: int, kv_heads: int) -> None:
    """A group that does not divide is refused with field, value and range."""
    group = FullAttention(layers=1, q_heads=q_heads, kv_heads=kv_heads, k_width=8, v_width=8)
    with pytest.raises(InputError, match=f"q heads is {q_heads}; it must be a multiple of"):
        Run(decode_run(group))


def test_a_group_that_divides_is_taken() -> None:
    """32 query heads over 8 KV heads run."""
    Run(decode_run(FullAttention(layers=1, q_heads=32, kv_heads=8, k_width=8, v_width=8)))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"start": 40}, "start"),
        ({"start": 0}, "start"),
        ({"start": 50, "target": 40}, "start"),
        ({"batch": 0}, "batch"),
        ({"dtype": "q8_0"}, "dtype"),
        ({"dtype": "mxfp4"}, "dtype"),
        ({"dtype": "int8", "cache": "paged"}, "dtype"),
        ({"block": 0, "cache": "paged"}, "block"),
        ({"hot": 0, "cache": "offload"}, "hot"),
        ({"shared_prefix": 2}, "shared prefix"),
        ({"shared_prefix": 39, "cache": "paged"}, "shared prefix"),
        ({"batch": 2, "lengths": (40, 39, 38)}, "lengths"),
        ({"batch": 2, "lengths": (39, 38)}, "lengths"),
        ({"batch": 2, "lengths": (40, 2)}, "start"),
        ({"batch": 2, "lengths": (40, 38), "cache": "concat"}, "lengths"),
        ({"device": "tpu"}, "device"),
        ({"threads": 0}, "threads"),
        ({"threads": 4096}, "threads"),
    ],
)
def test_a_bad_field_is_named(changed: dict[str, object], field: str) -> None:
    """Every field that cannot run is refused by name, before anything is allocated."""
    with pytest.raises(InputError) as refused:
        Run(decode_run(**changed))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("group", "field"),
    [
        (FullAttention(layers=1, kv_heads=2, k_width=8, v_width=8), "q heads"),
        (LatentAttention(layers=1, kv_lora_rank=8, rope_dim=4), "q heads"),
        (FullAttention(layers=1, q_heads=2, kv_heads=2, k_width=7, v_width=8), "head dim"),
        (FullAttention(layers=0, q_heads=2, kv_heads=2, k_width=8, v_width=8), "layers"),
        (
            CrossAttention(layers=1, q_heads=2, kv_heads=2, k_width=8, v_width=8, source_tokens=9),
            "layer kind",
        ),
    ],
)
def test_a_group_that_cannot_run_is_refused(group: LayerGroup, field: str) -> None:
    """Missing query heads, odd widths and kinds without a loop are each named."""
    with pytest.raises(InputError) as refused:
        Run(decode_run(group))
    assert refused.value.field == field


def test_the_dtype_sentence_says_what_runs() -> None:
    """A format that only sizing knows is refused with what does run."""
    with pytest.raises(InputError, match=r"fp32, bf16, .*int8.* in a live run .*sizing still"):
        Run(decode_run(dtype="q8_0"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_an_absent_cuda_device_is_unavailable() -> None:
    """Asking for CUDA without it says so, and names what runs."""
    with pytest.raises(UnavailableError, match="--device cpu"):
        Run(decode_run(device="cuda"))


def test_the_guard_refuses_with_the_shortfall_before_allocating() -> None:
    """A run that lacks memory is refused in words and numbers, and holds nothing."""
    run = Run(decode_run(margin_bytes=1000))
    need = run.need(available_bytes=10**9)
    guard(need)
    enough = need.need_bytes + 1000
    guard(run.need(available_bytes=enough))
    with pytest.raises(RefusedError, match=r"1\.00 KiB short") as refused:
        guard(run.need(available_bytes=enough - 1024))
    assert refused.value.need_bytes == need.need_bytes
    assert refused.value.available_bytes == enough - 1024
    assert run.tensors_bytes() == (0, 0)


def test_a_cache_beyond_any_memory_is_only_planned() -> None:
    """Terabytes are counted from shapes in no time; nothing is allocated for it."""
    group = FullAttention(layers=80, q_heads=64, kv_heads=8, k_width=128, v_width=128)
    run = Run(decode_run(group, batch=64, start=1, target=2**20, dtype="bf16"))
    need = run.need()
    assert need.cache_bytes == 2 * 80 * 64 * 2**20 * 8 * 128 * 2
    with pytest.raises(RefusedError, match="short"):
        guard(need)


HELD = {
    # Each written out from the definition of the kind at T = 40, B = 3, fp32.
    "full": ((GQA,), 2 * 2 * 3 * 40 * 2 * 8 * 4),
    "window": ((WINDOW,), 2 * 3 * 3 * 6 * 2 * 8 * 4),
    "sinks": ((SINKS,), 2 * 1 * 3 * 7 * 4 * 8 * 4),
    "mla": ((MLA,), 2 * 3 * 40 * (16 + 4) * 4),
    "none": ((GQA, NoCache(layers=5)), 2 * 2 * 3 * 40 * 2 * 8 * 4),
    "wide": (
        (FullAttention(layers=1, q_heads=2, kv_heads=2, k_width=12, v_width=8),),
        3 * 40 * 2 * (12 + 8) * 4,
    ),
}


@pytest.mark.parametrize("work", ["attention", "layer", "block"])
@pytest.mark.parametrize("kind", HELD)
def test_held_bytes_are_exact(kind: str, work: str) -> None:
    """The filled entries at the length reached have exactly the bytes their kind defines."""
    groups, expected = HELD[kind]
    steps = carried_out(Run(decode_run(*groups, work=work)))
    assert steps[-1].held_bytes == expected
    assert [step.tokens for step in steps] == list(range(11, 41))


@pytest.mark.parametrize("cache", ["contiguous", "concat"])
def test_the_seeds_timing_shape_holds_what_its_formula_says(cache: str) -> None:
    """B=2, 288 tokens, Hkv=2, D=64, fp32, one layer: 589,824 bytes (0.562 MiB)."""
    group = FullAttention(layers=1, q_heads=8, kv_heads=2, k_width=64, v_width=64)
    run = Run(decode_run(group, batch=2, start=256, target=288, hidden_size=512, cache=cache))
    assert carried_out(run)[-1].held_bytes == 589_824


def test_a_step_moves_what_it_needs_once() -> None:
    """KV bytes of a step are the filled entries once, and the entry it appended."""
    steps = carried_out(Run(decode_run()))
    entry = 2 * 2 * 3 * 2 * 8 * 4
    assert [step.kv_bytes for step in steps] == [step.held_bytes + entry for step in steps]
    weights = 2 * (32 * (32 + 2 * 16) + 32 * 32) * 4
    assert {step.weight_bytes for step in steps} == {weights}


def test_attention_alone_reads_no_weights() -> None:
    """With work `attention` there are no weights, latent layers included."""
    steps = carried_out(Run(decode_run(GQA, MLA, work="attention")))
    assert steps[0].weight_bytes == 0


def test_warming_up_leaves_no_trace() -> None:
    """Steps in place change neither lengths nor held bytes."""
    for groups in ((GQA,), (WINDOW, SINKS), (MLA,)):
        run = Run(decode_run(*groups))
        run.allocate()
        run.prefill(Control())
        before = run.decoder.held_bytes, [cache.seen for cache in run.decoder.caches]
        assert run.warm_up(Control()) >= 10
        assert (run.decoder.held_bytes, [c.seen for c in run.decoder.caches]) == before


def test_a_run_ends_at_its_target() -> None:
    """The whole way is `target`."""
    run = Run(decode_run())
    assert len(carried_out(run)) == 30
    assert run.end[0] == "target"


def test_a_run_stops_at_a_boundary() -> None:
    """A stop ends the run after the step that was running, and keeps what was measured."""
    run, control = Run(decode_run()), Control()
    run.allocate()
    run.prefill(control)
    taken = []
    for step in run.steps(control):
        taken.append(step.index)
        if step.index == 7:
            control.stop()
    assert taken == list(range(1, 8))
    assert run.end[0] == "stopped"


def test_a_stop_during_prefill_leaves_no_steps() -> None:
    """A stop before the prompt is in ends prefill."""
    run, control = Run(decode_run()), Control()
    run.allocate()
    control.stop()
    assert run.prefill(control) is None
    assert run.end == ("stopped", "Stopped during prefill.")


def test_a_held_run_pauses_and_goes_on() -> None:
    """A hold pauses at the next boundary, says so, and takes no step until it is resumed."""
    told: list[bool] = []

    def hear(paused: bool) -> None:
        told.append(paused)
        if paused:
            control.resume()

    control = Control(hear)
    run = Run(decode_run())
    run.allocate()
    run.prefill(control)
    taken = 0
    for step in run.steps(control):
        taken = step.index
        if taken == 3:
            control.hold()
    assert told == [True, False]
    assert taken == 30


def test_the_clock_ends_a_run() -> None:
    """A time limit ends the run as stopped, and the sentence names the clock."""
    run = Run(decode_run(target=100_000, time_limit_s=0.05))
    steps = carried_out(run)
    assert 0 < len(steps) < 99_990
    assert run.end == ("stopped", "Ended by the clock after 0.05 s.")


def test_an_output_that_is_not_finite_ends_the_run() -> None:
    """A NaN in the cache is noticed, and the run ends saying where it was seen."""
    run, control = Run(decode_run(target=400)), Control()
    run.allocate()
    run.prefill(control)
    with torch.inference_mode():
        run.decoder.caches[0].tensors[1].fill_(float("nan"))
    steps = list(run.steps(control))
    assert steps[-1].index == 64
    assert run.end == ("nan", "The output is not finite at T = 74.")


def test_depth_does_not_overflow_half_precision() -> None:
    """Sixty-four blocks in fp16 stay finite: every layer sees a normalised stream."""
    group = FullAttention(layers=64, q_heads=4, kv_heads=2, k_width=8, v_width=8)
    run = Run(decode_run(group, dtype="fp16", work="block", batch=1, target=14))
    carried_out(run)
    assert run.end[0] == "target"


@pytest.mark.parametrize(
    ("group", "kernel"),
    [(GQA, "aten::_scaled_dot_product_flash_attention_for_cpu"), (MLA, "aten::bmm")],
)
def test_the_kernel_is_named_by_the_profiler(group: LayerGroup, kernel: str) -> None:
    """Evidence is the attention operator that the profiler saw; a projection is never taken."""
    run = Run(decode_run(group))
    run.allocate()
    run.prefill(Control())
    assert run.evidence().kernel == kernel


def test_layers_without_a_cache_have_no_kernel() -> None:
    """Where nothing attends, no kernel is claimed."""
    run = Run(decode_run(NoCache(layers=2), work="block"))
    run.allocate()
    run.prefill(Control())
    assert run.evidence().kernel is None


def test_a_released_run_holds_nothing() -> None:
    """After release there are no tensors left to count."""
    run = Run(decode_run())
    carried_out(run)
    tensors, cache = run.tensors_bytes()
    assert cache == 2 * 2 * 3 * 40 * 2 * 8 * 4
    assert tensors > cache
    run.release()
    assert run.tensors_bytes() == (0, 0)
