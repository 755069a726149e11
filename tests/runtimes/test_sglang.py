"""SGLang's pools against its own defaults and log lines."""

import pytest

from kvtui.runtimes import reservation
from kvtui.runtimes.sglang import Sglang
from tests.runtimes.asking import ask

GIB = 2**30


def test_every_pool_has_a_spare_page() -> None:
    """Llama-3.1-8B at page 64: 8,192 tokens take the slots of 8,256."""
    asked = ask(model="llama-3.1-8b", context=8_192, block=64)
    assert Sglang().reserved_bytes(asked) == (8_192 + 64) * 131_072


def test_the_window_pool_follows_the_full_pool() -> None:
    """gpt-oss-20b at 131,072 tokens has 104,857 slots in its window pool, however small w is."""
    full, window = Sglang().pools(ask(model="gpt-oss-20b", context=131_072))
    assert (full.tokens, window.tokens) == (131_072, 104_857)
    assert window.k_bytes == window.v_bytes == 12 * (104_857 + 1) * 8 * 64 * 2


def test_a_window_pool_holds_a_window_and_a_page() -> None:
    """At 16 tokens Gemma's window pool still holds more than 1,024 tokens and a page."""
    _, window = Sglang().pools(ask(model="gemma-3-27b", context=16, block=16))
    assert window.tokens > 1_024 + 16


def test_windows_alone_keep_everything() -> None:
    """A model whose layers are all windowed has one pool for all tokens."""
    pools = Sglang().pools(ask(layers=2, kv_heads=1, head_dim=64, attention="window", window=100,
                               context=5_000))  # fmt: skip
    assert [(one.name, one.tokens) for one in pools] == [("full", 5_000)]


def test_sparse_mla_has_pages_of_64() -> None:
    """DeepSeek-V3.2 keeps 656 + 132 bytes in fp8 in pages of 64 slots."""
    asked = ask(model="deepseek-v3.2", context=100, dtype="fp8_ds_mla")
    assert Sglang().reserved_bytes(asked) == (128 + 64) * 48_068


@pytest.mark.parametrize(
    ("memory", "tp", "share"),
    [("81559MiB", 1, 0.874), ("81559MiB", 8, 0.831), ("24GiB", 1, 0.879), ("180GiB", 1, 0.822)],
)
def test_the_default_share_keeps_a_fixed_size(memory: str, tp: int, share: float) -> None:
    """What is kept from the pools is 9.5 GiB and half a GiB a rank on an 80 GB device."""
    asked = ask(model="llama-3.1-8b", context=1, memory=memory, tp=tp)
    assert Sglang().share(asked) == pytest.approx(share, abs=1e-3)


def test_activations_do_not_come_out_of_the_pool() -> None:
    """The pool is the same whatever activations take; too little room for them is said."""
    few, many = (
        reservation(
            "sglang",
            ask(
                model="llama-3.1-8b",
                context=1,
                memory="80GiB",
                utilization=0.9,
                weights="16GiB",
                activations=f"{size}GiB",
                overhead=0,
            ),
        )
        for size in (1, 20)
    )
    assert few.pool.bytes == many.pool.bytes == 56 * GIB
    assert not few.notes
    assert any("below their expected size" in note for note in many.notes)


def test_states_take_their_share_of_the_pool() -> None:
    """Beside states, KV gets 1 / 1.9 of the memory: 10 GiB hold 5.263 GiB of Qwen3-Next's KV."""
    asked = ask(model="qwen3-next-80b-a3b", context=1_024, kv_budget="10GiB")
    found = reservation("sglang", asked).pool
    assert found.blocks is not None
    assert found.blocks * 24_576 / GIB == pytest.approx(10 / 1.9, abs=0.08)
    assert found.log == (f"max_total_num_tokens={found.blocks}",)


def test_a_logged_pool() -> None:
    """A public start-up of Llama-3.1-8B on a card of 24 GB: 38,141 tokens, K of 2.33 GiB.

    22.39 GiB were free before loading and weights took 15.02; a hundredth of a GiB is 82 tokens.
    """
    (pool,) = Sglang().pools(ask(model="llama-3.1-8b", context=38_141))
    assert pool.k_bytes / GIB == pytest.approx(2.33, abs=0.005)
    asked = ask(
        model="llama-3.1-8b", context=131_072, memory="24GiB", reserve=f"{24 - 22.39:.2f}GiB",
        weights="15.02GiB",
    )  # fmt: skip
    assert reservation("sglang", asked).pool.tokens == pytest.approx(38_141, abs=82)
