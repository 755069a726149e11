"""Real reports as inputs with right values: each is fed through the public interface.

The functions below only rename a case's fields to the product's own; what they assert stands in the
case. Cases that need an engine's own rule ask that engine's runtime.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kvtui.compare import compared
from kvtui.errors import KvtuiError
from kvtui.runtimes import reservation
from kvtui.runtimes.llama_cpp import LlamaCpp
from kvtui.runtimes.sglang import Sglang
from kvtui.session.answer import Answer, compose
from kvtui.sources.request import Request, scenario

MIB, GIB = 2**20, 2**30
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in json.loads((Path(__file__).parents[1] / "data" / "handed.json").read_text())
    if case["kind"] == "sizing"
}
NAMES = {
    "layers": "layers", "q_heads": "q_heads", "kv_heads": "kv_heads", "head_dim": "head_dim",
    "v_head_dim": "v_head_dim", "kv_dtype": "dtype", "block_size": "block", "tp": "tp",
    "tokens": "context", "max_len": "context", "batch": "batch", "kv_lora_rank": "kv_lora_rank",
    "qk_rope_head_dim": "rope_dim", "num_blocks": "kv_blocks", "gpu_blocks": "kv_blocks",
    "cp": "dcp", "full_layers": "full_layers", "sliding_window": "window",
}  # fmt: skip


def ask(case: dict[str, Any], tmp_path: Path | None = None, **changes: object) -> Answer:
    """The answer to the case's input, its fields renamed; ``changes`` are more of them."""
    given: dict[str, object] = {
        NAMES[name]: value
        for name, value in case["input"].items()
        if name in NAMES and isinstance(value, str | int | float)
    }
    given.update(changes)
    if tmp_path is not None:
        path = tmp_path / "config.json"
        path.write_text(json.dumps(given.pop("config", None) or case["input"]["config.json"]))
        given["model"] = str(path)
    fields = {name: str(value) for name, value in given.items() if value is not None}
    fields.setdefault("context", "1")
    return compose(scenario(Request(**fields)))


def test_every_sizing_case_is_here() -> None:
    """Each case of kind sizing has its test."""
    tested = {
        name[5:10].upper().replace("_", "-") for name in globals() if name.startswith("test_sz_")
    }
    elsewhere = {"SZ-13"}  # tests/sources/test_gguf.py: its input is a GGUF file
    assert tested | elsewhere == set(CASES)


def test_sz_01() -> None:
    """Blocks to tokens, bytes and concurrency for an 8B GQA model."""
    right, found = CASES["SZ-01"]["right"], ask(CASES["SZ-01"])
    assert found.payload.bytes_per_token == right["bytes_per_token"]
    assert found.capacity.block_bytes == right["block_bytes"]
    assert found.capacity.tokens == right["capacity_tokens"]
    assert found.budget.available_bytes == right["pool_bytes"]
    assert found.capacity.concurrency == pytest.approx(right["max_concurrency"], abs=0.005)


def test_sz_02() -> None:
    """A request longer than the pool does not fit, and the usable length is told."""
    right, found = CASES["SZ-02"]["right"], ask(CASES["SZ-02"])
    assert found.capacity.tokens == right["capacity_tokens"]
    assert found.budget.verdict == "over"
    assert found.limits.longest_sequence == right["longest_single_sequence"]
    assert found.capacity.blocks_per_sequence == right["blocks_needed"]
    assert found.capacity.blocks == right["blocks_available"]
    assert found.capacity.concurrency == pytest.approx(right["max_concurrency"], abs=0.005)


def test_sz_03() -> None:
    """The budget is total x utilisation less the profile run's peak and what is outside it."""
    case = CASES["SZ-03"]
    for given, gib, blocks in zip(
        case["input"]["cases"], case["right"]["kv_budget_gib"], case["right"]["num_blocks"],
        strict=True,
    ):  # fmt: skip
        found = ask(
            case, layers=32, kv_heads=8, head_dim=128, weights=0,
            memory=f"{case['input']['gpu_total_gib']}GiB",
            utilization=case["input"]["memory_utilization"],
            activations=f"{given['peak_framework_gib']}GiB",
            overhead=f"{given['outside_framework_gib']}GiB",
        )  # fmt: skip
        assert found.budget.available_bytes is not None
        assert found.budget.available_bytes / GIB == pytest.approx(gib, abs=0.005)
        assert found.capacity.blocks == pytest.approx(blocks, abs=8)


def test_sz_08(tmp_path: Path) -> None:
    """Gemma-3-27B at 131,072 tokens takes 10.4 GiB, not 81.4."""
    right, found = CASES["SZ-08"]["right"], ask(CASES["SZ-08"], tmp_path)
    layers = {group.kind: group.layers for group in found.payload.groups}
    assert layers == {"full": right["full_layers"], "window": right["window_layers"]}
    assert found.payload.bytes == right["kv_bytes"]


def test_sz_09(tmp_path: Path) -> None:
    """A hybrid with one attention layer in four takes 16 GiB; its state is apart."""
    right, found = CASES["SZ-09"]["right"], ask(CASES["SZ-09"], tmp_path)
    assert found.payload.bytes == right["kv_bytes"]
    assert found.payload.bytes_per_token == right["bytes_per_token"]


def test_sz_10(tmp_path: Path) -> None:
    """MLA keeps one latent of 512 + 64 per token and layer."""
    right = CASES["SZ-10"]["right"]
    for tokens, expected in zip(CASES["SZ-10"]["input"]["tokens"], right["kv_bytes"], strict=True):
        found = ask(CASES["SZ-10"], tmp_path, context=tokens)
        assert found.payload.bytes == expected
        assert found.payload.bytes_per_token == right["bytes_per_token"]


@pytest.mark.parametrize("name", ["SZ-11"])
def test_sz_11(name: str, tmp_path: Path) -> None:
    """Qwen3-0.6B has a head_dim of 128 although hidden / heads is 64."""
    right, found = CASES[name]["right"], ask(CASES[name], tmp_path)
    assert found.payload.bytes == right["kv_bytes"]
    assert found.payload.bytes_per_token == right["bytes_per_token"]


def test_sz_17() -> None:
    """A latent cache of 65,536 tokens in 16 bits, 4 bits and q4_0."""
    right = CASES["SZ-17"]["right"]
    for dtype, mib in zip(("f16", "fp4", "q4_0"), right["kv_mib"], strict=True):
        found = ask(CASES["SZ-17"], attention="mla", dtype=dtype)
        assert found.payload.bytes / MIB == mib
    one = ask(CASES["SZ-17"], attention="mla", dtype="fp4", layers=1)
    assert one.payload.bytes / MIB == right["one_layer_4bit_mib"]


def test_sz_21() -> None:
    """An fp8 latent with scales takes 656 B, its index key 132 B, a token 48,068 B."""
    case, right = CASES["SZ-21"], CASES["SZ-21"]["right"]
    for tokens, gib in zip(case["input"]["tokens"], right["gib_with_index"], strict=True):
        found = ask(case, model="deepseek-v3.2", dtype="fp8_ds_mla", context=tokens, layers=None)
        assert found.payload.bytes_per_token == right["bytes_per_token"]
        assert found.payload.bytes / GIB == pytest.approx(gib, abs=0.01)
        per_layer = 61 * tokens
        assert found.payload.latent_bytes == right["latent_bytes_per_token_layer"] * per_layer
        assert found.payload.index_bytes == right["index_bytes_per_token_layer"] * per_layer
    first = ask(
        case, model="deepseek-v3.2", dtype="fp8_ds_mla", context=case["input"]["tokens"][0],
        layers=None,
    )  # fmt: skip
    assert first.payload.latent_bytes / GIB == pytest.approx(right["gib_without_index"], abs=0.01)


def test_sz_20() -> None:
    """K in q5_0 and V in f16 for one context that six slots share, each a sixth of it."""
    case, right = CASES["SZ-20"]["input"], CASES["SZ-20"]["right"]
    shape = Request(
        layers=str(case["layers"]), kv_heads=str(case["kv_heads"]),
        head_dim=str(case["k_head_dim"]), v_head_dim=str(case["v_head_dim"]),
        dtype=case["k_dtype"], v_dtype=case["v_dtype"], batch=str(case["slots"]),
        context=str(right["context_per_slot"]),
        kv_budget=str(right["k_bytes"] + right["v_bytes"]),
    )  # fmt: skip
    found = reservation("llama.cpp-unified", scenario(shape))
    assert found.bytes == right["k_bytes"] + right["v_bytes"]
    assert found.bytes / GIB == pytest.approx(right["kv_gib"], abs=0.005)
    assert found.pool.concurrency == case["slots"]
    row = compared([scenario(shape)], runtimes=["llama.cpp-unified"]).rows[0]
    assert row.max_context == right["context_per_slot"]


def test_sz_22() -> None:
    """The window pool has 0.8 of the full pool's tokens, its own heads, and a spare page."""
    case, right = CASES["SZ-22"]["input"], CASES["SZ-22"]["right"]
    asked = Request(
        model="mimo-v2-flash", tp=str(case["tp"]), dtype=case["kv_dtype"], block=str(case["page"]),
        context=str(case["full_pool_tokens"]),
    )  # fmt: skip
    full, window = Sglang().pools(scenario(asked))
    assert full.tokens == case["full_pool_tokens"]
    assert window.tokens == case["window_pool_tokens"]
    for pool, name in ((full, "full"), (window, "window")):
        assert pool.k_bytes / GIB == pytest.approx(right[f"{name}_k_gib"], abs=1e-3)
        assert pool.v_bytes / GIB == pytest.approx(right[f"{name}_v_gib"], abs=1e-3)


def test_sz_23() -> None:
    """A latent model whose default length does not fit is told the length that does."""
    right = CASES["SZ-23"]["right"]
    found = ask(CASES["SZ-23"], kv_budget="17.39GiB")
    assert found.payload.bytes_per_token == right["bytes_per_token"]
    assert found.payload.bytes / GIB == right["needed_gib"]
    assert found.budget.verdict == "over"
    assert found.limits.longest_sequence == pytest.approx(right["longest_length"], abs=240)
    assert found.limits.longest_sequence % 16 == 0  # type: ignore[operator]


def test_sz_24() -> None:
    """Pipeline stages store only their own layers."""
    case, right = CASES["SZ-24"], CASES["SZ-24"]["right"]
    found = ask(case, pp_layers=",".join(map(str, case["input"]["pp_layers"])))
    assert found.payload.bytes_per_token == right["bytes_per_token_whole"]
    assert found.payload.bytes / GIB == right["whole_gib"]
    assert [stage.bytes_per_token for stage in found.stages] == right["stage_bytes_per_token"]
    assert [stage.bytes / GIB for stage in found.stages] == right["stage_gib"]
    one = ask(case, kv_budget=f"{case['input']['whole_model_budget_gib']}GiB")
    longest = right["longest_length_if_one_gpu_held_all"]
    assert one.limits.longest_sequence == pytest.approx(longest, abs=64)


def test_sz_27() -> None:
    """A pool is sized with the heads of one rank."""
    case, right = CASES["SZ-27"], CASES["SZ-27"]["right"]
    found = ask(case, kv_budget=case["input"]["kv_budget_bytes_per_rank"])
    assert found.capacity.block_bytes == right["bytes_per_token_per_rank"] * 256
    assert found.capacity.tokens == right["capacity_tokens"]
    assert found.capacity.blocks == right["num_blocks"]
    assert right["num_blocks"] / right["wrong_num_blocks"] == 4


def test_sz_29() -> None:
    """Eight ranks over four KV heads hold each head twice, and it is said."""
    right, found = CASES["SZ-29"]["right"], ask(CASES["SZ-29"])
    assert found.per_rank.kv_heads == right["kv_heads_per_rank"]
    assert found.per_rank.bytes == right["bytes_per_token_per_rank"]
    assert found.payload.bytes == right["bytes_per_token_one_gpu"]
    strip = {one.tp: one for one in found.tp_strip}
    assert strip[8].total_bytes == right["bytes_per_token_all_ranks"]
    assert any("copy" in warning for warning in found.warnings)


def test_sz_33() -> None:
    """The same bytes hold exactly twice the tokens in fp8."""
    case, right = CASES["SZ-33"], CASES["SZ-33"]["right"]
    tokens = []
    for index, dtype in enumerate(case["input"]["kv_dtypes"]):
        found = ask(case, dtype=dtype, kv_budget=f"{case['input']['kv_budget_gib']}GiB")
        assert found.payload.bytes_per_token == right["bytes_per_token"][index]
        assert found.capacity.tokens is not None
        tolerance = (47, 94)[index]
        assert found.capacity.tokens == pytest.approx(
            right["capacity_tokens"][index], abs=tolerance
        )
        tokens.append(found.capacity.tokens)
    assert abs(tokens[1] - right["ratio"] * tokens[0]) <= 1


def test_sz_34() -> None:
    """A log's bytes and tokens give the bytes of a token, and those of what is wanted."""
    case, right = CASES["SZ-34"], CASES["SZ-34"]["right"]
    whole = ask(case)
    assert whole.payload.bytes == case["input"]["allocated_bytes"]
    assert whole.payload.bytes_per_token == right["bytes_per_token"]
    wanted = case["input"]["wanted"]
    found = ask(case, context=wanted["tokens"], batch=wanted["sequences"])
    assert found.payload.bytes == right["kv_bytes_wanted"]
    assert found.payload.per_sequence_bytes / GIB == right["kv_gib_wanted_one_beam"]


def test_sz_37() -> None:
    """MHA takes eight times the bytes of GQA with eight heads."""
    for heads, gib in zip((64, 8), CASES["SZ-37"]["right"]["kv_gib"], strict=True):
        assert ask(CASES["SZ-37"], kv_heads=heads).payload.bytes / GIB == gib


def test_sz_39() -> None:
    """112 MiB are 2,048 tokens."""
    found = ask(CASES["SZ-39"], kv_budget="112MiB")
    assert found.payload.bytes_per_token == CASES["SZ-39"]["right"]["bytes_per_token"]
    assert found.capacity.tokens == CASES["SZ-39"]["right"]["capacity_tokens"]


def test_sz_40() -> None:
    """The block size changes the number of blocks, not the bytes."""
    case, right = CASES["SZ-40"], CASES["SZ-40"]["right"]
    for index, block in enumerate(case["input"]["block_sizes"]):
        found = ask(case, block=block, kv_budget=f"{case['input']['kv_budget_mib']}MiB")
        assert found.capacity.block_bytes == right["block_bytes"][index]
        assert found.capacity.blocks == right["num_blocks"][index]
        assert found.capacity.tokens == right["capacity_tokens"]


def test_sz_43() -> None:
    """378 blocks on each of two ranks are 6,048 tokens, too few for 8,192."""
    case, right = CASES["SZ-43"], CASES["SZ-43"]["right"]
    found = ask(case)
    assert found.capacity.block_bytes == right["bytes_per_token_per_rank"] * 16
    assert found.capacity.tokens == right["capacity_tokens"]
    assert found.budget.verdict == "over"
    assert found.budget.spare_bytes == -right["mib_missing_per_rank"] * MIB
    swap = ask(case, kv_blocks=None, kv_budget=f"{case['input']['swap_gib_per_rank']}GiB")
    assert swap.capacity.blocks == right["swap_blocks"]


def test_sz_44() -> None:
    """7,344 tokens of a multi-head 7B are 3.59 GiB; the default length needs 16."""
    case, right = CASES["SZ-44"], CASES["SZ-44"]["right"]
    found = ask(case, kv_blocks=case["input"]["capacity_tokens"])
    assert found.payload.bytes_per_token == right["bytes_per_token"]
    assert found.budget.available_bytes is not None
    assert found.budget.available_bytes / GIB == pytest.approx(right["pool_gib"], abs=1e-4)
    assert found.payload.bytes / GIB == right["needed_gib"]
    assert found.budget.verdict == "over"


def test_sz_47() -> None:
    """Free blocks are the pool that is left: a request may fit the empty pool and not this one."""
    case, right = CASES["SZ-47"]["input"], CASES["SZ-47"]["right"]
    shape = {"layers": 24, "kv_heads": 1, "head_dim": 128, "block": case["block_size"]}
    free, whole = (
        ask({"input": {}}, context=case["requested_tokens"], kv_blocks=blocks, **shape)
        for blocks in (case["free_blocks"], case["total_blocks"])
    )
    assert free.payload.bytes_per_token == right["bytes_per_token"]
    assert whole.budget.available_bytes == case["pool_gib"] * GIB
    assert free.capacity.tokens == right["free_tokens"]
    assert free.budget.available_bytes is not None
    assert whole.budget.available_bytes is not None
    used = whole.budget.available_bytes - free.budget.available_bytes
    assert used / GIB == pytest.approx(right["used_gib"], abs=0.01)
    assert 100 * used / whole.budget.available_bytes == pytest.approx(
        right["used_percent"], abs=0.05
    )
    assert (free.budget.verdict != "over") is right["fits_now"]
    assert (whole.budget.verdict != "over") is right["fits_empty_pool"]


def test_sz_51() -> None:
    """The total of two slots is not what one request may use."""
    case, right = CASES["SZ-51"]["input"], CASES["SZ-51"]["right"]
    cell = 2 * 64 * 2
    asked = Request(
        layers="1", kv_heads="1", head_dim="64", dtype="f16", batch=str(case["slots"]),
        context=str(case["model_max_len"]), kv_budget=str(case["context_total"] * cell),
    )  # fmt: skip
    found = reservation("llama.cpp", scenario(asked)).pool
    assert (found.tokens, found.concurrency) == (right["total_tokens"], case["slots"])
    row = compared([scenario(asked)], runtimes=["llama.cpp"]).rows[0]
    assert row.max_context == right["per_sequence_limit"]


@pytest.mark.parametrize("model", ["qwen3-next-80b-a3b", "gemma-3-27b", "llama-3.1-8b"])
@pytest.mark.parametrize("block", [1, 16, 544])
def test_sz_52(model: str, block: int) -> None:
    """Capacity and concurrency agree within a block a sequence, for hybrids as well."""
    found = ask({"input": {}}, model=model, context=32768, block=block, kv_budget="100GiB").capacity
    assert found.tokens is not None
    assert found.concurrency is not None
    sequences = found.concurrency + 1
    assert abs(found.tokens - found.concurrency * 32768) <= block * sequences


def test_sz_53() -> None:
    """A fixed state makes bytes per token depend on the length: 1/concurrency is affine in T."""
    inverse = []
    for context in (8192, 16384, 32768):
        found = ask(
            {"input": {}}, model="qwen3-next-80b-a3b", context=context, kv_budget="100GiB"
        ).capacity
        assert found.concurrency is not None
        inverse.append(1 / found.concurrency)
    slope = (inverse[1] - inverse[0]) / 8192
    assert inverse[2] - inverse[1] == pytest.approx(slope * 16384)
    fixed_tokens = (inverse[0] - slope * 8192) / slope
    assert fixed_tokens > 1000, "the state counts as thousands of tokens"
    case = CASES["SZ-53"]["right"]
    assert case["products"][0] < case["products"][1]


def test_sz_56(tmp_path: Path) -> None:
    """A declared head_dim wins over hidden / heads."""
    found = ask(CASES["SZ-56"], tmp_path)
    assert found.payload.bytes_per_token == CASES["SZ-56"]["right"]["bytes_per_token"]


def test_sz_58(tmp_path: Path) -> None:
    """A head_dim that is null is hidden / heads, and a null window is none."""
    right, found = CASES["SZ-58"]["right"], ask(CASES["SZ-58"], tmp_path)
    assert found.payload.bytes_per_token == right["bytes_per_token"]
    assert found.payload.bytes / GIB == right["kv_gib"]


def test_sz_59(tmp_path: Path) -> None:
    """A null global KV-head field falls back to the ordinary one."""
    right, found = CASES["SZ-59"]["right"], ask(CASES["SZ-59"], tmp_path)
    assert found.payload.bytes == right["kv_bytes"]


def test_sz_62(tmp_path: Path) -> None:
    """The text part is sized although the top level describes the vision tower."""
    found = ask(CASES["SZ-62"], tmp_path)
    assert found.payload.bytes_per_token == CASES["SZ-62"]["right"]["bytes_per_token"]


def test_sz_63(tmp_path: Path) -> None:
    """The text part two levels down is found, and which part was priced is said."""
    right, found = CASES["SZ-63"]["right"], ask(CASES["SZ-63"], tmp_path)
    assert found.payload.bytes_per_token == right["bytes_per_token"]
    assert found.payload.bytes / GIB == right["kv_gib"]
    assert any("thinker_config" in warning for warning in found.warnings)


@pytest.mark.parametrize("index", range(4))
def test_sz_65(index: int, tmp_path: Path) -> None:
    """The trained context is what the file says it reaches, scaled once and never twice."""
    case = CASES["SZ-65"]
    shape = {
        "num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 1,
        "vocab_size": 10, "intermediate_size": 64, "model_type": "llama",
    }  # fmt: skip
    right = case["right"]["max_len"][index]
    facts = {**shape, **case["input"]["configs"][index]}
    within = ask(case, tmp_path, config=facts, context=right)
    beyond = ask(case, tmp_path, config=facts, context=right + 1)
    assert not any("trained for" in warning for warning in within.warnings)
    assert any("trained for" in warning for warning in beyond.warnings)


def test_sz_67(tmp_path: Path) -> None:
    """A window that is switched off is none; one that starts at a layer covers those after it."""
    case, right = CASES["SZ-67"], CASES["SZ-67"]["right"]
    for index, variant in enumerate(case["input"]["variants"]):
        facts = {**case["input"]["base"], "model_type": "qwen2", **variant}
        found = ask(case, tmp_path, config=facts)
        assert found.payload.bytes / GIB == right["kv_gib"][index]
        windows = sum(group.layers for group in found.payload.groups if group.kind == "window")
        assert windows == right["window_layers"][index]


def test_sz_69(tmp_path: Path) -> None:
    """8 of 32 layers grow; 24 hold a fixed state that no KV format changes."""
    case, right = CASES["SZ-69"], CASES["SZ-69"]["right"]
    given = case["input"]
    facts = {
        "model_type": "qwen3_next", "num_hidden_layers": given["layers"], "hidden_size": 4096,
        "num_attention_heads": 16, "num_key_value_heads": given["kv_heads"],
        "head_dim": given["head_dim"], "vocab_size": 10, "intermediate_size": 64,
        "linear_num_value_heads": given["linear_num_value_heads"],
        "linear_num_key_heads": 16, "linear_conv_kernel_dim": 1,
        "linear_key_head_dim": given["linear_key_head_dim"],
        "linear_value_head_dim": given["linear_value_head_dim"],
        "layer_types": [kind for kind, n in given["layer_types"].items() for _ in range(n)],
        "num_experts": 0, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64,
        "num_experts_per_tok": 0, "decoder_sparse_step": 1,
    }  # fmt: skip
    for index, dtype in enumerate(given["kv_dtypes"]):
        found = ask(case, tmp_path, config=facts, dtype=dtype, layers=None, kv_heads=None,
                    head_dim=None)  # fmt: skip
        assert found.payload.bytes_per_token == right["bytes_per_token"][index]
        assert found.payload.bytes / GIB == right["kv_gib"][index]
        assert found.payload.state_bytes / MIB == pytest.approx(right["fixed_state_mib"], rel=0.1)


def test_sz_71() -> None:
    """The worked example of a standard draft: 1.25 GiB, 1.342 GB."""
    right, found = CASES["SZ-71"]["right"], ask(CASES["SZ-71"])
    assert found.payload.bytes == right["kv_bytes"]
    assert found.payload.bytes / 1e9 == pytest.approx(right["kv_gb"], abs=5e-4)


def test_sz_72() -> None:
    """32K is 32,768 tokens, and that K is 1,024 is said."""
    case, right = CASES["SZ-72"], CASES["SZ-72"]["right"]
    for index, tokens in enumerate(case["input"]["tokens"]):
        found = ask(case, context=tokens)
        assert found.context == right["tokens_parsed"][index]
        assert found.payload.bytes / GIB == right["kv_gib"][index]
        assert any("1024" in warning for warning in found.warnings)


def test_sz_74() -> None:
    """K alone is 4 GiB where both are 8."""
    right, found = CASES["SZ-74"]["right"], ask(CASES["SZ-74"])
    assert found.payload.bytes == right["kv_bytes"]
    assert found.payload.k_bytes == right["k_bytes"]


def test_sz_75() -> None:
    """28 GiB in all are 7 GiB on each of four ranks."""
    right, found = CASES["SZ-75"]["right"], ask(CASES["SZ-75"])
    assert found.payload.bytes == right["kv_bytes_total"]
    assert found.per_rank.bytes / GIB == right["kv_gib_per_rank"]


def test_sz_77() -> None:
    """A 7B with eight KV heads and a window of 4,096 takes 512 MiB; without window 4 GiB."""
    case, right = CASES["SZ-77"], CASES["SZ-77"]["right"]
    assert ask(case).payload.bytes / MIB == right["kv_mib_window"]
    assert ask(case, window=None).payload.bytes / GIB == right["kv_gib_no_window"]
    assert ask(case, window=None, kv_heads=32).payload.bytes / GIB == right["wrong_gib_mha"]


def test_sz_84() -> None:
    """A window layer holds window + micro-batch, and a global layer has narrower rows."""
    case, right = CASES["SZ-84"]["input"], CASES["SZ-84"]["right"]
    engine = LlamaCpp(ubatch=case["chunk"])
    for tokens, ratio in zip(case["tokens"], right["ratio"], strict=True):
        asked = scenario(Request(model="gemma-4-31b", dtype=case["kv_dtype"], context=str(tokens)))
        groups = asked.model.groups
        rows = {one.layers: one.kv_heads * one.k_width for one in groups}  # type: ignore[attr-defined]
        assert rows == {
            case["window_layers"]: case["window_row"], case["full_layers"]: case["full_row"]
        }  # fmt: skip
        held = engine.reserved_bytes(asked)
        uncompressed = 2 * 2 * tokens * sum(layers * row for layers, row in rows.items())
        assert held / uncompressed == pytest.approx(ratio, abs=0.005)
        if tokens == 32_768:
            assert held / MIB == right["kv_mib_at_32768"]
            assert uncompressed / MIB == right["uncompressed_mib_at_32768"]


def test_sz_86(tmp_path: Path) -> None:
    """Only the layers that the file names own a cache, and only some an index."""
    right, found = CASES["SZ-86"]["right"], ask(CASES["SZ-86"], tmp_path)
    assert found.payload.bytes_per_token == right["bytes_per_token"]
    assert found.payload.index_bytes == right["bytes_per_token_index"]


def test_sz_88() -> None:
    """Each context-parallel rank rounds down to whole blocks before the ranks are added up."""
    case, right = CASES["SZ-88"], CASES["SZ-88"]["right"]
    found = ask(case, layers=1, kv_heads=1, head_dim=1, dtype="fp8",
                kv_budget=2 * case["input"]["tokens_per_rank"])  # fmt: skip
    assert found.capacity.blocks == right["blocks_per_rank"]
    assert found.capacity.tokens == right["capacity_tokens"]


def test_sz_89() -> None:
    """Without the window saving 18.3 GiB, with it 3.36 (an engine's chunk adds up to 0.16)."""
    case, right = CASES["SZ-89"], CASES["SZ-89"]["right"]
    plain = ask(case, window=None, full_layers=None)
    assert plain.payload.bytes / GIB == pytest.approx(right["kv_gib"][0], abs=5e-4)
    saved = ask(case).payload.bytes / GIB
    assert right["kv_gib"][1] - 5e-4 <= saved <= right["kv_gib_with_512_chunk"]


def test_sz_91() -> None:
    """A head of 80 is refused in q8_0, whose blocks hold 32 values."""
    case, right = CASES["SZ-91"], CASES["SZ-91"]["right"]
    for dtype, mib in zip(case["input"]["kv_dtypes"][:2], right["kv_mib"][:2], strict=True):
        assert ask(case, dtype=dtype).payload.bytes / MIB == mib
    with pytest.raises(KvtuiError, match="head dim is 80; it must be a multiple of 32 for q8_0"):
        ask(case, dtype="q8_0")


@pytest.mark.parametrize("index", [0, 1])
def test_sz_92(index: int, tmp_path: Path) -> None:
    """Falcon's multi_query means one head, unless the new architecture says otherwise."""
    case, right = CASES["SZ-92"], CASES["SZ-92"]["right"]
    found = ask(case, tmp_path, config=case["input"]["configs"][index])
    assert found.per_rank.kv_heads == right["kv_heads"][index]
    assert found.payload.bytes_per_token == right["bytes_per_token"][index]
    assert found.payload.bytes / MIB == right["kv_mib"][index]


@pytest.mark.parametrize("index", range(5))
def test_sz_94(index: int, tmp_path: Path) -> None:
    """Zero, negative, odd or missing fields are a message that names the field, with status 2."""
    case = CASES["SZ-94"]
    field = ("num_attention_heads", "num_hidden_layers", "num_attention_heads", "hidden_size",
             "num_hidden_layers")[index]  # fmt: skip
    with pytest.raises(KvtuiError, match=field) as caught:
        ask(case, tmp_path, config=case["input"]["configs"][index] or {"": ""})
    assert caught.value.exit_code == 2
