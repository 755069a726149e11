"""Parts of an answer beside the payload: parallelism, workloads, pools, pairs, speed."""

import time
from typing import Any

import pytest

from kvtui.errors import InputError
from kvtui.session.answer import Answer, compose
from kvtui.sizing.payload import held_bytes
from kvtui.sources import presets
from kvtui.sources.lengths import spread_runs
from kvtui.sources.request import Request, scenario
from kvtui.spec import FullAttention, Model, SequenceRun, Storage, Workload

GIB = 2**30


def answer(**fields: Any) -> Answer:
    return compose(scenario(Request(**{name: str(value) for name, value in fields.items()})))


LLAMA = {"model": "llama-3.1-8b", "gpu": "h100", "context": 8192, "batch": 64}


def test_the_latent_cache_is_on_every_rank() -> None:
    """DeepSeek-V3 at tp 8 keeps its whole latent on each rank; nothing is divided."""
    found = answer(model="deepseek-v3", context=1, tp=8)
    assert found.per_rank.bytes == found.payload.bytes == 70_272


def test_attention_data_parallelism_moves_bytes_from_heads_to_sequences() -> None:
    """tp 8 with 8 groups: each rank holds all heads of an eighth of the sequences."""
    plain, grouped = answer(**LLAMA, tp=8), answer(**LLAMA, tp=8, dp_attention=8)
    assert plain.per_rank.bytes == grouped.per_rank.bytes == plain.payload.bytes // 8
    latent = {"model": "deepseek-v3", "context": 8192, "batch": 64, "tp": 8}
    assert answer(**latent, dp_attention=8).per_rank.bytes * 8 == answer(**latent).per_rank.bytes


def test_context_parallelism_splits_full_layers_alone() -> None:
    """dcp 4 quarters the tokens of full layers and leaves windows whole."""
    assert answer(**LLAMA, dcp=4).per_rank.bytes * 4 == answer(**LLAMA).per_rank.bytes
    window = {"layers": 1, "kv_heads": 1, "head_dim": 8, "context": 4096, "window": 1024}
    assert answer(**window, dcp=4).per_rank.bytes == answer(**window).per_rank.bytes


def test_expert_parallelism_spreads_whole_experts() -> None:
    """ep 8 at tp 8 holds as many expert bytes as splitting each over tp does."""
    moe = {"model": "mixtral-8x7b-v0.1", "gpu": "h100", "context": 1024, "tp": 8}
    split, spread = answer(**moe), answer(**moe, ep=8)
    assert split.budget.weights_bytes == pytest.approx(spread.budget.weights_bytes, rel=1e-6)
    assert answer(**moe, ep=2).budget.weights_bytes > split.budget.weights_bytes  # type: ignore[operator]


def test_stages_hold_their_layers_for_every_sequence() -> None:
    """Two stages of Llama-3.1-8B hold half the bytes each, and half the weights."""
    whole, staged = answer(**LLAMA), answer(**LLAMA, pp=2)
    assert staged.per_rank.bytes * 2 == whole.payload.bytes
    assert [stage.layers for stage in staged.stages] == [16, 16]
    assert staged.budget.weights_bytes == pytest.approx(whole.budget.weights_bytes / 2, rel=1e-6)  # type: ignore[operator]
    assert staged.step.tokens_per_s == pytest.approx(whole.step.tokens_per_s, rel=0.02)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"tp": 4, "dp_attention": 3}, "dp attention is 3; it must be a divisor of tp"),
        ({"pp_layers": "16,15"}, "pp layers is '16,15'; it must be 32 layers in all"),
        ({"pp": 33}, "pp is 33"),
        ({"tp": 2, "ep": 4}, "ep is 4"),
    ],
)
def test_spreads_that_cannot_be_are_refused(fields: dict[str, Any], sentence: str) -> None:
    """A spread that does not divide is named."""
    with pytest.raises(InputError) as caught:
        answer(**LLAMA, **fields)
    assert sentence in str(caught.value)


def test_the_tp_strip_shows_the_replication_cliff() -> None:
    """Over 1 to 16 ranks the sum stays flat while heads last and doubles beyond."""
    strip = {one.tp: one for one in answer(**LLAMA).tp_strip}
    assert [strip[tp].total_bytes // strip[1].total_bytes for tp in (1, 2, 4, 8, 16)] == [
        1, 1, 1, 1, 2,
    ]  # fmt: skip


def test_a_draft_model_and_its_lookahead_are_reserved() -> None:
    """A resident draft adds its cache, its weights and the slots it speculates into."""
    plain = answer(**LLAMA)
    drafted = answer(**LLAMA, draft="llama-3.2-1b", lookahead=5)
    own = answer(model="llama-3.2-1b", gpu="h100", context=8192 + 5, batch=64)
    slots = 64 * 5 * plain.payload.bytes_per_token
    assert drafted.per_rank.reserved_bytes == (
        plain.per_rank.reserved_bytes + slots + own.payload.bytes
    )
    assert drafted.budget.weights_bytes == plain.budget.weights_bytes + own.budget.weights_bytes  # type: ignore[operator]
    assert drafted.payload.bytes == plain.payload.bytes


def test_prompts_in_flight_hold_their_tokens() -> None:
    """8,192 tokens of prompts being prefilled are reserved beside the sequences."""
    plain, loaded = answer(**LLAMA), answer(**LLAMA, in_flight=8192)
    assert loaded.per_rank.reserved_bytes - plain.per_rank.reserved_bytes == 8192 * 131_072


@pytest.mark.parametrize(
    ("mean", "p95", "batch"), [(2000, 6000, 64), (3000, 3000, 7), (500, 900, 1000)]
)
def test_a_spread_has_its_mean_and_percentile(mean: int, p95: int, batch: int) -> None:
    """A log-normal spread has nearly the mean and 95th percentile that were asked for."""
    runs = spread_runs(mean, p95, batch)
    assert sum(run.count for run in runs) == batch
    found = sum(run.tokens * run.count for run in runs) / batch
    assert found == pytest.approx(mean, rel=0.06)
    within = sum(run.count for run in runs if run.tokens <= p95) / batch
    assert within == pytest.approx(0.95, abs=0.05) or mean == p95


def test_a_spread_that_no_distribution_has_is_refused() -> None:
    """A 95th percentile below the mean, or too far above it, is named with its range."""
    with pytest.raises(InputError, match="p95 is 100"):
        spread_runs(1000, 100, 4)
    with pytest.raises(InputError, match="p95 is 9000"):
        spread_runs(1000, 9000, 4)


def test_concurrency_at_mean_and_p95() -> None:
    """Ragged lengths give concurrency at the longest, the mean and the 95th percentile."""
    found = answer(model="llama-3.1-8b", kv_budget="64GiB", lengths="1000*90,8000*10").capacity
    assert found.concurrency == pytest.approx(64 * GIB / (8000 * 131_072))
    assert found.concurrency_at_mean == pytest.approx(64 * GIB / (1700 * 131_072))
    assert found.concurrency_at_p95 == found.concurrency


def test_lengths_from_a_file(tmp_path: Any) -> None:
    """A file of lengths is read as the list it holds."""
    path = tmp_path / "traffic.txt"
    path.write_text("6000*20\n3000, 3000\n")
    found = answer(layers=1, kv_heads=1, head_dim=1, lengths=str(path))
    assert found.batch == 22
    assert found.payload.bytes == 4 * (6000 * 20 + 6000)


def test_pairs_when_no_single_move_fits() -> None:
    """Where no single move fits, two that do are offered together."""
    found = answer(model="llama-3.1-405b", gpu="h100", tp=8, batch=64, context=65536)
    assert not [lever for lever in found.levers if lever.fits and "+" not in lever.name]
    pairs = [lever for lever in found.levers if "+" in lever.name]
    assert pairs
    for pair in pairs:
        moved = answer(
            **{"model": "llama-3.1-405b", "gpu": "h100", "tp": 8, "batch": 64, "context": 65536,
               **pair.fields}
        )  # fmt: skip
        assert moved.budget.verdict in ("fits", "tight")


def test_the_smallest_moves_are_told() -> None:
    """The support desk fits with 2 ranks, in fp8, or in a window of 5,034 tokens."""
    limits = answer(workload="support-desk").limits
    assert (limits.min_tp, limits.largest_dtype, limits.max_window) == (2, "fp8", 5034)


def test_prefill_writes_each_entry_and_each_state_once() -> None:
    """A prefill moves the weights and what the cache then holds, a state once and not per token."""
    found = answer(model="qwen3-next-80b-a3b", gpu="h200", context=100_000)
    weights = found.budget.weights_bytes
    assert weights is not None
    assert found.prefill.bytes == weights + found.payload.bytes + found.payload.state_bytes


def test_slack_says_how_far_a_block_reaches() -> None:
    """At block 16 a sequence of 4,090 tokens may grow by 6 before its next block."""
    assert answer(**{**LLAMA, "context": 4090}, block=16).limits.token_slack == 6


@pytest.mark.parametrize("name", presets.model_names())
def test_every_preset_is_answered_in_time(name: str) -> None:
    """Any preset's whole answer takes a few milliseconds and explains its every figure."""
    asked = scenario(Request(model=name, gpu="h200", context="4096", batch="8"))
    compose(asked)
    best = min(_timed(asked) for _ in range(3))
    found = compose(asked)
    assert best < 0.01, "under 5 ms on an idle machine, with room for a busy one"
    assert len({one.name for one in found.explain}) == len(found.explain) >= 20
    assert all(one.values and one.source for one in found.explain)


def _timed(asked: Any) -> float:
    began = time.perf_counter()
    compose(asked)
    return time.perf_counter() - began


def test_ten_thousand_shapes_take_a_second() -> None:
    """Payload and verdict of 10,000 shapes take about a second at most."""
    model = Model(
        name="m",
        groups=(FullAttention(layers=32, q_heads=32, kv_heads=8, k_width=128, v_width=128),),
    )
    began = time.perf_counter()
    fits = 0
    for tokens in range(1, 10_001):
        workload = Workload(runs=(SequenceRun(tokens, 4),))
        fits += held_bytes(model, workload, Storage()) <= 2 * GIB
    assert fits == 4096
    assert time.perf_counter() - began < 2.0
