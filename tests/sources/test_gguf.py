"""GGUF files: against llama.cpp's own writer, and against files that lie."""

import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import gguf as llama_cpp
import numpy as np
import pytest

from kvtui.errors import KvtuiError
from kvtui.session.answer import compose
from kvtui.sources import gguf
from kvtui.sources.gguf_file import TENSOR_TYPES, read_header
from kvtui.sources.request import Request, scenario
from kvtui.spec import FullAttention, LatentAttention, NoCache, RecurrentState, SlidingWindow

GIB = 2**30


def written(path: Path, arch: str, keys: dict[str, Any], *, vocabulary: int = 0) -> Path:
    """A file with these metadata keys, a vocabulary and two tensors, by llama.cpp's writer."""
    writer = llama_cpp.GGUFWriter(path, arch)
    for key, value in keys.items():
        name = f"{arch}.{key}"
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        else:
            writer.add_uint32(name, value)
    if vocabulary:
        writer.add_array("tokenizer.ggml.tokens", [f"token-{one}" for one in range(vocabulary)])
    writer.add_tensor("token_embd.weight", np.zeros((10, 64), dtype=np.float32))
    writer.add_tensor("blk.0.attn_q.weight", np.zeros((64, 64), dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


LLAMA = {
    "block_count": 32, "context_length": 131072, "embedding_length": 4096,
    "attention.head_count": 32, "attention.head_count_kv": 8,
}  # fmt: skip


def test_a_dense_model(tmp_path: Path) -> None:
    """Heads, widths, context and the bytes of the tensor table are read off the file."""
    model = gguf.read(written(tmp_path / "m.gguf", "llama", LLAMA, vocabulary=5000))
    assert model.groups == (
        FullAttention(layers=32, q_heads=32, kv_heads=8, k_width=128, v_width=128),
    )
    assert model.trained_context == 131072
    assert model.stored_weights_bytes == 10 * 64 * 4 + 64 * 64 * 2


def test_declared_widths_win_over_embedding_through_heads(tmp_path: Path) -> None:
    """key_length and value_length are used where they are given."""
    keys = {**LLAMA, "attention.key_length": 192, "attention.value_length": 64}
    (group,) = gguf.read(written(tmp_path / "m.gguf", "llama", keys)).groups
    assert isinstance(group, FullAttention)
    assert (group.k_width, group.v_width) == (192, 64)


def test_heads_of_each_layer_are_not_averaged(tmp_path: Path) -> None:
    """A list of KV heads is one figure a layer; a zero is a layer without a cache."""
    keys = {**LLAMA, "block_count": 4, "attention.head_count_kv": [8, 0, 8, 4]}
    groups = gguf.read(written(tmp_path / "m.gguf", "llama", keys)).groups
    assert [(type(one), one.layers) for one in groups] == [
        (FullAttention, 2), (NoCache, 1), (FullAttention, 1),
    ]  # fmt: skip


def test_handed_case_sz_13(tmp_path: Path) -> None:
    """gpt-oss at 131,072 tokens takes 3.0 GiB with its windows, not 6."""
    keys = {
        "block_count": 24, "embedding_length": 2880, "attention.head_count": 64,
        "attention.head_count_kv": 8, "attention.key_length": 64, "attention.value_length": 64,
        "attention.sliding_window": 128,
    }  # fmt: skip
    path = written(tmp_path / "m.gguf", "gpt-oss", keys)
    found = compose(scenario(Request(model=str(path), context="131072", dtype="f16")))
    assert found.payload.bytes == 3_224_371_200
    unknown = written(tmp_path / "u.gguf", "unheard-of", keys)
    found = compose(scenario(Request(model=str(unknown), context="131072", dtype="f16")))
    assert found.payload.bytes == 6 * GIB
    assert any("window was not applied" in warning for warning in found.warnings)


def test_a_pattern_of_the_files_own(tmp_path: Path) -> None:
    """A list of flags says which layers slide, whatever the family's habit."""
    keys = {
        **LLAMA, "block_count": 3, "attention.sliding_window": 256,
        "attention.sliding_window_pattern": [True, False, True],
    }  # fmt: skip
    groups = gguf.read(written(tmp_path / "m.gguf", "gemma3", keys)).groups
    assert [(type(one), one.layers) for one in groups] == [(SlidingWindow, 2), (FullAttention, 1)]


def test_a_latent_cache_has_one_copy(tmp_path: Path) -> None:
    """MLA keys give the latent, and the multi-token-prediction layer is left out."""
    keys = {
        "block_count": 62, "embedding_length": 7168, "attention.head_count": 128,
        "attention.head_count_kv": 1, "attention.kv_lora_rank": 512, "rope.dimension_count": 64,
        "nextn_predict_layers": 1,
    }  # fmt: skip
    path = written(tmp_path / "m.gguf", "deepseek2", keys)
    (group,) = gguf.read(path).groups
    assert isinstance(group, LatentAttention)
    assert group.layers == 61
    found = compose(scenario(Request(model=str(path), context="1")))
    assert found.payload.bytes == 70_272


def test_recurrent_layers_keep_f32_state(tmp_path: Path) -> None:
    """Layers without KV heads in a file with ssm keys hold a constant f32 state."""
    keys = {
        **LLAMA, "block_count": 2, "attention.head_count_kv": [0, 8], "ssm.inner_size": 8192,
        "ssm.state_size": 16, "ssm.conv_kernel": 4,
    }  # fmt: skip
    first, second = gguf.read(written(tmp_path / "m.gguf", "jamba", keys)).groups
    assert isinstance(first, RecurrentState)
    assert isinstance(second, FullAttention)
    found = compose(scenario(Request(model=str(tmp_path / "m.gguf"), context="1", batch="1")))
    assert found.payload.state_bytes == (3 * 8192 + 16 * 8192) * 4


def test_tensor_types_are_llama_cpps() -> None:
    """Every type's block is the one that llama.cpp's own package states."""
    for number, (name, values, size) in TENSOR_TYPES.items():
        kind = llama_cpp.GGMLQuantizationType(number)
        assert (kind.name, *llama_cpp.GGML_QUANT_SIZES[kind]) == (name, values, size)


def test_a_real_vocabulary_is_stepped_over_quickly(tmp_path: Path) -> None:
    """A quarter of a million tokens cost a fraction of a second and little memory."""
    path = written(tmp_path / "m.gguf", "llama", LLAMA, vocabulary=250_000)
    tracemalloc.start()
    began = time.perf_counter()
    header = read_header(path)
    assert time.perf_counter() - began < 2.0
    assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    tracemalloc.stop()
    assert header.metadata["tokenizer.ggml.tokens"] is None


def raw(*, tensors: int = 0, pairs: int = 0, body: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + body


def text(value: bytes, *, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(value) if length is None else length) + value


ARCH = text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
HOSTILE = {
    "empty": b"",
    "another magic": b"GGML" + bytes(60),
    "big-endian": raw(version=3 << 24, body=bytes(60)),
    "2^60 tensors": raw(tensors=2**60, body=bytes(60)),
    "2^60 pairs": raw(pairs=2**60, body=bytes(60)),
    "a text of 10 GB": raw(
        pairs=1, body=text(b"general.name") + struct.pack("<I", 8) + text(b"x", length=10**10)
    ),
    "a name of 10 GB": raw(pairs=1, body=text(b"x", length=10**10) + bytes(60)),
    "an array of 2^62": raw(
        pairs=1, body=text(b"a") + struct.pack("<IIQ", 9, 8, 2**62) + bytes(60)
    ),
    "arrays in arrays": raw(
        pairs=1, body=text(b"a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 200
    ),
    "an unknown value type": raw(pairs=1, body=text(b"a") + struct.pack("<I", 77) + bytes(60)),
    "cut short": raw(pairs=2, body=ARCH),
    "no architecture": raw(body=bytes(60)),
    "an unknown tensor type": raw(
        tensors=1, pairs=1, body=ARCH + text(b"w") + struct.pack("<IQIQ", 1, 32, 200, 0)
    ),
    "a tensor of 2^63 values": raw(
        tensors=1,
        pairs=1,
        body=ARCH + text(b"w") + struct.pack("<IQQIQ", 2, 2**40, 2**40, 0, 0),
    ),
    "too many dimensions": raw(
        tensors=1, pairs=1, body=ARCH + text(b"w") + struct.pack("<I", 2**31) + bytes(60)
    ),
    "no layers": raw(pairs=1, body=ARCH + bytes(24)),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_end_in_a_sentence(case: str, tmp_path: Path) -> None:
    """A file that lies is refused in a sentence, at once and without using memory."""
    path = tmp_path / "m.gguf"
    path.write_bytes(HOSTILE[case])
    tracemalloc.start()
    began = time.perf_counter()
    with pytest.raises(KvtuiError) as caught:
        gguf.read(path)
    assert time.perf_counter() - began < 1.0
    assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    tracemalloc.stop()
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_every_truncation_is_refused_or_read(tmp_path: Path) -> None:
    """Cut within its header a file is refused; cut in its data it reads the same."""
    whole_path = written(tmp_path / "m.gguf", "llama", LLAMA, vocabulary=20)
    expected, whole = gguf.read(whole_path), whole_path.read_bytes()
    path = tmp_path / "cut.gguf"
    codes = set()
    for length in range(0, min(len(whole), 1500), 7):
        path.write_bytes(whole[:length])
        try:
            found = gguf.read(path)
        except KvtuiError as error:
            codes.add(error.exit_code)
        else:
            assert found.groups == expected.groups
    assert codes == {2}


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A folder, a loop of links and a missing path are sentences."""
    loop = tmp_path / "loop.gguf"
    loop.symlink_to(loop)
    folder = tmp_path / "folder.gguf"
    folder.mkdir()
    for path in (loop, folder, tmp_path / "missing.gguf"):
        with pytest.raises(KvtuiError):
            gguf.read(path)
