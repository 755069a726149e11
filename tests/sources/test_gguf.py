"""GGUF files: against llama.cpp's own writer, and against files that lie."""

import os
import struct
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvtui.errors import KvtuiError, SourceError
from kvtui.session.answer import compose
from kvtui.sources import gguf
from kvtui.sources.gguf_file import TENSOR_TYPES, Skipped, read_header
from kvtui.sources.request import Request, scenario
from kvtui.spec import (
    ChunkedAttention,
    FullAttention,
    IndexedLatent,
    LatentAttention,
    LayerGroup,
    NoCache,
    RecurrentState,
    SharedCache,
    SlidingWindow,
)

llama_cpp = pytest.importorskip("gguf")

GIB = 2**30


def written(
    path: Path,
    arch: str,
    keys: dict[str, Any],
    *,
    vocabulary: int = 0,
    shared: dict[str, Any] | None = None,
) -> Path:
    """A file with these metadata keys, a vocabulary and two tensors, by llama.cpp's writer.

    ``shared`` keys stand in the file as they are, without the architecture before them.
    """
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
    for name, value in (shared or {}).items():
        if isinstance(value, str):
            writer.add_string(name, value)
        else:
            writer.add_uint16(name, value)
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


def kinds(groups: tuple[LayerGroup, ...]) -> list[tuple[str, int]]:
    return [(group.kind, group.layers) for group in groups]


@pytest.mark.parametrize(
    ("arch", "layers", "full"),
    [
        ("gpt-oss", 24, 12), ("gemma2", 42, 21), ("gemma3", 62, 10), ("cohere2", 32, 8),
        ("olmo2", 32, 8), ("smallthinker", 32, 8),
    ],
)  # fmt: skip
def test_the_familys_pattern_where_the_file_has_none(
    arch: str, layers: int, full: int, tmp_path: Path
) -> None:
    """Each family's habit says how many layers keep everything."""
    keys = {**LLAMA, "block_count": layers, "attention.sliding_window": 512}
    groups = gguf.read(written(tmp_path / "m.gguf", arch, keys)).groups
    assert sum(group.layers for group in groups if group.kind == "full") == full
    assert sum(group.layers for group in groups if group.kind == "window") == layers - full


def test_llama_4_attends_in_chunks(tmp_path: Path) -> None:
    """Three of four layers see their chunk of 8,192 tokens, which the file does not state."""
    chunked, full = gguf.read(written(tmp_path / "m.gguf", "llama4", LLAMA)).groups
    assert isinstance(chunked, ChunkedAttention)
    assert (chunked.layers, chunked.chunk, full.layers) == (24, 8192, 8)


def test_a_window_that_a_family_does_not_use_is_named(tmp_path: Path) -> None:
    """Phi-3 files carry a window that llama.cpp leaves out: full layers, and a warning."""
    keys = {**LLAMA, "attention.sliding_window": 2047}
    model = gguf.read(written(tmp_path / "m.gguf", "phi3", keys))
    assert kinds(model.groups) == [("full", 32)]
    assert "phi3.attention.sliding_window is 2047" in model.warnings[0]


def test_window_layers_have_heads_and_widths_of_their_own(tmp_path: Path) -> None:
    """Gemma 4: fewer and wider heads where everything is seen, and layers that share a cache."""
    keys = {
        **LLAMA, "block_count": 6, "attention.head_count": 8,
        "attention.head_count_kv": [8, 8, 2, 8, 8, 2],
        "attention.key_length": 512, "attention.value_length": 512,
        "attention.key_length_swa": 256, "attention.value_length_swa": 256,
        "attention.sliding_window": 1024, "attention.shared_kv_layers": 2,
        "attention.sliding_window_pattern": [True, True, False, True, True, False],
    }  # fmt: skip
    window, full, shared, wide = gguf.read(written(tmp_path / "m.gguf", "gemma4", keys)).groups
    assert isinstance(window, SlidingWindow)
    assert (window.layers, window.kv_heads, window.k_width) == (3, 8, 256)
    assert isinstance(full, FullAttention)
    assert (full.layers, full.kv_heads, full.k_width) == (1, 2, 512)
    assert isinstance(shared, SharedCache)
    assert shared.window == 1024
    assert isinstance(wide, SharedCache)
    assert wide.window is None


def test_a_sparse_indexer_keeps_a_key_beside_the_latent(tmp_path: Path) -> None:
    """MLA widths come from the keys made for them, and the indexer's from its own."""
    keys = {
        "block_count": 61, "embedding_length": 7168, "attention.head_count": 128,
        "attention.head_count_kv": 1, "attention.kv_lora_rank": 512, "rope.dimension_count": 64,
        "attention.key_length": 576, "attention.value_length": 512,
        "attention.key_length_mla": 192, "attention.value_length_mla": 128,
        "attention.indexer.key_length": 128, "attention.indexer.head_count": 64,
        "attention.indexer.top_k": 2048,
    }  # fmt: skip
    model = gguf.read(written(tmp_path / "m.gguf", "deepseek32", keys))
    assert model.groups == (
        IndexedLatent(
            layers=61, q_heads=128, kv_lora_rank=512, rope_dim=64, nope_dim=128, v_head_dim=128,
            index_width=128, index_heads=64, index_topk=2048,
        ),
    )  # fmt: skip
    assert not model.warnings


def test_an_old_file_of_a_latent_model_says_what_llama_cpp_does(tmp_path: Path) -> None:
    """Without the keys of a latent cache llama.cpp keeps whole heads: a warning names that."""
    keys = {
        "block_count": 61, "embedding_length": 7168, "attention.head_count": 128,
        "attention.head_count_kv": 128, "attention.kv_lora_rank": 512, "rope.dimension_count": 64,
        "attention.key_length": 192, "attention.value_length": 128,
    }  # fmt: skip
    model = gguf.read(written(tmp_path / "m.gguf", "deepseek2", keys))
    (group,) = model.groups
    assert isinstance(group, LatentAttention)
    assert (group.nope_dim, group.v_head_dim) == (128, 128)
    assert "all heads" in model.warnings[0]


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


def state(path: Path) -> tuple[int, list[tuple[str, int]]]:
    """Bytes of one sequence's state, and the kinds of layers."""
    found = compose(scenario(Request(model=str(path), context="1", batch="1")))
    return found.payload.state_bytes, kinds(gguf.read(path).groups)


def test_layers_without_heads_may_be_mlps(tmp_path: Path) -> None:
    """Nemotron-H: a layer without KV heads holds a state only where it has no MLP."""
    keys = {
        **LLAMA, "block_count": 4, "attention.head_count_kv": [0, 0, 8, 0],
        "feed_forward_length": [0, 12288, 0, 0], "ssm.inner_size": 8192, "ssm.state_size": 128,
        "ssm.conv_kernel": 4, "ssm.time_step_rank": 128, "ssm.group_count": 8,
    }  # fmt: skip
    size, found = state(written(tmp_path / "m.gguf", "nemotron_h", keys))
    assert found == [("recurrent", 2), ("none", 1), ("full", 1)]
    assert size == 2 * (3 * (8192 + 2 * 8 * 128) + 8192 * 128) * 4


def test_a_delta_net_attends_every_fourth_layer(tmp_path: Path) -> None:
    """Qwen3-Next: three states to one cache, also where no key says so."""
    keys = {
        **LLAMA, "block_count": 48, "ssm.inner_size": 4096, "ssm.state_size": 128,
        "ssm.conv_kernel": 4, "ssm.time_step_rank": 32, "ssm.group_count": 16,
    }  # fmt: skip
    size, found = state(written(tmp_path / "m.gguf", "qwen3next", keys))
    assert found == [("recurrent", 36), ("full", 12)]
    assert size == 36 * (3 * (4096 + 2 * 16 * 128) + 4096 * 128) * 4


def test_rwkv_and_short_convolutions(tmp_path: Path) -> None:
    """RWKV keeps token shifts and head matrices; LFM2 the last inputs of a convolution."""
    keys: dict[str, Any] = {
        "block_count": 24, "embedding_length": 2048, "attention.head_count": 0,
        "wkv.head_size": 64, "token_shift_count": 2,
    }  # fmt: skip
    size, found = state(written(tmp_path / "r.gguf", "rwkv7", keys))
    assert found == [("recurrent", 24)]
    assert size == 24 * (2 * 2048 + 2048 * 64) * 4
    keys = {
        **LLAMA, "block_count": 3, "embedding_length": 2048, "shortconv.l_cache": 3,
        "attention.head_count_kv": [0, 8, 0],
    }  # fmt: skip
    size, found = state(written(tmp_path / "l.gguf", "lfm2", keys))
    assert found == [("recurrent", 2), ("full", 1)]
    assert size == 2 * 2 * 2048 * 4


def test_both_parts_of_a_parallel_hybrid_are_counted(tmp_path: Path) -> None:
    """Falcon-H1 keeps K, V and a state in every layer, and the answer says how it lists them."""
    keys = {
        **LLAMA, "block_count": 2, "ssm.inner_size": 3072, "ssm.state_size": 256,
        "ssm.conv_kernel": 4, "ssm.time_step_rank": 24, "ssm.group_count": 1,
    }  # fmt: skip
    path = written(tmp_path / "m.gguf", "falcon-h1", keys)
    assert state(path)[1] == [("recurrent", 2), ("full", 2)]
    assert "2 layers of each" in gguf.read(path).warnings[0]


def test_an_encoder_keeps_nothing(tmp_path: Path) -> None:
    """Where attention is not causal there is no cache, and the answer says so."""
    keys = {**LLAMA, "attention.causal": False}
    path = written(tmp_path / "m.gguf", "bert", keys)
    found = compose(scenario(Request(model=str(path), context="512")))
    assert found.payload.bytes == 0
    assert any("not causal" in warning for warning in found.warnings)


def test_a_split_model_is_read_as_one(tmp_path: Path) -> None:
    """Geometry is in the first part, weights are in all; with parts missing they are unknown."""
    first, second = (tmp_path / f"m-{part:05}-of-00002.gguf" for part in (1, 2))
    written(first, "llama", LLAMA, shared={"split.no": 0, "split.count": 2})
    assert gguf.read(first).stored_weights_bytes is None
    assert "1 of the 2 parts" in gguf.read(first).warnings[0]
    written(second, "llama", {}, shared={"split.no": 1, "split.count": 2})
    for path in (first, second):
        model = gguf.read(path)
        assert model.layers == 32
        assert model.stored_weights_bytes == 2 * (10 * 64 * 4 + 64 * 64 * 2)
        assert not model.warnings
    with pytest.raises(SourceError, match="2 parts"):
        gguf.read(second.rename(tmp_path / "other.gguf"))


def test_stored_bytes_are_the_weights_of_the_budget(tmp_path: Path) -> None:
    """Typed weights win over the file's, the file's are split over ranks and read whole."""
    path = str(written(tmp_path / "m.gguf", "llama", LLAMA))
    asked = Request(model=path, context="8", memory="1GiB", tp="2")
    found = compose(scenario(asked))
    assert found.budget.weights_bytes == found.step.weight_read_bytes == 10_752 // 2
    typed = compose(scenario(replace(asked, weights="4KiB")))
    assert typed.budget.weights_bytes == 2048
    drafted = compose(scenario(replace(asked, draft=path)))
    assert drafted.budget.weights_bytes == 2 * (10_752 // 2)


def test_a_name_from_a_file_is_one_line(tmp_path: Path) -> None:
    """Escape sequences and line breaks of a file's name never reach the terminal."""
    path = written(tmp_path / "m.gguf", "llama", LLAMA)
    raw_bytes = path.read_bytes()
    assert gguf.read(path).name == "m"
    named = text(b"general.name") + struct.pack("<I", 8) + text(b"a\x1b[31m\nb")
    pairs = struct.unpack_from("<Q", raw_bytes, 16)[0]
    head = raw_bytes[:16] + struct.pack("<Q", pairs + 1) + named
    pad = bytes(-len(named) % 32)
    body = raw_bytes[24:]
    path.write_bytes(head + body + pad + bytes(64))
    assert gguf.read(path).name == "a[31mb"


def test_a_file_of_another_name_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    """A blob without an ending is read as the GGUF file it is."""
    blob = written(tmp_path / "m.gguf", "llama", LLAMA).rename(tmp_path / "sha256-0123")
    assert scenario(Request(model=str(blob), context="8")).model.layers == 32


def test_tensor_types_are_llama_cpps() -> None:
    """Every type's block is the one that llama.cpp's own package states."""
    for number, (name, values, size) in TENSOR_TYPES.items():
        kind = llama_cpp.GGMLQuantizationType(number)
        assert (kind.name, *llama_cpp.GGML_QUANT_SIZES[kind]) == (name, values, size)


def test_a_real_vocabulary_is_stepped_over_quickly(tmp_path: Path) -> None:
    """A quarter of a million tokens cost a fraction of a second and little memory."""
    path = written(tmp_path / "m.gguf", "llama", LLAMA, vocabulary=250_000)
    began = time.process_time()
    read_header(path)
    assert time.process_time() - began < 1.0
    tracemalloc.start()
    header = read_header(path)
    assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    tracemalloc.stop()
    assert header.metadata["tokenizer.ggml.tokens"] == Skipped(250_000)


def raw(*, tensors: int = 0, pairs: int = 0, body: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + body


def text(value: bytes, *, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(value) if length is None else length) + value


ARCH = text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")


def key(name: bytes, kind: int, value: bytes) -> bytes:
    return text(b"llama." + name) + struct.pack("<I", kind) + value


def number(name: bytes, value: int) -> bytes:
    return key(name, 4, struct.pack("<I", value))


def tensor(name: bytes, offset: int) -> bytes:
    """A row of the table: four f32."""
    return text(name) + struct.pack("<IQIQ", 1, 4, 0, offset)


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
    "a key twice": raw(pairs=2, body=ARCH + ARCH),
    "an architecture of two lines": raw(
        pairs=1, body=text(b"general.architecture") + struct.pack("<I", 8) + text(b"a\nb")
    ),
    "NaN layers": raw(pairs=2, body=ARCH + key(b"block_count", 6, struct.pack("<f", float("nan")))),
    "minus one layer": raw(pairs=2, body=ARCH + key(b"block_count", 5, struct.pack("<i", -1))),
    "true layers": raw(pairs=2, body=ARCH + key(b"block_count", 7, b"\x01")),
    "layers as a list": raw(
        pairs=2, body=ARCH + key(b"block_count", 9, struct.pack("<IQI", 4, 1, 32))
    ),
    "more drafts than layers": raw(
        pairs=3, body=ARCH + number(b"block_count", 2) + number(b"nextn_predict_layers", 2)
    ),
    "heads as texts": raw(
        pairs=3,
        body=ARCH
        + number(b"block_count", 1)
        + key(b"attention.head_count", 9, struct.pack("<IQ", 8, 1) + text(b"8")),
    ),
    "heads in a long list": raw(
        pairs=3,
        body=ARCH
        + number(b"block_count", 1)
        + key(b"attention.head_count", 9, struct.pack("<IQ", 4, 5000) + bytes(20_000)),
    ),
    "a NaN pattern": raw(
        pairs=4,
        body=ARCH
        + number(b"block_count", 1)
        + number(b"attention.sliding_window", 8)
        + key(b"attention.sliding_window_pattern", 9, struct.pack("<IQf", 6, 1, float("nan"))),
    ),
    "two tensors of one name": raw(
        tensors=2, pairs=1, body=ARCH + tensor(b"w", 0) + tensor(b"w", 32) + bytes(256)
    ),
    "tensors in one another": raw(
        tensors=2, pairs=1, body=ARCH + tensor(b"v", 0) + tensor(b"w", 8) + bytes(256)
    ),
    "a tensor behind the end": raw(tensors=1, pairs=1, body=ARCH + tensor(b"w", 2**40)),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_end_in_a_sentence(case: str, tmp_path: Path) -> None:
    """A file that lies is refused in a sentence, at once and without using memory."""
    path = tmp_path / "m.gguf"
    path.write_bytes(HOSTILE[case])
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(KvtuiError) as caught:
        gguf.read(path)
    assert time.process_time() - began < 1.0
    assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    tracemalloc.stop()
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


SPARSE = {
    "tensors": raw(tensors=2**28),
    "metadata": raw(pairs=2**28),
    "texts": raw(pairs=1, body=text(b"a") + struct.pack("<IIQ", 9, 8, 2**30)),
    "inner arrays": raw(pairs=1, body=text(b"a") + struct.pack("<IIQ", 9, 9, 2**22)),
    "a long text": raw(
        pairs=1, body=text(b"a") + struct.pack("<I", 8) + struct.pack("<Q", 10**10)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SPARSE)
def test_claims_that_a_sparse_file_has_room_for(case: str, tmp_path: Path) -> None:
    """Claims of gigabytes are refused as quickly where the file is as large as they say."""
    path = tmp_path / "m.gguf"
    path.write_bytes(SPARSE[case])
    with path.open("r+b") as file:
        file.truncate(12 * 10**9)
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(KvtuiError):
        gguf.read(path)
    assert time.process_time() - began < 1.0
    assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    tracemalloc.stop()


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    """Cut in its header or in its tensors, a file is refused in a sentence."""
    whole_path = written(tmp_path / "m.gguf", "llama", LLAMA, vocabulary=20)
    whole = whole_path.read_bytes()
    path = tmp_path / "cut.gguf"
    for length in (*range(0, 1500, 7), *range(1500, len(whole) - 32, 499)):
        path.write_bytes(whole[:length])
        with pytest.raises(SourceError) as caught:
            gguf.read(path)
        assert caught.value.exit_code == 2
    assert "was cut short" in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A folder, a pipe, a loop of links and a missing path are sentences."""
    loop = tmp_path / "loop.gguf"
    loop.symlink_to(loop)
    folder = tmp_path / "folder.gguf"
    folder.mkdir()
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    for path in (loop, folder, pipe, tmp_path / "missing.gguf", tmp_path / "a\0.gguf"):
        with pytest.raises(SourceError):
            gguf.read(path)
