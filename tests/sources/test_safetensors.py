"""Folders of safetensors: exact bytes from headers, and headers that lie."""

import json
import os
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kvtui.errors import KvtuiError, SourceError
from kvtui.session.answer import compose
from kvtui.sources import safetensors
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
    "the same tensor twice": header(
        b'{"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},'
        b' "a": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}}',
        data=8,
    ),
    "an entry for the header": header(tensor("U8", [4], 0, 4), data=4),
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


def test_one_checkpoint_of_several_is_counted(folder: Path) -> None:
    """A folder with the same weights under two names counts one; its index says which."""
    one = header({"a": tensor("U8", [10], 0, 10)}, data=10)
    for name in ("consolidated", "model-00001-of-00001", "adapter_model"):
        (folder / f"{name}.safetensors").write_bytes(one)
    assert safetensors.weights_bytes(folder) == 10
    (folder / safetensors.INDEX).write_text(
        '{"metadata": {"total_size": 99}, "weight_map": {"a": "model-00001-of-00001.safetensors"}}'
    )
    assert safetensors.weights_bytes(folder) == 10
    (folder / "model-00001-of-00001.safetensors").unlink()
    assert safetensors.weights_bytes(folder) == 99


def test_a_checkpoint_with_files_missing_has_unknown_weights(folder: Path) -> None:
    """Half a checkpoint is not taken for the whole: the architecture's figure stays, and a note."""
    part = folder / "model-00001-of-00002.safetensors"
    part.write_bytes(header({"a": tensor("U8", [10], 0, 10)}, data=10))
    model = safetensors.read_folder(folder)
    assert model.stored_weights_bytes is None
    assert any("1 of 2" in warning for warning in model.warnings)


def test_a_large_header_is_read_in_little_memory(folder: Path) -> None:
    """Forty thousand tensors take less than 100 MiB and a second; a larger header is refused."""
    entries = {f"layers.{one}.weight": tensor("U8", [1], one, one + 1) for one in range(40_000)}
    (folder / "model.safetensors").write_bytes(header(entries, data=40_000))
    began = time.process_time()
    assert safetensors.weights_bytes(folder) == 40_000
    assert time.process_time() - began < 1.0
    tracemalloc.start()
    safetensors.weights_bytes(folder)
    assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    tracemalloc.stop()
    raw = b"{}" + b" " * (9 * 2**20)
    (folder / "model.safetensors").write_bytes(header(raw))
    with pytest.raises(SourceError, match="at most"):
        safetensors.weights_bytes(folder)


def test_what_is_no_file_is_refused(folder: Path) -> None:
    """A loop of links, a folder and a pipe in place of weights are sentences."""
    path = folder / "model.safetensors"
    path.symlink_to(path)
    with pytest.raises(SourceError, match="cannot be read"):
        safetensors.weights_bytes(folder)
    path.unlink()
    path.mkdir()
    with pytest.raises(SourceError, match="not a regular file"):
        safetensors.weights_bytes(folder)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(SourceError, match="not a regular file"):
        safetensors.weights_bytes(folder)
    with pytest.raises(SourceError, match="give the folder"):
        scenario(Request(model=str(path), context="8"))
