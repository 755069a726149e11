"""Cached decoding equals full recomputation, at every step."""

import pytest
import torch

from kvtui.decode_run import DecodeRun
from kvtui.engine.attention import decode_attention, dense_attention, split_parts
from kvtui.engine.decoder import Decoder
from kvtui.engine.prefill import prefill_attention
from kvtui.spec import FullAttention, LatentAttention, LayerGroup, SinksWindow, SlidingWindow

CPU = torch.device("cpu")
HEADS = {"layers": 2, "q_heads": 4, "k_width": 8, "v_width": 8}
GROUPS: dict[str, LayerGroup] = {
    "gqa": FullAttention(kv_heads=2, **HEADS),
    "mha": FullAttention(kv_heads=4, **HEADS),
    "mqa": FullAttention(kv_heads=1, **HEADS),
    "wide-k": FullAttention(layers=2, q_heads=4, kv_heads=2, k_width=12, v_width=8),
    "window": SlidingWindow(kv_heads=2, window=5, **HEADS),
    "window-longer-than-run": SlidingWindow(kv_heads=2, window=500, **HEADS),
    "sinks": SinksWindow(kv_heads=2, window=4, sinks=2, **HEADS),
    "mla": LatentAttention(
        layers=2, q_heads=4, kv_lora_rank=16, rope_dim=4, nope_dim=8, v_head_dim=8
    ),
    "mla-without-rope": LatentAttention(
        layers=2, q_heads=4, kv_lora_rank=16, rope_dim=0, nope_dim=8, v_head_dim=8
    ),
}


def outputs(run: DecodeRun) -> tuple[list[torch.Tensor], list[torch.Tensor], Decoder]:
    """Cached and recomputed outputs of every decode step."""
    with torch.inference_mode():
        decoder = Decoder(run, torch.float32, CPU)
        x = decoder.inputs(run.batch, run.target, torch.Generator().manual_seed(3))
        for first in range(run.batch):
            for _ in decoder.fill(x[first : first + 1, : run.start], slice(first, first + 1), 0):
                pass
        decoder.filled(run.start)
        cached, full = [], []
        for position in range(run.start, run.target):
            cached.append(decoder.step(x[:, position : position + 1], position))
            full.append(decoder.recompute(x[:, : position + 1]))
    return cached, full, decoder


@pytest.mark.parametrize("work", ["attention", "layer", "block"])
@pytest.mark.parametrize("kind", GROUPS)
def test_every_step_equals_recomputation(kind: str, work: str) -> None:
    """For every layer kind, a cached step gives what recomputing its whole prefix gives."""
    run = DecodeRun(groups=(GROUPS[kind],), batch=2, start=7, target=19, work=work)  # type: ignore[arg-type]
    cached, full, _ = outputs(run)
    assert len(cached) == 12
    for step, expected in zip(cached, full, strict=True):
        torch.testing.assert_close(step, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["gqa", "mha", "mqa", "wide-k"])
def test_the_concatenating_cache_equals_recomputation(kind: str) -> None:
    """The tutorial's torch.cat cache gives the same outputs."""
    run = DecodeRun(groups=(GROUPS[kind],), batch=2, start=7, target=19, cache="concat")
    cached, full, _ = outputs(run)
    for step, expected in zip(cached, full, strict=True):
        torch.testing.assert_close(step, expected, rtol=1e-4, atol=1e-5)


def test_a_hybrid_of_kinds_equals_recomputation() -> None:
    """Layers of different kinds in one stack decode as one."""
    groups = (GROUPS["gqa"], GROUPS["window"], GROUPS["sinks"], GROUPS["mla"])
    cached, full, _ = outputs(DecodeRun(groups=groups, batch=1, start=3, target=20, hidden_size=32))
    for step, expected in zip(cached, full, strict=True):
        torch.testing.assert_close(step, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cache", ["contiguous", "concat"])
def test_the_tutorials_small_example(cache: str) -> None:
    """B=1 H=16 Hq=4 Hkv=2 D=4, 8 prompt tokens and 5 steps: a cache of [1, 2, 13, 4]."""
    run = DecodeRun(
        groups=(FullAttention(layers=1, q_heads=4, kv_heads=2, k_width=4, v_width=4),),
        batch=1,
        start=8,
        target=13,
        hidden_size=16,
        cache=cache,  # type: ignore[arg-type]
    )
    cached, full, decoder = outputs(run)
    k, v = decoder.caches[0].views()
    assert tuple(k.shape) == tuple(v.shape) == (1, 2, 13, 4)
    for step, expected in zip(cached, full, strict=True):
        torch.testing.assert_close(step, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kv_heads", [1, 2, 8])
def test_folded_groups_equal_the_dense_reference(dtype: torch.dtype, kv_heads: int) -> None:
    """Folding a group's queries into rows changes nothing but the order of the sums."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 8, 1, 16, generator=generator).to(dtype)
    k = torch.randn(2, kv_heads, 33, 16, generator=generator).to(dtype)
    v = torch.randn(2, kv_heads, 33, 16, generator=generator).to(dtype)
    expected = dense_attention(q, k, v)
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}[dtype]
    torch.testing.assert_close(
        decode_attention(q, k, v).float(), expected, rtol=tolerance, atol=tolerance
    )


def test_an_empty_cache_gives_zeros() -> None:
    """A query that sees no key gives zeros, not NaN, in the loop and in the reference."""
    q, empty = torch.randn(1, 2, 1, 4), torch.empty(1, 2, 0, 4)
    assert torch.equal(decode_attention(q, empty, empty), torch.zeros(1, 2, 1, 4))
    assert torch.equal(dense_attention(q, empty, empty), torch.zeros(1, 2, 1, 4))


@pytest.mark.parametrize("kind", GROUPS)
@pytest.mark.parametrize("length", [1, 4, 5])
def test_a_prompt_in_pieces_fills_the_same_cache(kind: str, length: int) -> None:
    """Decoding after a prompt taken in pieces equals recomputation, wherever the cuts fall."""
    run = DecodeRun(groups=(GROUPS[kind],), batch=2, start=13, target=17)
    with torch.inference_mode():
        decoder = Decoder(run, torch.float32, CPU)
        x = decoder.inputs(2, run.target, torch.Generator().manual_seed(3))
        for first in range(0, run.start, length):
            end = min(first + length, run.start)
            list(decoder.fill(x[:, first:end], slice(0, 2), first))
        decoder.filled(run.start)
        for position in range(run.start, run.target):
            torch.testing.assert_close(
                decoder.step(x[:, position : position + 1], position),
                decoder.recompute(x[:, : position + 1]),
                rtol=1e-4,
                atol=1e-5,
            )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("batch", "kv_heads", "threads"), [(1, 1, 4), (1, 2, 3), (2, 1, 5)])
def test_a_cache_split_for_idle_threads_equals_the_dense_reference(
    dtype: torch.dtype, batch: int, kv_heads: int, threads: int
) -> None:
    """Fewer KV heads than threads: parts merged by log-sum-exp give the whole."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(batch, 2 * kv_heads, 1, 16, generator=generator).to(dtype)
    storage = torch.randn(2, batch, kv_heads, 3000, 16, generator=generator).to(dtype)
    k, v = storage[0, :, :, :2601], storage[1, :, :, :2601]
    assert split_parts(batch * kv_heads, 2601, threads) > 1
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    torch.testing.assert_close(
        decode_attention(q, k, v, threads=threads).float(),
        dense_attention(q, k, v),
        rtol=tolerance,
        atol=tolerance,
    )


@pytest.mark.parametrize(("window", "sinks"), [(None, 0), (3, 0), (3, 2), (400, 0)])
def test_prefill_equals_the_dense_reference(window: int | None, sinks: int) -> None:
    """A prompt's attention in blocks equals one dense matrix, windows and sinks included."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(1, 4, 300, 8, generator=generator)
    k = torch.randn(1, 2, 300, 8, generator=generator)
    v = torch.randn(1, 2, 300, 8, generator=generator)
    torch.testing.assert_close(
        prefill_attention(q, k, v, window=window, sinks=sinks),
        dense_attention(q, k, v, window=window, sinks=sinks),
        rtol=1e-4,
        atol=1e-5,
    )
