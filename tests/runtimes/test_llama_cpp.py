"""llama.cpp's cells against its own logs and published arithmetic."""

import pytest

from kvtui.runtimes import reservation, reserved_bytes
from kvtui.runtimes.llama_cpp import LlamaCpp
from tests.runtimes.asking import ask

MIB, GIB = 2**20, 2**30


def test_gemma_holds_1536_window_cells() -> None:
    """Gemma 3 27B at 131,072 tokens in f16 takes 10.609 GiB: window 1,024 and ubatch 512."""
    asked = ask(model="gemma-3-27b", context=131_072, dtype="f16")
    assert reserved_bytes("llama.cpp", asked) / GIB == pytest.approx(10.609, abs=5e-4)


def test_a_logged_hybrid() -> None:
    """16 attention layers of Qwen3.5-27B at 262,144 cells are the 16,384 MiB that it logs.

    Its states for four sequences are 598.5 MiB, in f32.
    """
    model = "qwen3.5-27b"
    one, four = (
        reserved_bytes("llama.cpp-unified", ask(model=model, context=262_144 // n, batch=n))
        for n in (1, 4)
    )
    state = (four - one) / 3
    assert state * 4 / MIB == pytest.approx(598.5, abs=0.05)
    assert (one - state) / MIB == 16_384


def test_states_are_f32_whatever_is_asked() -> None:
    """Neither the cache's format nor the states' changes what a state takes."""
    found = {
        reserved_bytes("llama.cpp", ask(model="qwen3-next-80b-a3b", context=256, state_dtype=state))
        for state in ("bf16", "fp32")
    }
    assert len(found) == 1


def test_cells_are_padded_to_256() -> None:
    """257 tokens take the cells of 512, in each of two slots; unified 514 take those of 768."""
    shape = {"layers": 1, "kv_heads": 1, "head_dim": 64, "dtype": "f16", "batch": 2}
    cell = 2 * 64 * 2
    assert reserved_bytes("llama.cpp", ask(context=257, **shape)) == 2 * 512 * cell
    assert reserved_bytes("llama.cpp-unified", ask(context=257, **shape)) == 768 * cell


@pytest.mark.parametrize(
    ("dtype", "bytes_a_token"), [("q8_0", 69_632), ("q4_0", 36_864), ("f16", 131_072)]
)
def test_quantised_rows(dtype: str, bytes_a_token: int) -> None:
    """Llama-3.1-8B takes what ggml's block structures give, scales included."""
    asked = ask(model="llama-3.1-8b", context=256, dtype=dtype)
    assert reserved_bytes("llama.cpp", asked) == 256 * bytes_a_token
    quantised = any("flash attention" in note for note in LlamaCpp().notes(asked))
    assert quantised == (dtype != "f16")


def test_mla_has_no_v() -> None:
    """DeepSeek-V3 keeps one row of 576 a token and layer."""
    asked = ask(model="deepseek-v3", context=256, dtype="f16")
    assert reserved_bytes("llama.cpp", asked) == 256 * 70_272


def test_devices_split_layers() -> None:
    """Two devices hold 16 of 32 layers each, however few KV heads there are."""
    shape = {"layers": 32, "kv_heads": 1, "head_dim": 64, "context": 256}
    whole = reserved_bytes("llama.cpp", ask(**shape))
    assert reserved_bytes("llama.cpp", ask(tp=2, **shape)) * 2 == whole


def test_every_slot_is_as_long_as_the_longest() -> None:
    """Slots of 1,024 and 256 tokens take two of 1,024; unified takes 1,280."""
    shape = {"layers": 1, "kv_heads": 1, "head_dim": 64, "lengths": "1024,256"}
    cell = 2 * 64 * 2
    assert reserved_bytes("llama.cpp", ask(**shape)) == 2_048 * cell
    assert reserved_bytes("llama.cpp-unified", ask(**shape)) == 1_280 * cell
    found = reservation("llama.cpp", ask(**shape))
    assert any("slot" in one.what and one.bytes > 0 for one in found.differences)


def test_a_typed_chunk_is_the_micro_batch() -> None:
    """With a micro-batch of 1,024 Gemma's windows hold 2,048 cells instead of 1,536."""
    held = [
        reserved_bytes("llama.cpp", ask(model="gemma-3-27b", context=131_072, chunk=chunk))
        for chunk in (512, 1_024)
    ]
    assert held[1] - held[0] == 52 * 512 * 2 * 16 * 128 * 2


def test_a_logged_window() -> None:
    """A public start-up of gpt-oss-20b: 3,072 MiB in 131,072 cells and 18 MiB in 768."""
    asked = ask(model="gpt-oss-20b", context=131_072, dtype="f16")
    assert reserved_bytes("llama.cpp", asked) == (3_072 + 18) * MIB
