"""A config.json as people have them: aliases, nulls, nesting, windows, quantisation."""

import json
from pathlib import Path

import pytest

from kvtui.sources import config_json
from kvtui.spec import (
    CrossAttention,
    FullAttention,
    LatentAttention,
    LayerGroup,
    Model,
    SlidingWindow,
)

LLAMA: dict[str, object] = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 1024,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}


def _model(**changes: object) -> Model:
    """A small Llama with ``changes``; a field set to ... is left out."""
    facts = {key: value for key, value in {**LLAMA, **changes}.items() if value is not ...}
    return config_json.model(facts, name="small")


def _only(model: Model) -> FullAttention:
    (group,) = model.groups
    assert isinstance(group, FullAttention)
    return group


def test_equal_layers_are_one_group() -> None:
    assert _model().groups == (
        FullAttention(layers=4, q_heads=8, kv_heads=2, k_width=64, v_width=64),
    )


@pytest.mark.parametrize(
    "alias",
    ["n_head_kv", "num_kv_heads", "multi_query_group_num", "num_attention_groups"],
)
def test_kv_heads_are_found_under_every_name(alias: str) -> None:
    assert _only(_model(**{"num_key_value_heads": ..., alias: 4})).kv_heads == 4


def test_without_kv_heads_every_query_head_has_its_own() -> None:
    assert _only(_model(num_key_value_heads=...)).kv_heads == 8
    assert _only(_model(num_key_value_heads=None)).kv_heads == 8


@pytest.mark.parametrize("absent", [..., None, 0])
def test_a_missing_head_dim_is_hidden_over_heads_and_says_so(absent: object) -> None:
    model = _model(head_dim=absent, hidden_size=1024)
    assert _only(model).k_width == 128
    assert any("head_dim is not in the file; 128" in one for one in model.warnings)


def test_a_given_head_dim_is_kept_although_hidden_over_heads_differs() -> None:
    model = _model(head_dim=128)
    assert _only(model).k_width == 128
    assert not model.warnings


def test_hidden_size_per_head_comes_before_the_division() -> None:
    assert _only(_model(head_dim=None, hidden_size_per_head=32)).k_width == 32


def test_falcon_with_multi_query_and_the_old_architecture_has_one_kv_head() -> None:
    old = _model(model_type="falcon", multi_query=True, num_kv_heads=8, num_key_value_heads=...)
    new = _model(
        model_type="falcon",
        multi_query=True,
        new_decoder_architecture=True,
        num_kv_heads=4,
        num_key_value_heads=...,
    )
    assert (_only(old).kv_heads, _only(new).kv_heads) == (1, 4)


def test_kv_heads_may_be_listed_layer_by_layer() -> None:
    model = _model(num_key_value_heads=[2, 2, 4, 2])
    assert [
        (one.layers, one.kv_heads) for one in model.groups if isinstance(one, FullAttention)
    ] == [
        (3, 2),
        (1, 4),
    ]


def test_a_layer_listed_without_kv_heads_caches_nothing() -> None:
    model = _model(num_key_value_heads=[2, 0, 2, 0])
    assert [(one.kind, one.layers) for one in model.groups] == [("full", 2), ("none", 2)]


def test_text_fields_may_be_nested_while_dtype_stays_at_the_root() -> None:
    nested = {"model_type": "llava", "text_config": LLAMA, "torch_dtype": "float16"}
    model = config_json.model(nested, name="nested")
    assert model.groups == _model().groups
    assert model.weights_format == "fp16"


def test_a_nested_config_takes_the_class_defaults_it_leaves_out_and_says_so() -> None:
    facts = {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
    }
    model = config_json.model(facts, name="gemma-3-4b")
    window, full = model.groups
    assert isinstance(window, SlidingWindow)
    assert isinstance(full, FullAttention)
    assert (window.layers, window.window, full.layers) == (29, 1024, 5)
    assert (full.q_heads, full.kv_heads, full.k_width) == (8, 4, 256)
    assert any("num_attention_heads is not in the file" in one for one in model.warnings)


def test_use_sliding_window_false_keeps_every_token_and_says_so() -> None:
    model = _model(model_type="qwen2", sliding_window=1024, use_sliding_window=False)
    assert type(_only(model)) is FullAttention
    assert any("use_sliding_window is false" in one for one in model.warnings)


def test_use_sliding_window_true_slides_from_max_window_layers_on() -> None:
    model = _model(
        model_type="qwen2", sliding_window=1024, use_sliding_window=True, max_window_layers=3
    )
    assert [(one.kind, one.layers) for one in model.groups] == [("full", 3), ("window", 1)]


def test_a_bare_sliding_window_of_a_llama_is_not_believed() -> None:
    model = _model(sliding_window=1024)
    assert type(_only(model)) is FullAttention
    assert any("nothing says which layers" in one for one in model.warnings)


def test_a_bare_sliding_window_of_a_mistral_is_for_all_layers_with_a_warning() -> None:
    model = _model(model_type="mistral", sliding_window=1024)
    assert isinstance(_only(model), SlidingWindow)
    assert any("some runtimes ignore" in one for one in model.warnings)
    assert type(_only(_model(model_type="mistral", sliding_window=None))) is FullAttention


def test_a_pattern_of_six_has_a_global_layer_at_the_end_of_each_period() -> None:
    model = _model(
        model_type="gemma3_text",
        num_hidden_layers=62,
        sliding_window=1024,
        sliding_window_pattern=6,
    )
    assert [(one.kind, one.layers) for one in model.groups] == [("window", 52), ("full", 10)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("LLLG", [("window", 3), ("full", 1)]), ([1, 0, 0, 0], [("window", 1), ("full", 3)])],
)
def test_a_pattern_may_be_letters_or_a_list(
    pattern: object, expected: list[tuple[str, int]]
) -> None:
    model = _model(sliding_window=512, sliding_window_pattern=pattern)
    assert [(one.kind, one.layers) for one in model.groups] == expected


def test_layer_types_decide_over_the_pattern() -> None:
    kinds = ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"]
    model = _model(sliding_window=512, sliding_window_pattern=2, layer_types=kinds)
    assert [(one.kind, one.layers) for one in model.groups] == [("full", 1), ("window", 3)]


def test_quantised_weights_are_not_a_quantised_cache() -> None:
    model = _model(quantization_config={"quant_method": "fp8"})
    assert model.weights_format == "fp8"
    assert any("about weights" in one for one in model.warnings)
    packed = _model(quantization_config={"quant_method": "awq", "bits": 4})
    assert packed.weights_format == "bf16"
    assert any("--weights gives their real size" in one for one in packed.warnings)


def test_a_cache_scheme_in_the_quantisation_is_pointed_out() -> None:
    model = _model(quantization_config={"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"})
    assert any("names FP8 for the KV cache" in one for one in model.warnings)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "full"),
        ({"num_experts": 8, "num_experts_per_tok": 2}, "full"),
        (
            {
                "kv_lora_rank": 128,
                "qk_rope_head_dim": 32,
                "qk_nope_head_dim": 64,
                "v_head_dim": 64,
                "n_routed_experts": 8,
                "num_experts_per_tok": 2,
            },
            "mla",
        ),
    ],
)
def test_an_unknown_type_is_read_as_the_nearest_with_a_warning(
    fields: dict[str, object], kind: str
) -> None:
    model = _model(model_type="brand_new", **fields)
    assert {one.kind for one in model.groups} == {kind}
    assert any("'brand_new' is not known" in one for one in model.warnings)


def test_latent_attention_keeps_its_widths_and_no_v() -> None:
    model = _model(
        model_type="deepseek_v2",
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
        q_lora_rank=None,
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=64,
    )
    expected: LayerGroup = LatentAttention(
        layers=4, kv_lora_rank=512, rope_dim=64, q_heads=8, nope_dim=128, v_head_dim=128
    )
    assert model.groups == (expected,)


def test_cross_attention_counts_the_tokens_of_the_vision_config() -> None:
    vision = {"image_size": 448, "patch_size": 14, "max_num_tiles": 2}
    model = _model(model_type="mllama_text_model", cross_attention_layers=[1], vision_config=vision)
    crossing = [one for one in model.groups if isinstance(one, CrossAttention)]
    assert [(one.layers, one.source_tokens) for one in crossing] == [(1, 2 * (32 * 32 + 1))]


def test_draft_layers_of_the_checkpoint_are_pointed_out() -> None:
    model = _model(num_nextn_predict_layers=1)
    assert model.layers == 4
    assert any("not counted: neither weights nor cache" in one for one in model.warnings)


def test_a_file_is_named_after_its_folder_and_its_path_is_the_source(tmp_path: Path) -> None:
    path = tmp_path / "my-model" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(LLAMA))
    model = config_json.read(path)
    assert (model.name, model.confidence) == ("my-model", "file")
    assert model.source == str(path)
    assert model.groups == _model().groups


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA).encode())
    assert config_json.read(path).name == "small"
