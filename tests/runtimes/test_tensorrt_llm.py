"""TensorRT-LLM's blocks and its share of free memory."""

import pytest

from kvtui.runtimes import reservation, reserved_bytes
from tests.runtimes.asking import ask

GIB = 2**30
CELL = 2 * 8 * 64 * 2
"""Bytes of a token in one layer of gpt-oss-20b in bf16."""


def test_blocks_hold_32_tokens() -> None:
    """33 tokens of Llama-3.1-8B take two blocks of 32."""
    asked = ask(model="llama-3.1-8b", context=33)
    assert reserved_bytes("tensorrt-llm", asked) == 64 * 131_072


@pytest.mark.parametrize(("typed", "tokens"), [(16, 16), (48, 64), (64, 64)])
def test_blocks_are_powers_of_two(typed: int, tokens: int) -> None:
    """A block size that is none is rounded up to a power of two."""
    found = reservation("tensorrt-llm", ask(model="llama-3.1-8b", context=1, block=typed))
    assert found.pool.block_tokens == tokens
    assert found.bytes == tokens * 131_072


def test_a_window_has_one_block_more() -> None:
    """gpt-oss-20b's window of 128 keeps four blocks of 32 and one more; full layers all."""
    asked = ask(model="gpt-oss-20b", context=8_192)
    assert reserved_bytes("tensorrt-llm", asked) == 12 * (8_192 + 5 * 32) * CELL


def test_a_short_sequence_fills_no_window() -> None:
    """40 tokens take two blocks in windowed layers as in the others."""
    asked = ask(model="gpt-oss-20b", context=40)
    assert reserved_bytes("tensorrt-llm", asked) == 24 * 64 * CELL


def test_chunks_are_not_partitioned() -> None:
    """Llama 4's chunked layers keep all of 131,072 tokens: 24 GiB, 48 layers x 4 KiB a token."""
    found = reservation("tensorrt-llm", ask(model="llama-4-scout", context=131_072))
    assert found.bytes == 48 * 131_072 * 2 * 8 * 128 * 2 == 24 * GIB
    assert any("chunked" in one.what for one in found.differences)


def test_mla_is_one_copy() -> None:
    """DeepSeek-V3 keeps 576 values a token and layer on every rank."""
    asked = ask(model="deepseek-v3", context=32, tp=8)
    assert reserved_bytes("tensorrt-llm", asked) == 32 * 70_272


def test_the_share_is_of_free_memory() -> None:
    """0.9 of the 44 GiB that 16 of weights and 20 of activations leave of 80 are 39.6 GiB."""
    asked = ask(
        model="llama-3.1-8b", context=8_192, memory="80GiB", weights="16GiB", activations="20GiB",
        overhead=0,
    )  # fmt: skip
    found = reservation("tensorrt-llm", asked).pool
    assert found.bytes == int(44 * GIB * 0.9)
    assert found.blocks == int(44 * GIB * 0.9) // (32 * 131_072)
    assert found.tokens == found.blocks * 32


def test_a_logged_pool() -> None:
    """A public start-up of Llama-3.1-8B in fp8: 17.83 GiB free, 16.05 allocated, 8,219 blocks.

    The free memory is rounded to a hundredth of a GiB, which is 4 blocks.
    """
    asked = ask(
        model="llama-3.1-8b", context=32, dtype="fp8", memory="17.83GiB", weights=0,
        activations=0, overhead=0,
    )  # fmt: skip
    found = reservation("tensorrt-llm", asked).pool
    assert found.block_tokens == 32
    assert found.blocks == pytest.approx(8_219, abs=4)
    assert found.log[0].startswith("Allocated 16.05 GiB")


def test_the_log_charges_every_layer_in_full() -> None:
    """A public start-up of gpt-oss-120b: 5.95 GiB are 86,720 tokens of 73,728 bytes.

    The log's GiB are rounded to a hundredth and its tokens to a block. Sequences of 131,072 tokens
    keep windows in half the layers, so that nearly twice as many fit.
    """
    asked = ask(model="gpt-oss-120b", context=131_072, kv_budget="5.95GiB")
    found = reservation("tensorrt-llm", asked).pool
    said = int(found.log[0].rpartition("(")[2].rstrip(")."))
    rounding = 0.005 * GIB / 73_728 + 32
    assert said == pytest.approx(86_720, abs=rounding)
    assert found.tokens is not None
    assert found.tokens > 1.9 * said
