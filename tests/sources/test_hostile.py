"""Whatever a file holds, it ends in a model or in one sentence, soon and in little memory."""

import json
import os
import re
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtui.errors import ExitCode, InputError, KvtuiError, SourceError
from kvtui.sources import config_json, presets

LLAMA: dict[str, object] = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 1024,
    "vocab_size": 1000,
}


def _refused(path: Path) -> str:
    """The sentence with which ``path`` is refused, within a second and 100 MiB."""
    tracemalloc.start()
    began = time.perf_counter()
    try:
        with pytest.raises(KvtuiError) as caught:
            config_json.read(path)
        assert time.perf_counter() - began < 1
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()
    assert isinstance(caught.value, InputError | SourceError)
    assert caught.value.exit_code == ExitCode.USAGE
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("[]", "holds a list"),
        ("[{}]", "holds a list"),
        ("3", "holds a single value"),
        ('"text"', "holds a single value"),
        ("null", "holds a single value"),
        ("{", "is not JSON"),
        ("{'a': 1}", "is not JSON"),
        ('{"a": 1} trailing', "is not JSON"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("{}", "num_hidden_layers, hidden_size, num_attention_heads is missing"),
        ('{"model_type": "llama"}', "is missing"),
        ('{"model_type": ["llama"]}', "model_type is"),
        ('{"text_config": 3}', "text_config is"),
        ('{"text_config": []}', "text_config is"),
        ('{"n": ' + "9" * 5000 + "}", "is not JSON"),
    ],
)
def test_a_file_that_is_no_config_is_refused_in_a_sentence(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    assert says in _refused(path)


EVERYTHING: tuple[object, ...] = (
    None, True, -1, 0, 1.5, float("nan"), float("inf"), 2**70, "many", [], {}, "",
)  # fmt: skip
WEIGHTS_ONLY = ("hidden_size", "intermediate_size", "vocab_size")
"""Fields whose absence leaves the cache of this file known (its heads state their width)."""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (field, value)
        for field in LLAMA
        if field not in ("model_type", "head_dim", "num_key_value_heads")
        for value in EVERYTHING
        if value is not None or field not in WEIGHTS_ONLY
    ],
)  # fmt: skip
def test_a_required_field_that_cannot_be_used_is_named_with_value_and_range(
    tmp_path: Path, field: str, value: object
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, field: value}))
    sentence = _refused(path)
    assert sentence.startswith(field)
    assert re.search(r" is .+; it must be .+\.$", sentence)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"num_attention_heads": 12, "num_key_value_heads": 5}, "multiple of the 5 KV heads"),
        ({"head_dim": -1}, "head_dim is -1"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0"),
        ({"head_dim": None, "num_attention_heads": 6, "num_key_value_heads": 2}, "hidden_size"),
        ({"num_key_value_heads": [2, 2]}, "one a layer"),
        ({"num_key_value_heads": [2, 2, "two", 2]}, "num_key_value_heads[2]"),
        ({"layer_types": ["full_attention"]}, "one a layer"),
        ({"layer_types": ["mamba"] * 4}, "layer_types[0]"),
        ({"layer_types": "full_attention"}, "a list of texts"),
        ({"layer_types": ["sliding_attention"] * 4}, "sliding_window is missing"),
        ({"sliding_window": -5}, "sliding_window is -5"),
        ({"tie_word_embeddings": "yes"}, "true or false"),
        ({"torch_dtype": 16}, "torch_dtype is 16"),
        ({"quantization_config": "fp8"}, "an object"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"model_type": "mystery", "ssm_state_size": 16}, "model_type"),
        (
            {"model_type": "nemotron_h", "hybrid_override_pattern": "MXM*"},
            "hybrid_override_pattern",
        ),
        ({"model_type": "kimi_linear"}, "full_attn_layers"),
        ({"model_type": "gemma3n_text", "num_kv_shared_layers": 4}, "num_kv_shared_layers"),
        (
            {"model_type": "mllama_text_model", "cross_attention_layers": [9]},
            "cross_attention_layers",
        ),
    ],
)
def test_fields_that_contradict_are_refused_by_name(
    tmp_path: Path, fields: dict[str, object], says: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, **fields}))
    assert says in _refused(path)


@pytest.mark.parametrize("field", WEIGHTS_ONLY)
def test_without_what_only_weights_need_the_cache_is_still_sized(field: str) -> None:
    facts = {name: value for name, value in LLAMA.items() if name != field}
    found = config_json.model(facts, name="m")
    assert found.groups == config_json.model(LLAMA, name="m").groups
    assert found.parameters == ()
    assert any(field in warning for warning in found.warnings)


def test_a_file_of_200_mb_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(200_000_000)
    assert "at most 16.0 MiB are read" in _refused(path)


def test_a_file_just_under_the_limit_is_read_in_time(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"a": "x" * 15_000_000}))
    assert "is missing" in _refused(path)


def test_paths_that_are_no_file_are_refused(tmp_path: Path) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    assert "go in a circle" in _refused(loop)
    assert "is a folder" in _refused(tmp_path)
    assert "no such file" in _refused(tmp_path / "absent.json")
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    assert "not a regular file" in _refused(pipe)
    assert "null character" in _refused(Path("a\0b.json"))


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xff\xfe\x00\x01")
    assert "not UTF-8" in _refused(path)


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.one_of(st.integers(-2, 9), st.text(max_size=3), st.none()), max_size=5),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
_CASES = [presets.model_facts(name) for name in presets.model_names()]


@given(data=st.data())
def test_any_value_in_any_field_of_a_real_config_ends_in_a_model_or_a_sentence(
    data: st.DataObject,
) -> None:
    facts = dict(data.draw(st.sampled_from(_CASES)))
    for _ in range(data.draw(st.integers(1, 2))):
        facts[data.draw(st.sampled_from(sorted(facts)))] = data.draw(_VALUES)
    try:
        model = config_json.model(facts, name="changed")
    except (InputError, SourceError):
        return
    assert model.layers >= 1
