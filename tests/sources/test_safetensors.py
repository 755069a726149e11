"""Folders of safetensors, hub ids, and what --model stands for."""

import json
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kvtui.errors import KvtuiError, UnavailableError
from kvtui.session.answer import compose
from kvtui.sources import hub, safetensors
from kvtui.sources.request import Request, scenario

CONFIG = {
    "model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 2, "hidden_size": 512, "vocab_size": 1000, "intermediate_size": 1024,
    "head_dim": 64, "max_position_embeddings": 4096,
}  # fmt: skip


def header(entries: object, *, length: int | None = None, data: int = 0) -> bytes:
    raw = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + bytes(data)


def tensor(dtype: str, shape: list[int], start: int, stop: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_weights_are_the_bytes_of_the_headers(folder: Path) -> None:
    """Every file's tensors are added up, whatever their dtype; the budget uses that figure."""
    first = {"__metadata__": {"format": "pt"}, "a": tensor("BF16", [10, 10], 0, 200)}
    second = {"b": tensor("F8_E4M3", [7], 0, 7), "c": tensor("F32", [], 7, 11)}
    (folder / "model-1.safetensors").write_bytes(header(first, data=200))
    (folder / "model-2.safetensors").write_bytes(header(second, data=11))
    assert safetensors.weights_bytes(folder) == 211
    found = compose(scenario(Request(model=str(folder), context="8", memory="1GiB")))
    assert found.budget.weights_bytes == 211
    assert found.step.weight_read_bytes is not None


def test_a_folder_without_weights_is_its_config(folder: Path) -> None:
    """A folder with a config.json alone is sized, its weights from the architecture."""
    found = compose(scenario(Request(model=str(folder), context="8")))
    assert found.payload.bytes_per_token == 2 * 2 * 2 * 64 * 2


def test_an_index_alone_states_the_bytes(folder: Path) -> None:
    """Where only the index was fetched, its total is the weights' size."""
    index = folder / "model.safetensors.index.json"
    index.write_text('{"metadata": {"total_size": 4321}, "weight_map": {}}')
    assert safetensors.weights_bytes(folder) == 4321
    index.write_text('{"metadata": {"total_size": -1}}')
    with pytest.raises(KvtuiError, match="total_size is -1"):
        safetensors.weights_bytes(folder)


HOSTILE = {
    "short": b"\x01",
    "a header of 2^60": header(b"{}", length=2**60),
    "a header beyond the file": header(b"{}", length=10_000),
    "no JSON": header(b"{{{{"),
    "deep JSON": header(b"[" * 100_000),
    "a list": header([]),
    "no offsets": header({"a": {"dtype": "F32", "shape": [1]}}),
    "negative": header({"a": tensor("F32", [1], -4, 0)}, data=8),
    "NaN": header(b'{"a": {"dtype": "F32", "shape": [NaN], "data_offsets": [0, 4]}}', data=4),
    "unknown dtype": header({"a": tensor("F128", [1], 0, 16)}, data=16),
    "shape and offsets differ": header({"a": tensor("F32", [2], 0, 4)}, data=8),
    "outside of the file": header({"a": tensor("F32", [2], 0, 8)}, data=4),
    "overlapping": header({"a": tensor("F32", [2], 0, 8), "b": tensor("F32", [2], 4, 12)}, data=12),
    "2^60 values": header({"a": tensor("F32", [2**60, 2**60], 0, 4)}, data=4),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_headers_that_lie_are_refused(case: str, folder: Path) -> None:
    """A header that does not fit its file is one sentence with status 2."""
    (folder / "model.safetensors").write_bytes(HOSTILE[case])
    with pytest.raises(KvtuiError) as caught:
        safetensors.read_folder(folder)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_a_hub_id_without_the_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """owner/model without huggingface_hub is exit 3 and names the extra."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UnavailableError, match=r"kvtui\[hub\]") as caught:
        scenario(Request(model="owner/model", context="8"))
    assert caught.value.exit_code == 3


def test_a_hub_that_cannot_be_reached_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the library raises becomes one sentence."""

    def refuse(*_: object) -> str:
        raise ConnectionError("no route\nto host")

    library = ModuleType("huggingface_hub")
    library.hf_hub_download = refuse  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", library)
    with pytest.raises(UnavailableError, match="no route"):
        hub.read("owner/model")


def test_a_hub_id_is_its_config(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """With the library there, the fetched config.json is read like any other."""
    library = ModuleType("huggingface_hub")
    library.hf_hub_download = lambda *_: str(folder / "config.json")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", library)
    found = compose(scenario(Request(model="owner/model", context="8")))
    assert found.model == "owner/model"
    assert found.model_source == "hub: owner/model"
