"""Sequences of their own length, sequences that share a prefix, and a cache partly on the host."""

from dataclasses import replace

import pytest
import torch

from kvtui.check.proofs import KINDS, equality, small_run
from kvtui.decode_run import CacheName, DecodeRun
from kvtui.engine.caches.offload import OffloadCache
from kvtui.engine.caches.paged import PagedCache
from kvtui.engine.control import Control
from kvtui.engine.decoder import Decoder, pool_blocks
from kvtui.engine.run import Run
from kvtui.session.lengths import ragged_sentence
from kvtui.session.live import Live
from kvtui.session.predictions import predicted_kv_bytes, step_kv_bytes
from kvtui.spec import FullAttention, LatentAttention

CPU = torch.device("cpu")
GROUP = FullAttention(layers=2, q_heads=4, kv_heads=2, k_width=8, v_width=8)
ENTRY = 2 * 2 * (8 + 8) * 4
"""Bytes of one token of one sequence: layers, heads, K and V, fp32."""


RAGGED = DecodeRun(groups=(GROUP,), batch=3, start=25, target=30, device="cpu")


def finished(run: DecodeRun) -> tuple[Run, list[int]]:
    """``run`` after its last step, and the KV bytes of each step."""
    made = Run(run)
    made.allocate()
    control = Control(lambda paused: None)
    assert made.prefill(control) is not None
    moved = [step.kv_bytes for step in made.steps(control)]
    assert made.end[0] == "target"
    return made, moved


@pytest.mark.parametrize("cache", ["contiguous", "paged"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_ragged_batch_equals_recomputation(cache: CacheName, dtype: str) -> None:
    """Every sequence decodes at its own position, whatever the others' lengths."""
    run = small_run(cache, KINDS["gqa"], dtype, lengths=(24, 17, 24, 20))
    assert equality(run, "gqa", CPU).status == "passed"


def test_ragged_bytes_are_the_sum_of_the_lengths() -> None:
    """Held bytes are 30 + 20 + 10 tokens; contiguous room is 3 x 30, paged room whole blocks."""
    for cache, room in (("contiguous", 90), ("paged", 32 + 20 + 12)):
        run = DecodeRun(
            groups=(GROUP,), batch=3, start=25, target=30, lengths=(30, 20, 10), device="cpu",
            cache=cache, block=4,  # type: ignore[arg-type]
        )  # fmt: skip
        made, moved = finished(run)
        assert made.decoder.held_bytes == 60 * ENTRY == predicted_kv_bytes(run, 30)
        assert made.decoder.capacity_bytes == room * ENTRY
        assert moved[-1] == (60 + 3) * ENTRY == step_kv_bytes(run, 30)


def test_a_shared_prefix_is_held_once_and_read_by_all() -> None:
    """Two whole blocks of 4 of a prefix of 9 are shared: held once, read once a sequence."""
    run = DecodeRun(
        groups=(GROUP,), batch=3, start=12, target=16, cache="paged", block=4, shared_prefix=9,
        device="cpu",
    )  # fmt: skip
    made, moved = finished(run)
    assert pool_blocks(run) == 3 * 4 - 2 * 2
    assert made.decoder.held_bytes == (3 * 16 - 2 * 8) * ENTRY == predicted_kv_bytes(run, 16)
    assert made.decoder.capacity_bytes == made.decoder.held_bytes
    assert moved[-1] == (3 * 16 + 3) * ENTRY
    table = made.decoder.table
    assert table is not None
    assert table.table.fragmentation().shared == 2


def test_sequences_with_a_prefix_equal_recomputation() -> None:
    """Decoding over shared blocks gives what each sequence alone gives."""
    run = small_run("paged", KINDS["mha"], "fp32", shared_prefix=6)
    assert equality(run, "mha", CPU).status == "passed"


def test_no_sequence_reads_a_block_that_is_not_its_own() -> None:
    """With every foreign block poisoned by NaN, each sequence's answer stays finite."""
    run = DecodeRun(
        groups=(GROUP,), batch=3, start=12, target=16, cache="paged", block=4, shared_prefix=8,
        device="cpu",
    )  # fmt: skip
    made, _ = finished(run)
    table = made.decoder.table
    assert table is not None
    q = torch.randn(3, 4, 1, 8)
    for sequence in range(3):
        own = set(table.table.ids(sequence))
        foreign = [one for one in range(table.table.blocks) if one not in own]
        assert foreign
        for cache in made.decoder.caches:
            assert isinstance(cache, PagedCache)
            with torch.inference_mode():
                kept = [pool[:, foreign].clone() for pool in cache.tensors]
                for pool in cache.tensors:
                    pool[:, foreign] = float("nan")
                out = cache.attend(q)
                for pool, was in zip(cache.tensors, kept, strict=True):
                    pool[:, foreign] = was
            assert bool(torch.isfinite(out[sequence]).all())


@pytest.mark.parametrize("kind", ["mha", "gqa", "mqa"])
def test_an_offloaded_cache_equals_recomputation(kind: str) -> None:
    """With 6 of 24 tokens on the device nothing changes, before and after the first eviction."""
    assert equality(small_run("offload", KINDS[kind], "fp32"), kind, CPU).status == "passed"


def test_offloaded_bytes_cross_the_link_every_step() -> None:
    """A step copies exactly the cold tokens; the rate is those bytes over the time it took."""
    run = DecodeRun(
        groups=(GROUP,), batch=2, start=10, target=14, cache="offload", hot=4, device="cpu"
    )
    made, _ = finished(run)
    caches = [one for one in made.decoder.caches if isinstance(one, OffloadCache)]
    assert len(caches) == 2
    # Steps attend at 11 to 14 tokens, of which all but 4 are cold.
    assert sum(one.link_bytes for one in caches) == 2 * (7 + 8 + 9 + 10) * ENTRY
    assert made.link_bytes_per_s() is not None
    assert made.decoder.held_bytes == 2 * 14 * ENTRY == predicted_kv_bytes(run, 14)
    assert made.decoder.capacity_bytes == 2 * 14 * ENTRY


def test_a_step_taken_back_returns_what_it_displaced() -> None:
    """Rewinding an offloaded cache leaves its rows as they were."""
    cache = OffloadCache(1, 1, 8, 2, 2, hot=3, dtype=torch.float32, device=CPU)
    rows = torch.arange(16.0).view(1, 1, 8, 2)
    cache.fill(slice(0, 1), 0, rows[:, :, :5], rows[:, :, :5])
    cache.filled(5)
    before = sorted(cache.views()[0][0, 0, :, 0].tolist())
    cache.append(rows[:, :, 5:6], rows[:, :, 5:6])
    cache.rewind()
    assert sorted(cache.views()[0][0, 0, :, 0].tolist()) == before == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_a_contiguous_step_allocates_nothing_that_grows_with_the_cache() -> None:
    """torch's own account of a step at T = 2,000 and at T = 20,000 is the same."""
    most = []
    for tokens in (2000, 20000):
        run = DecodeRun(
            groups=(GROUP,), batch=1, start=tokens, target=tokens + 2, device="cpu", threads=1
        )
        with torch.inference_mode():
            decoder = Decoder(run, torch.float32, CPU)
            decoder.filled(tokens)
            for cache in decoder.caches:
                for tensor in cache.tensors:
                    tensor.zero_()
            x = decoder.inputs(1, 1, torch.Generator().manual_seed(1))
            activities = [torch.profiler.ProfilerActivity.CPU]
            with torch.profiler.profile(activities=activities, profile_memory=True) as seen:
                decoder.step(x, tokens)
        taken = (event.cpu_memory_usage for event in seen.events() or [])
        most.append(max(taken))
    assert most[0] == most[1]
    assert most[1] < 20000


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_expanded_mla_equals_recomputation(dtype: str) -> None:
    """MLA with every head's own K and V cached gives what the absorbed form's reference gives."""
    assert equality(small_run("expanded", KINDS["mla"], dtype), "mla", CPU).status == "passed"


def test_expanded_mla_holds_what_every_head_needs() -> None:
    """DeepSeek-V2's heads, 192 of K and 128 of V, against a latent row of 576: 71 times as much."""
    group = LatentAttention(
        layers=1, q_heads=128, kv_lora_rank=512, rope_dim=64, nope_dim=128, v_head_dim=128
    )
    held = []
    for cache in ("expanded", "contiguous"):
        run = DecodeRun(
            groups=(group,), batch=1, start=1, target=3, hidden_size=64, device="cpu",
            cache=cache,
        )  # fmt: skip
        made, _ = finished(run)
        held.append(made.decoder.held_bytes)
        assert held[-1] == predicted_kv_bytes(run, 3)
    assert held == [3 * 128 * (192 + 128) * 4, 3 * 576 * 4]


def test_the_report_says_which_length_sets_the_step() -> None:
    """A ragged run's step moves the sum of the lengths, so its mean sets it."""
    live = Live(run=replace(RAGGED, lengths=(30, 20, 10)))
    live.steps, live.tokens = 1, 30
    live.kv_bytes = (60 + 3) * ENTRY
    sentence = ragged_sentence(live)
    assert sentence is not None
    assert "mean 20, longest 30" in sentence
    assert "the mean sets" in sentence
    live.kv_bytes = (90 + 3) * ENTRY
    assert "the longest sets" in str(ragged_sentence(live))
    assert ragged_sentence(Live(run=RAGGED)) is None
