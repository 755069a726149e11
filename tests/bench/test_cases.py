"""Every case on tiny shapes: outputs right, bytes algorithmic, waste declared."""

import os

import pytest
import torch

from kvtui.bench.case import Candidate, Case, Group, Setup
from kvtui.bench.cases import CASES, chosen
from kvtui.bench.reference import compared
from kvtui.bench.tensors import filled_caches, full_group
from kvtui.engine.attention import backends
from kvtui.engine.caches.paged import PagedCache
from kvtui.errors import InputError
from tests.bench.small import CPU, small_setup

HERE = [case for case in CASES if case.only in ("", "cpu")]


def groups(case: Case, setup: Setup) -> list[Group]:
    with torch.inference_mode():
        return list(case.groups(setup))


def named(name: str, setup: Setup) -> dict[str, Candidate]:
    (case,) = chosen(name)
    return {one.name: one for group in groups(case, setup) for one in group.candidates}


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("case", HERE, ids=lambda case: str(case.name))
def test_every_candidate_gives_what_dense_attention_gives(case: Case, dtype: str) -> None:
    """Outputs agree with the fp32 reference before and after sweeps that leave no trace."""
    setup = small_setup(threads=min(2, os.cpu_count() or 1), dtype=dtype)
    found = groups(case, setup)
    assert found
    with torch.inference_mode(), backends(CPU):
        for group in found:
            for one in group.candidates:
                for _ in range(2):
                    one.sweep()
                if one.check is not None:
                    verdict = compared(one.check)
                    assert verdict.right, (one.name, verdict)


@pytest.mark.parametrize("name", ["tp-slice", "paged", "quant", "mla"])
def test_what_a_gpu_gets_is_right_as_well(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The candidates that only a GPU gets give what dense attention gives, in 16 bits."""
    monkeypatch.setattr(Setup, "on_cuda", True)
    (case,) = chosen(name)
    with torch.inference_mode():
        made = [
            one for group in groups(case, small_setup(dtype="bf16")) for one in group.candidates
        ]
        for one in made:
            assert one.check is not None
            verdict = compared(one.check)
            assert verdict.right, (one.name, verdict)
    if name == "mla":
        assert {one.name for one in made} == {"absorbed-16", "absorbed-128"}
    if name == "quant":
        assert "fp8" in {one.name for one in made}


@pytest.mark.parametrize("name", ["gqa-long", "tp-slice", "paged", "quant", "kernel"])
def test_the_cpu_kernel_is_raced_where_there_is_one(name: str) -> None:
    """With numba the kernel is a candidate, right, and named by its own counter."""
    pytest.importorskip("numba")
    made = named(name, small_setup(kernel=True))
    kernels = [one for label, one in made.items() if label.startswith("kernel")]
    assert kernels
    with torch.inference_mode():
        for one in kernels:
            assert one.check is not None
            assert compared(one.check).right
            assert one.kernel is not None
            assert "cpu_decode" in (one.kernel() or "")


@pytest.mark.parametrize("name", ["gqa-long", "tp-slice", "paged", "quant", "kernel"])
def test_a_missing_kernel_is_skipped_with_its_reason(name: str) -> None:
    """Without numba the other candidates run, and why there is no kernel is told."""
    (case,) = chosen(name)
    skipped = [one for group in groups(case, small_setup()) for one in group.skipped]
    assert "It was not asked for." in {one.reason for one in skipped}


def test_waste_keeps_the_same_bytes_and_is_declared() -> None:
    """A masked or repeated cache counts what is needed, so that waste is low bandwidth."""
    masked = named("mask-vs-slice", small_setup())
    assert masked["mask"].bytes == masked["slice"].bytes
    assert masked["mask"].read_tokens == 8 * masked["slice"].shape.tokens  # type: ignore[union-attr]
    assert masked["slice"].read_tokens is None
    repeated = named("repeat-vs-fold", small_setup())
    assert repeated["repeat_kv"].bytes == repeated["fold"].bytes
    assert repeated["repeat_kv"].copies
    assert not repeated["fold"].copies


def test_bytes_are_entries_once_and_the_append() -> None:
    """2 Hkv D s (T + 1) a layer and sequence: T tokens read, one written."""
    made = named("l2-control", small_setup())["contiguous"]
    shape = made.shape
    assert shape is not None
    assert made.bytes == 2 * shape.kv_heads * 128 * 4 * (shape.tokens + 1)


def test_a_latent_row_counts_once() -> None:
    """K and V of MLA are one row of 576 values, read once and appended once."""
    made = named("mla", small_setup())["absorbed-16"]
    assert made.shape is not None
    assert made.bytes == 576 * 4 * (made.shape.tokens + 1) * made.shape.layers
    assert made.shape.flops / made.bytes == pytest.approx(2 * 16 * (2 * 512 + 64) / 2304, rel=0.02)


def test_a_window_is_flat_in_length() -> None:
    """However long the sequence, a window's step reads the window."""
    made = named("window", small_setup())
    lengths = {one.shape.tokens for one in made.values() if one.shape}
    assert len(lengths) > 1
    assert len({one.bytes for one in made.values()}) == 1


def test_blocks_are_shuffled_and_unique() -> None:
    """A paged candidate's blocks are all different and not in order."""
    setup = small_setup()
    shape = named("paged", setup)["paged-16"].shape
    assert shape is not None
    (cache,) = filled_caches(setup, shape, full_group(shape), dtype="fp32", cache="paged", block=4)
    assert isinstance(cache, PagedCache)
    ids = cache.table.ids(0)
    assert len(set(ids)) == len(ids) > 2
    assert ids != sorted(ids)


def test_layers_hold_the_same_random_data_at_addresses_of_their_own() -> None:
    """No layer is zeros, no row repeats, and every layer is read from its own memory."""
    setup = small_setup()
    shape = named("gqa-long", setup)["contiguous"].shape
    assert shape is not None
    two = filled_caches(
        setup,
        type(shape)(**{**{name: getattr(shape, name) for name in shape.__slots__}, "layers": 2}),
        full_group(shape),
        dtype="fp32",
    )
    first, second = two[0].tensors[0], two[1].tensors[0]
    assert first.data_ptr() != second.data_ptr()
    assert torch.equal(first, second)
    rows = first[0].reshape(-1, first.shape[-1])
    assert len(rows.unique(dim=0)) == len(rows)
    assert float(rows.std()) == pytest.approx(1.0, abs=0.1)


def test_the_timed_run_and_the_bare_loop_stand_at_the_same_length() -> None:
    """Instrumentation is paired on one decoder; a run that ends begins again."""
    made = named("instrumentation", small_setup())
    timed, bare = made["timed"], made["bare"]
    assert timed.done is not None
    assert bare.done is not None
    with torch.inference_mode():
        before = timed.done()
        for taken in range(1030):
            timed.sweep()
            if taken in (0, 1022, 1023, 1024):
                bare.sweep()
            assert timed.done() == before + taken + 1
        assert bare.done() == 4


def test_all_but_the_soak_run_unasked() -> None:
    """The soak takes a minute and runs only when named."""
    assert "soak" not in [case.name for case in chosen(None)]
    assert [case.name for case in chosen("soak")] == ["soak"]
    assert [case.name for case in chosen("paged, probe")] == ["probe", "paged"]


@pytest.mark.parametrize("names", ["nonsense", "probe,nonsense", "", ","])
def test_a_case_that_is_none_is_named_beside_those_that_are(names: str) -> None:
    """The sentence holds the bad name and the choices."""
    with pytest.raises(InputError, match=r"cases is .*probe, gqa-long"):
        chosen(names)


def test_shapes_shrink_to_what_is_allowed() -> None:
    """Layers go first, then sequences, then tokens; never below one of each."""
    shape = named("gqa-batch", small_setup())["contiguous"].shape
    assert shape is not None
    full = type(shape)(
        layers=32, batch=64, q_heads=32, kv_heads=8, k_width=128, v_width=128, tokens=4096
    )
    token = 2 * 8 * 128 * 2
    assert full.fitted(token, 2**40) == full
    assert full.fitted(token, 8 * 2**30).layers == 8
    assert full.fitted(token, 2**30).batch == 64
    assert (full.fitted(token, 2**29).batch, full.fitted(token, 2**29).layers) == (32, 1)
    tiny = full.fitted(token, 2**20)
    assert (tiny.layers, tiny.batch, tiny.tokens) == (1, 1, 256)
    assert full.fitted(token, 1).tokens == 2
