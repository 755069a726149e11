"""The tutorial's experiments: the example checked by hand, both paths, the capacity tensor."""

import json
import sys

import pytest
import torch

from kvtui.lab import __main__ as command
from kvtui.lab import capacity, crossing, flops, reference
from kvtui.lab.capacity import Case
from kvtui.lab.peaks import peak
from kvtui.units import MIB

CPU = torch.device("cpu")


def test_the_small_example_is_the_tutorials() -> None:
    """The example checked by hand ends in a cache of [1, 2, 13, 4], equal to a few 1e-7."""
    found = reference.run(reference.SMALL, "cpu")
    assert found.cache_shape == (1, 2, 13, 4)
    assert found.max_abs_difference < 1e-5
    assert found.held_bytes == found.theoretical_bytes == 2 * 1 * 13 * 2 * 4 * 4


def test_the_reported_shape_holds_what_the_tutorial_reports() -> None:
    """B=2, T=288, Hkv=2, D=64 in fp32: 0.5625 MiB by formula, which it prints as 0.562."""
    found = reference.run(reference.ON_CUDA, "cpu")
    assert found.theoretical_bytes == found.held_bytes == 589_824
    assert f"{found.theoretical_bytes / MIB:.3f}" == "0.562"
    assert min(found.prefill_ms, found.recompute_ms, found.cached_ms) > 0
    # Recomputing writes out scores [2, 8, 288, 288] in fp32 at least once.
    assert found.peak_recompute.allocated_bytes > 2 * 8 * 288 * 288 * 4
    # The last step of torch.cat holds the old K beside the new one.
    assert found.peak_decode.allocated_bytes > found.held_bytes
    assert found.peak_cached.allocated_bytes >= found.peak_decode.allocated_bytes
    if not torch.cuda.is_available():
        assert found.peak_cached.reserved_bytes is found.allocated_bytes is None


def test_rounds_are_the_tutorials_outside_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three warm-ups and nine rounds, each work called once a round and prefilled for decoding."""
    monkeypatch.undo()
    assert (reference.WARM_UPS, reference.ROUNDS) == (3, 9)
    with torch.inference_mode():
        paths = reference.Experiment(reference.SMALL, CPU)
        calls: list[int] = []
        paths.medians_ms(lambda: calls.append(len(calls)))
        assert len(calls) == 12
        paths.medians_ms(paths.decode)
        assert paths.decoder.caches[0].seen == 13


def test_flops_are_the_tutorials_sums() -> None:
    """Path A is the sum of (Tp + j)^2 pairs, path B Tp^2 and then Tp + j; 4 FLOPs a pair and D."""
    shape = {"batch": 2, "prompt": 64, "steps": 8, "hidden": 512}
    heads = {"q_heads": 8, "kv_heads": 2, "head_dim": 64}
    a, b = flops.recomputed(**shape, **heads), flops.cached(**shape, **heads)
    assert a.attention == 4 * 8 * 64 * 2 * (
        65**2 + 66**2 + 67**2 + 68**2 + 69**2 + 70**2 + 71**2 + 72**2
    )
    assert b.attention == 4 * 8 * 64 * 2 * (64**2 + 65 + 66 + 67 + 68 + 69 + 70 + 71 + 72)
    # Q, K, V and O of one token: 2 x 512 x (512 + 128 + 128 + 512).
    assert b.projections == 2 * 72 * 2 * 512 * 1280
    assert a.projections == 2 * (65 + 66 + 67 + 68 + 69 + 70 + 71 + 72) * 2 * 512 * 1280
    assert a.total == a.attention + a.projections


def test_projecting_again_costs_half_the_length_times_as_much() -> None:
    """The lesson: about 560 TFLOP instead of 275 GFLOP at d = T = 4096, T / 2 times as much."""
    again = flops.kv_projections(4096, 4096, once=False)
    once = flops.kv_projections(4096, 4096, once=True)
    assert again == pytest.approx(5.6e14, rel=0.01)
    assert once == pytest.approx(2.7e11, rel=0.02)
    assert again / once == pytest.approx(2048, rel=0.001)


def test_a_cpus_peak_is_that_of_what_lives_at_once() -> None:
    """Two of three megabyte tensors at a time: 2 MiB at the peak, whatever came before."""
    kept = torch.zeros(MIB // 4)

    def work() -> torch.Tensor:
        first = kept + 1
        second = first + 1
        del first
        return second + 1

    assert peak(work, CPU).allocated_bytes == pytest.approx(2 * MIB, rel=0.001)


def test_the_crossing_is_interpolated_where_the_faster_one_changes() -> None:
    """Ratios 2 and 1/2 at 16 and 64 cross at 32, half way on a logarithmic scale."""
    found = crossing.overtaking([(4, 1.0, 3.0), (16, 1.0, 2.0), (64, 4.0, 2.0), (256, 9.0, 2.0)])
    assert found.tokens == pytest.approx(32)
    assert found.told == "from 32.0, between 16 and 64 measured"


def test_a_crossing_counts_once_it_is_for_good() -> None:
    """A lead that is lost again is no crossing; the last change of sides is."""
    found = crossing.overtaking([(8, 2.0, 1.0), (16, 1.0, 1.0), (32, 4.0, 1.0)])
    assert found.tokens == 16
    found = crossing.overtaking([(8, 2.0, 1.0), (16, 1.0, 1.5), (32, 1.5, 1.0)])
    assert found.tokens == pytest.approx(16 * 2**0.5)


def test_no_crossing_is_said_with_the_longest_length() -> None:
    """Behind at the end: not within it. Ahead from the start: at the shortest already."""
    never = crossing.overtaking([(8, 2.0, 1.0), (1024, 1.0, 1.0)])
    assert (never.tokens, never.told) == (None, "not within 1,024")
    always = crossing.overtaking([(8, 2.0, 1.0), (16, 3.0, 1.0)])
    assert (always.tokens, always.told) == (8, "at 8 already, the shortest measured")


def test_the_sweep_times_every_path_at_every_length() -> None:
    """Each length has four times of its own, and the crossings are read from them."""
    found = crossing.run(reference.ON_CPU, "cpu", lengths=(1, 5))
    assert [one.tokens for one in found.lengths] == [1, 5]
    for one in found.lengths:
        assert min(one.prefill_ms, one.recompute_ms, one.fused_ms, one.cached_ms) > 0
    pairs = [
        (one.tokens, one.recompute_ms, one.prefill_ms + one.cached_ms) for one in found.lengths
    ]
    assert found.path == crossing.overtaking(pairs)


def test_capacity_grows_by_what_the_formula_says() -> None:
    """A tensor that is written through grows the process by its bytes, within pages."""
    case = Case("tiny", 4, 2, 8, 4096, 128)
    found = capacity.run(case, "cpu")
    assert found.skipped == ""
    assert found.tensor_bytes == found.formula_bytes == 2 * 4 * 2 * 4096 * 8 * 128 * 2
    assert found.increase_bytes is not None
    assert found.increase_bytes == pytest.approx(found.tensor_bytes, rel=0.05)


def test_both_cases_are_the_tutorials_two_and_eight_gib() -> None:
    """[32, 2, 4, 8, 4096, 128] and the same with 32 heads in fp16: 2 GiB and 8 GiB."""
    sizes = [
        2 * 2 * one.layers * one.batch * one.kv_heads * one.tokens * one.head_dim
        for one in capacity.CASES
    ]
    assert sizes == [2 * 2**30, 8 * 2**30]


def test_capacity_is_guarded_before_it_allocates(monkeypatch: pytest.MonkeyPatch) -> None:
    """With less memory a case is scaled over T; with far too little it is skipped with a reason."""
    case = Case("GQA", 32, 4, 8, 4096, 128)
    monkeypatch.setattr("kvtui.engine.memory.available_bytes", lambda _: 2**28)
    scaled = capacity.run(case, "cpu")
    assert scaled.tokens == 256
    assert scaled.tensor_bytes == scaled.formula_bytes == 128 * MIB
    monkeypatch.setattr("kvtui.engine.memory.available_bytes", lambda _: 2**20)
    skipped = capacity.run(case, "cpu")
    assert skipped.tensor_bytes == 0
    assert skipped.skipped == "payload and margin do not fit"


def test_a_size_asked_for_is_kept_to() -> None:
    """At most 64 MiB: 2 GiB over 4,096 tokens become 64 MiB over 128, and less is not done."""
    case = Case("GQA", 32, 4, 8, 4096, 128)
    found = capacity.run(case, "cpu", at_most_bytes=64 * MIB)
    assert (found.tokens, found.tensor_bytes) == (128, 64 * MIB)
    assert capacity.run(case, "cpu", at_most_bytes=MIB).skipped == "larger than 1.00 MiB"


def test_the_command_prints_one_object_with_every_figure_and_what_was_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """kvtui lab --json: all experiments; each figure has a reported one and its place, or none."""
    arguments = ["kvtui lab", "--json", "--device", "cpu", "--at-most", "128MiB"]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setattr(crossing, "ON_CPU_LENGTHS", (1, 2))
    command.main()
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "kvtui.lab/1"
    assert found["small"]["cache_shape"] == [1, 2, 13, 4]
    assert [one["shape"]["prompt"] for one in found["references"]] == [64, 256]
    assert [one["tensor_bytes"] for one in found["capacity"]] == [128 * MIB, 128 * MIB]
    assert found["desk"]["chosen"] == "T 3000 and summaries"
    figures = [one for section in found["sections"] for one in section["figures"]]
    times = {
        one["name"]: one["reported"] for one in figures if one["name"] == "recompute, all steps"
    }
    assert times["recompute, all steps"]["value"] == 8.080
    assert all(one["reported"] is None or one["reported"]["on"] for one in figures)


def test_two_paths_that_differ_end_the_command_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cached path that gives something else exits 1 and measures nothing."""
    right = reference.Experiment.decode
    monkeypatch.setattr(
        reference.Experiment, "decode", lambda self: [out + 1 for out in right(self)]
    )
    monkeypatch.setattr(sys, "argv", ["kvtui lab", "--device", "cpu"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("kvtui: cached decoding differs from recomputation")


def test_a_device_without_memory_ends_the_command_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An allocation that fails in the sweep exits 1 with the allocator's first line."""

    def full(*_: object) -> None:
        message = "CUDA out of memory. Tried to allocate 264.00 MiB.\nMore of it."
        raise torch.OutOfMemoryError(message)

    monkeypatch.setattr(reference.Experiment, "recompute", full)
    monkeypatch.setattr(sys, "argv", ["kvtui lab", "--device", "cpu"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "Tried to allocate 264.00 MiB" in said.err


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
def test_a_gpu_reports_what_its_allocator_says() -> None:
    """Allocated and reserved peaks of each path, and what is left after the run."""
    found = reference.run(reference.ON_CUDA, "cuda")
    for one in (found.peak_recompute, found.peak_cached, found.peak_decode):
        assert one.allocated_bytes > 0
        assert one.reserved_bytes is not None
    assert found.peak_cached.allocated_bytes >= found.theoretical_bytes
    assert found.allocated_bytes is not None
    assert found.reserved_bytes is not None
    assert found.reserved_bytes >= found.allocated_bytes > found.held_bytes
