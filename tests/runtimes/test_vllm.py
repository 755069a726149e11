"""vLLM's groups, pages and printed figures against published arithmetic and engine logs."""

from dataclasses import replace

import pytest

from kvtui.runtimes import reservation, reservations
from kvtui.runtimes.vllm import Vllm
from kvtui.sources.request import Request, scenario
from kvtui.spec import NoCache
from tests.runtimes.asking import ask

MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("tokens", "in_flight", "mib"),
    [
        (8_192, 2_048, 243.4),
        (8_192, 8_192, 384.4),
        (8_192, 16_384, 384.4),
        (32_768, 2_048, 819.4),
        (32_768, 8_192, 963.4),
        (32_768, 16_384, 1_155.4),
        (131_072, 2_048, 3_123.4),
        (131_072, 8_192, 3_267.4),
        (131_072, 16_384, 3_459.4),
    ],
)
def test_windows_hold_what_is_in_flight(tokens: int, in_flight: int, mib: float) -> None:
    """gpt-oss-20b asks for a window, the tokens in flight and a straddled block per request."""
    engine, asked = Vllm(in_flight_tokens=in_flight), ask(model="gpt-oss-20b", context=tokens)
    blocks = engine.sequence_blocks(asked, tokens)
    assert blocks * engine.layout(asked).block_bytes / MIB == pytest.approx(mib, abs=0.05)


def test_gemma_has_seven_groups_of_ten() -> None:
    """Ten full and 52 windowed layers of Gemma 3 27B fill 7 groups, 8 layers of them padding."""
    layout = Vllm().layout(ask(model="gemma-3-27b", context=131_072))
    groups = sum(page.groups for page in layout.pages)
    assert (groups, layout.group_layers) == (7, 10)
    assert groups * layout.group_layers - 62 == 8
    asked = ask(model="gemma-3-27b", context=131_072)
    assert any("8 padding layers" in one.what for one in Vllm().differences(asked))


@pytest.mark.parametrize(
    ("state", "cache", "tokens"),
    [("bf16", "bf16", 544), ("fp32", "bf16", 1_056), ("bf16", "fp8", 1_072)],
)
def test_blocks_beside_states(state: str, cache: str, tokens: int) -> None:
    """Qwen3-Next's attention block holds as many tokens as its state takes; fp8 doubles it."""
    asked = ask(model="qwen3-next-80b-a3b", context=8_192, state_dtype=state, dtype=cache)
    found = Vllm().layout(asked)
    assert {page.tokens for page in found.pages if page.tokens} == {tokens}
    assert len({page.bytes for page in found.pages}) == 1


def test_sparse_mla_in_fp8() -> None:
    """A token of DeepSeek-V3.2 takes 61 x (656 + 132) bytes in fp8, the index keys included."""
    asked = ask(model="deepseek-v3.2", context=8_192, dtype="fp8", block=64)
    assert Vllm().layout(asked).block_bytes == 64 * 48_068


def test_index_keys_stay_fp8_beside_a_bf16_cache() -> None:
    """A bf16 cache keeps 576 x 2 bytes of latent and still 132 of index key."""
    asked = ask(model="deepseek-v3.2", context=8_192, block=64)
    assert Vllm().layout(asked).block_bytes == 64 * 61 * (1_152 + 132)


def test_pool_of_an_8b() -> None:
    """Llama-3.1-8B in bf16: 2 MiB a block of 16, so 10 GiB are 5,120 blocks and 81,920 tokens."""
    found = reservation("vllm", ask(model="llama-3.1-8b", context=8_192, kv_budget="10GiB")).pool
    assert (found.block_bytes, found.blocks, found.tokens) == (2 * MIB, 5_120, 81_920)
    assert found.concurrency == 10.0
    assert found.log == (
        "GPU KV cache size: 81,920 tokens",
        "Maximum concurrency for 8,192 tokens per request: 10.00x",
    )


def test_one_block_is_the_null_block() -> None:
    """One sequence of 8,192 tokens takes 512 blocks and the null block."""
    asked = ask(model="llama-3.1-8b", context=8_192, block=16)
    assert Vllm().reserved_bytes(asked) == 513 * 2 * MIB


def test_utilization_is_of_the_total() -> None:
    """0.9 of 80 GiB less 16 GiB of weights, 4 of activations and 1 of the rest leaves 51 GiB."""
    asked = ask(
        model="llama-3.1-8b", context=1, memory="80GiB", utilization=0.9, weights="16GiB",
        activations="4GiB", overhead="1GiB",
    )  # fmt: skip
    assert Vllm().available_bytes(asked) == 51 * GIB
    found = reservation("sglang", asked)
    assert found.pool.bytes == 56 * GIB
    found = reservation("tensorrt-llm", asked)
    assert found.pool.bytes == int(59 * GIB * 0.9)
    found = reservation("llama.cpp", asked)
    assert found.pool.bytes == 58 * GIB
    assert "not used" in found.share_of


@pytest.mark.parametrize(
    ("dtype", "bytes_a_token"),
    [("fp8", 65_536), ("fp8_per_token_head", 67_584), ("nvfp4", 36_864)],
)
def test_eight_and_four_bits(dtype: str, bytes_a_token: int) -> None:
    """Llama-3.1-8B in vLLM's formats: per-tensor fp8 has no scales, the others do."""
    asked = ask(model="llama-3.1-8b", context=16, dtype=dtype)
    assert Vllm().layout(asked).block_bytes == 16 * bytes_a_token


def test_chunks_have_no_straddled_block() -> None:
    """Llama 4's chunk of 8,192 and 8,192 in flight are 1,024 blocks of 16 and not 1,025."""
    asked = ask(model="llama-4-scout", context=131_072)
    engine = Vllm(in_flight_tokens=8_192)
    local, everything = 36 // 12, 1
    assert engine.sequence_blocks(asked, 131_072) == local * 1_024 + everything * 8_192


def test_a_format_it_has_not_is_said() -> None:
    """q8_0 is counted as asked, and that vLLM has no such cache is said."""
    found = reservation("vllm", ask(model="llama-3.1-8b", context=16, dtype="q8_0"))
    assert any("q8_0" in note for note in found.notes)


@pytest.mark.parametrize(("chunk", "mib"), [(1_024, 243.4), (4_096, 384.4)])
def test_two_typed_chunks_are_in_flight(chunk: int, mib: float) -> None:
    """gpt-oss-20b at 8,192 tokens: two scheduled batches are in flight."""
    engine, asked = Vllm(), ask(model="gpt-oss-20b", context=8_192, chunk=chunk)
    blocks = engine.sequence_blocks(asked, 8_192)
    assert blocks * engine.layout(asked).block_bytes / MIB == pytest.approx(mib, abs=0.05)


def test_a_cached_prefix_keeps_a_state() -> None:
    """Beside a shared prefix every sequence of a hybrid holds one state page more."""
    shape = {"model": "qwen3-next-80b-a3b", "context": 8_192, "batch": 4}
    page = Vllm().layout(ask(**shape)).block_bytes
    apart, shared = (Vllm().reserved_bytes(ask(**shape, shared_prefix=n)) for n in (0, 1))
    assert shared - apart == 4 * 3 * page


def test_concurrency_at_the_mean_length() -> None:
    """10 GiB of Llama-3.1-8B are 5,120 blocks: 10 sequences of 8,192 tokens, 16 of 5,120."""
    asked = ask(model="llama-3.1-8b", lengths="8192,2048", kv_budget="10GiB")
    found = reservation("vllm", asked).pool
    assert (found.concurrency, found.concurrency_at_mean) == (10.0, 16.0)


def test_scales_break_the_division_of_pages() -> None:
    """Gemma 4 31B: pages of 8,192 and 16,384 bytes a token pair divide; with int8 scales not.

    Full layers keep 4 heads of 512, windowed ones 16 of 256; a scale of 4 bytes a head makes
    4,128 and 8,320 of them, so that a full page is padded to a windowed one.
    """
    plain, scaled = (
        {
            page.layers.span: page
            for page in Vllm().layout(ask(model="gemma-4-31b", context=8_192, dtype=dtype)).pages
        }
        for dtype in ("bf16", "int8")
    )
    assert (plain["everything"].tokens, plain["window"].tokens) == (32, 16)
    assert (scaled["everything"].tokens, scaled["window"].tokens) == (16, 16)
    assert scaled["everything"].layers.bytes == 4_128
    assert scaled["everything"].bytes == scaled["window"].bytes == 16 * 8_320
    asked = ask(model="gemma-4-31b", context=8_192, dtype="int8")
    assert any("do not divide" in one.what for one in Vllm().differences(asked))


@pytest.mark.parametrize(
    ("memory", "tokens", "concurrency"),
    [("5.98GiB", "567,978", "4.33"), ("6.01GiB", "569,878", "4.35")],
)
def test_a_logged_hybrid(memory: str, tokens: str, concurrency: str) -> None:
    """Two public start-ups of Qwen3.5-35B-A3B in fp8 with prefix caching, to the token."""
    asked = ask(
        model="qwen3.5-35b-a3b", context=131_072, dtype="fp8", kv_budget=memory, hit_rate=0
    )  # fmt: skip
    assert reservation("vllm", asked).pool.log[:2] == (
        f"GPU KV cache size: {tokens} tokens",
        f"Maximum concurrency for 131,072 tokens per request: {concurrency}x",
    )


def test_a_model_without_a_cache_takes_nothing_anywhere() -> None:
    """Where no layer caches, every runtime reserves nothing and promises no number of tokens."""
    asked = scenario(
        Request(
            layers="2", kv_heads="2", q_heads="2", head_dim="64", context="512", gpu="h200",
            weights="0",
        )
    )  # fmt: skip
    without = replace(asked, model=replace(asked.model, groups=(NoCache(layers=2),)))
    for one in reservations(without):
        assert (one.bytes, one.pool.tokens, one.pool.concurrency) == (0, None, None), one.runtime
