"""Values that engines' own code or logs give for published models, to the digits given."""

import pytest

from kvtui.session.answer import Answer, compose
from kvtui.sources.request import Request, scenario

MIB, GIB = 2**20, 2**30


def ask(**fields: object) -> Answer:
    return compose(scenario(Request(**{name: str(value) for name, value in fields.items()})))


@pytest.mark.parametrize(
    ("model", "dtype", "expected"),
    [
        ("llama-3.1-8b", "bf16", 131_072),
        ("llama-3-70b", "bf16", 327_680),
        ("deepseek-v3", "bf16", 70_272),
        ("deepseek-v3.2", "fp8_ds_mla", 48_068),
        ("qwen3-30b-a3b", "bf16", 98_304),
        ("qwen3-next-80b-a3b", "bf16", 24_576),
    ],
)
def test_bytes_of_a_token(model: str, dtype: str, expected: int) -> None:
    """One more token takes what the engines' own specs of these models come to."""
    assert ask(model=model, dtype=dtype, context=4096).payload.bytes_per_token == expected


@pytest.mark.parametrize(
    ("tokens", "naive", "steady"),
    [(8_192, 384, 195), (32_768, 1_536, 771), (131_072, 6_144, 3_075)],
)
def test_gpt_oss_20b(tokens: int, naive: int, steady: int) -> None:
    """gpt-oss-20b holds windows of 128 in half its layers, not all tokens in all of them."""
    everything = ask(layers=24, kv_heads=8, head_dim=64, context=tokens)
    assert everything.payload.bytes / MIB == naive
    assert ask(model="gpt-oss-20b", context=tokens).payload.bytes / MIB == steady


def test_gpt_oss_20b_at_32_sequences() -> None:
    """32 sequences of 8,192 tokens take 6.094 GiB with windows and 12 without."""
    found = ask(model="gpt-oss-20b", context=8_192, batch=32)
    assert found.payload.bytes / GIB == pytest.approx(6.094, abs=5e-4)
    assert ask(layers=24, kv_heads=8, head_dim=64, context=8_192, batch=32).payload.bytes == (
        12 * GIB
    )


def test_gemma_3_27b() -> None:
    """Gemma 3 27B at 131,072 tokens: 62 GiB if all layers kept all, 10.406 as they do."""
    found = ask(model="gemma-3-27b", context=131_072)
    assert found.payload.bytes / GIB == pytest.approx(10.406, abs=5e-4)
    everything = ask(layers=62, kv_heads=16, head_dim=128, context=131_072)
    assert everything.payload.bytes / GIB == 62.0


@pytest.mark.parametrize(("state", "mib"), [("fp32", 73.7), ("bf16", 37.7)])
def test_the_state_of_qwen3_next(state: str, mib: float) -> None:
    """36 recurrent layers hold 73.7 MiB a sequence in fp32, as much as 3,144 tokens of KV."""
    found = ask(model="qwen3-next-80b-a3b", context=1, state_dtype=state)
    assert found.payload.state_bytes / MIB == pytest.approx(mib, abs=0.05)
    if state == "fp32":
        assert found.payload.state_bytes // 24_576 == 3_144
