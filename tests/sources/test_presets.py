"""Presets are found by name, complete with their sources, and read one at a time."""

import re
import tomllib
from pathlib import Path

import pytest

from kvtui.errors import InputError, SourceError
from kvtui.sources import config_json, presets
from kvtui.units import MIB

FIGURES = {"memory": "bytes", "bandwidth": "bytes_per_s", "flops": "per_s"}


def _devices() -> dict[str, dict[str, object]]:
    return tomllib.loads((presets.shipped_folder() / "devices.toml").read_text())


def test_every_model_of_the_measurements_is_a_preset_and_more() -> None:
    names = presets.model_names()
    assert len(names) == 98
    assert names == sorted(names)
    assert {"llama-3.1-8b", "command-r+", "deepseek-v4-flash", "kimi-k3"} <= set(names)


@pytest.mark.parametrize("name", presets.model_names())
def test_every_preset_parses_and_says_where_it_comes_from(name: str) -> None:
    facts = presets.model_facts(name)
    assert str(facts["name"]).lower() == name
    assert facts["confidence"] in ("verbatim", "derived")
    assert isinstance(facts["source"], str)
    assert not re.search(r"file id|stored|https?://|^/|huggingface\.co", facts["source"])
    model = config_json.model(facts, name=str(facts["name"]))
    assert model.layers >= 12
    assert model.source == facts["source"]


@pytest.mark.parametrize("name", ["Llama-3.1-8B", "llama-3.1-8b", " LLAMA-3.1-8B ", "llama_3.1_8b"])
def test_names_are_found_in_any_case(name: str) -> None:
    assert presets.model_facts(name)["name"] == "Llama-3.1-8B"


def test_a_name_that_is_nearly_right_is_answered_with_what_it_may_mean() -> None:
    with pytest.raises(
        SourceError, match=r"'lama-3\.1-8b': did you mean llama-3\.1-8b, .*lists all"
    ):
        presets.model_facts("lama-3.1-8b")
    with pytest.raises(SourceError, match="Unknown gpu 'h20': did you mean h200"):
        presets.device("h20")
    with pytest.raises(SourceError, match="Unknown workload 'suport-desk': did you mean"):
        presets.workload_table("suport-desk")


@pytest.mark.parametrize("name", ["", "../models/llama-3.1-8b", "/etc/passwd", "a\0b", "x" * 5000])
def test_a_name_is_never_a_path(name: str) -> None:
    with pytest.raises(SourceError) as caught:
        presets.model_facts(name)
    assert len(str(caught.value)) < 200


def test_a_preset_of_the_users_wins_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "kvtui" / "models"
    own.mkdir(parents=True)
    (own / "Llama-3.1-8B.json").write_text('{"name": "mine"}')
    (own / "another.json").write_text("{}")
    assert presets.model_facts("llama-3.1-8b") == {"name": "mine"}
    assert "another" in presets.model_names()
    assert len(presets.model_names()) == 99


def test_devices_and_workloads_of_the_users_win_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "kvtui"
    (own / "workloads").mkdir(parents=True)
    (own / "devices.toml").write_text('[h200]\ntitle = "ours"\nmemory = { bytes = 5 }\n')
    (own / "workloads" / "tutorial.toml").write_text("layers = 1\n")
    device = presets.device("H200")
    assert (device.name, device.memory_bytes, device.flop_per_s) == ("ours", 5, None)
    assert presets.device("h100").memory_bytes == 81559 * MIB
    assert presets.workload_table("tutorial") == {"layers": 1}


def test_a_broken_preset_of_the_users_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "kvtui"
    (own / "models").mkdir(parents=True)
    (own / "models" / "bad.json").write_text("{")
    (own / "models" / "list.json").write_text("[]")
    with pytest.raises(SourceError, match=r"bad\.json is not valid JSON"):
        presets.model_facts("bad")
    with pytest.raises(SourceError, match=r"list\.json is not a JSON object"):
        presets.model_facts("list")
    (own / "devices.toml").write_text("[h200]\nmemory = { bytes = -1 }\n")
    with pytest.raises(InputError, match="memory of device h200 is -1"):
        presets.device("h200")
    (own / "devices.toml").write_text("h200 = 3\n")
    with pytest.raises(SourceError, match="outside a table"):
        presets.device_names()
    (own / "devices.toml").write_text("[")
    with pytest.raises(SourceError, match="not valid TOML"):
        presets.device_names()


def test_there_are_at_least_ten_devices() -> None:
    assert len(presets.device_names()) >= 10


@pytest.mark.parametrize("name", _devices())
def test_every_figure_of_a_device_has_its_source_and_confidence(name: str) -> None:
    fields = _devices()[name]
    assert fields["marketing"]
    assert fields["nvml"]
    for part, unit in FIGURES.items():
        figure = fields.get(part)
        if part == "flops" and figure is None:
            continue
        assert isinstance(figure, dict)
        assert figure[unit] > 0
        assert figure["source"]
        assert figure["confidence"] in ("verbatim", "datasheet", "derived")
    assert fields["memory"]["counted"] in ("NVML", "rocm-smi", "marketing")  # type: ignore[index]


def test_memory_is_what_nvml_reports_and_the_box_is_quoted_beside_it() -> None:
    device = presets.device("h200")
    assert device.memory_bytes == 143_771 * MIB
    assert "sold as 141 GB" in device.source
    assert device.bandwidth_bytes_per_s == 4.8e12
    assert device.flop_per_s == 989e12


@pytest.mark.parametrize(
    ("alias", "title"),
    [("H100", "H100 SXM"), ("a100", "A100 80 GB SXM"), ("RTX 4090", "GeForce RTX 4090")],
)
def test_devices_are_found_by_the_names_people_use(alias: str, title: str) -> None:
    assert presets.device(alias).name == title


def test_no_two_devices_answer_to_one_name() -> None:
    names = [one for key, fields in _devices().items() for one in (key, *fields["aliases"])]  # type: ignore[misc]
    assert len(names) == len(set(names))


def test_a_board_is_known_by_nvml_name_and_memory() -> None:
    name = "NVIDIA GeForce RTX 3080"
    small = presets.device_by_nvml_name(name, 10240 * MIB)
    large = presets.device_by_nvml_name(name, 20470 * MIB)
    assert small is not None
    assert large is not None
    assert (small.name, large.name) == ("GeForce RTX 3080 10 GB", "GeForce RTX 3080 20 GB")
    assert presets.device_by_nvml_name(name, None) is None
    assert presets.device_by_nvml_name("NVIDIA H200", None) == presets.device("h200")


def test_a_slice_of_a_board_or_an_unknown_one_is_not_taken_for_a_preset() -> None:
    assert presets.device_by_nvml_name("NVIDIA H200", 18 * 2**30) is None
    assert presets.device_by_nvml_name("NVIDIA H300", 143771 * MIB) is None


def test_workloads_and_tables_are_read_by_name() -> None:
    assert {"tutorial", "support-desk"} <= set(presets.workload_names())
    for name in presets.workload_names():
        assert presets.workload_table(name)["source"]
    assert set(presets.table("budget")) == {"gpu", "host"}
    with pytest.raises(SourceError, match=r"nothing\.toml is missing"):
        presets.table("nothing")
