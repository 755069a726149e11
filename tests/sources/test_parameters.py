"""Parameter counts follow from the architecture and equal what transformers builds."""

from math import prod

import pytest

from kvtui.dtypes import FORMATS
from kvtui.sizing import weights
from kvtui.sources import presets
from kvtui.spec import Model, ParameterBlock
from tests.sources.oracle import measured, preset

DEPARTURES: dict[str, str] = {}
"""Models whose count differs from transformers', each with its reason. There are none."""


@pytest.mark.parametrize("name", measured())
def test_the_parameter_count_equals_transformers(name: str) -> None:
    assert name not in DEPARTURES
    assert weights.total_parameters(preset(name)) == measured()[name]["parameters"]["total"]


@pytest.mark.parametrize("name", measured())
def test_routed_experts_are_the_share_transformers_has(name: str) -> None:
    experts = [block for block in preset(name).parameters if block.role == "expert"]
    found = sum(prod(block.shape) * block.copies for block in experts)
    assert found == measured()[name]["parameters"]["routed_experts"]


@pytest.mark.parametrize("name", measured())
def test_the_token_table_is_the_first_block_and_has_transformers_size(name: str) -> None:
    table = preset(name).parameters[0]
    assert table.name == "token embedding"
    assert prod(table.shape) == measured()[name]["parameters"]["input_embedding"]


@pytest.mark.parametrize("name", measured())
def test_a_tied_head_is_not_counted_twice(name: str) -> None:
    heads = [block for block in preset(name).parameters if block.role == "head"]
    assert bool(heads) is not measured()[name]["parameters"]["output_embedding_tied"]


def test_no_preset_holds_a_total_that_a_formula_could_read() -> None:
    for name in presets.model_names():
        held = {key for key in presets.model_facts(name) if "param" in key or "weights" in key}
        assert not held, name


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        # DeepSeek-V3 report (arXiv:2412.19437), Mixtral (arXiv:2401.04088), Qwen3 model cards,
        # gpt-oss model card (its figures leave the token table out).
        ("DeepSeek-V3", 37.0),
        ("Mixtral-8x7B-v0.1", 12.9),
        ("Qwen3-30B-A3B", 3.3),
        ("Qwen3-235B-A22B", 22.0),
    ],
)
def test_active_parameters_are_the_published_ones(name: str, billions: float) -> None:
    assert weights.active_parameters(preset(name)) / 1e9 == pytest.approx(billions, rel=0.02)


def test_published_active_parameters_of_gpt_oss_leave_the_token_table_out() -> None:
    for name, billions in (("gpt-oss-20b", 3.61), ("gpt-oss-120b", 5.13)):
        assert weights.multiplied_parameters(preset(name)) / 1e9 == pytest.approx(
            billions, rel=0.02
        )


def test_a_dense_model_is_active_as_a_whole() -> None:
    for name in ("Llama-3.1-8B", "Gemma-3-27B", "BLOOM-176B"):
        model = preset(name)
        assert weights.active_parameters(model) == weights.total_parameters(model)


def test_16_bit_weights_take_two_bytes_a_parameter() -> None:
    model = preset("Llama-3.1-70B")
    assert weights.stored_bytes(model, FORMATS["bf16"]) == 2 * 70_553_706_496


def test_ranks_hold_at_least_the_whole_together_and_norms_each() -> None:
    model, fmt = preset("DeepSeek-V3"), FORMATS["bf16"]
    whole = weights.stored_bytes(model, fmt)
    for tp in (2, 4, 8):
        rank = weights.stored_bytes(model, fmt, tp)
        assert whole / tp < rank < whole / tp * 1.1


def test_a_step_reads_one_row_of_the_table_and_the_head_whole() -> None:
    model, fmt = preset("Llama-3.1-8B"), FORMATS["bf16"]
    table = 2 * 128256 * 4096
    whole = weights.stored_bytes(model, fmt)
    assert weights.read_bytes_per_step(model, fmt, 3) == whole - table + 3 * 2 * 4096


def test_a_tied_table_is_read_whole_as_the_head() -> None:
    model, fmt = preset("Qwen2.5-0.5B"), FORMATS["bf16"]
    assert weights.read_bytes_per_step(model, fmt, 1) == weights.stored_bytes(model, fmt)


def test_per_layer_tables_are_looked_up_although_the_head_is_tied() -> None:
    model, fmt = preset("Gemma-3n-E4B"), FORMATS["bf16"]
    per_layer = 2 * 262144 * 35 * 256
    read = weights.read_bytes_per_step(model, fmt, 1)
    assert read == weights.stored_bytes(model, fmt) - per_layer + 2 * 35 * 256


def test_experts_read_grow_from_k_to_all_with_the_batch() -> None:
    experts = ParameterBlock("expert up", "expert", (8, 4), 128, 8)
    model = Model(name="experts", groups=(), parameters=(experts,))
    read = [weights.read_bytes_per_step(model, FORMATS["bf16"], batch) for batch in (1, 2, 10_000)]
    assert read[0] == weights.read_bytes_per_token(model, FORMATS["bf16"]) == 8 * 64
    assert read[1] == pytest.approx(64 * 128 * (1 - (1 - 8 / 128) ** 2), abs=1)
    assert read[2] == 128 * 64


def test_vectors_stay_in_16_bits_where_a_format_packs_groups() -> None:
    norm = ParameterBlock("norm", "norm", (100,), 1, sharded=False)
    model = Model(name="norm", groups=(), parameters=(norm,))
    assert weights.stored_bytes(model, FORMATS["q8_0"]) == 200
    assert weights.stored_bytes(model, FORMATS["fp8"]) == 100


def test_published_quantised_weights_have_the_size_of_their_checkpoint() -> None:
    # gpt-oss model card (arXiv:2508.10925), table 1: checkpoints of mxfp4 experts, the rest bf16.
    for name, gib in (("gpt-oss-20b", 12.8), ("gpt-oss-120b", 60.8)):
        model = preset(name)
        stored = weights.stored_bytes(model, FORMATS[model.weights_format])
        assert stored / 2**30 == pytest.approx(gib, abs=0.1), name


def test_blocks_a_checkpoint_leaves_unquantised_keep_their_format() -> None:
    kept = {block.role for block in preset("gpt-oss-20b").parameters if block.kept_in == "bf16"}
    assert kept == {"embedding", "head", "norm", "router", "attention"}
    assert not any(block.kept_in for block in preset("Llama-3.1-8B").parameters)
