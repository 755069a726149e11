"""The CPU decode kernel against the dense reference, in every shape it takes."""

from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtui.decode_run import KERNEL_BACKEND, DecodeRun
from kvtui.engine.attention import dense_attention
from kvtui.engine.caches import layer_cache
from kvtui.engine.caches.paged import DeviceTable
from kvtui.engine.caches.quantised import QuantisedCache
from kvtui.engine.compute import Compute
from kvtui.engine.control import Control
from kvtui.engine.kernels.compilation import Compilation
from kvtui.engine.kernels.rows import contiguous_rows
from kvtui.engine.pages import BlockTable
from kvtui.engine.run import Run
from kvtui.spec import FullAttention

if TYPE_CHECKING:
    from kvtui.engine.kernels.cpu import CpuKernel

CPU = torch.device("cpu")


def close(out: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal to fp32 rounding."""
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-6)


def loaded(threads: int) -> "CpuKernel":
    """The kernel, compiled here if it is not on disk."""
    made = Compilation().load(threads)
    assert made is not None
    return made


@pytest.fixture(scope="module")
def kernel() -> "CpuKernel":
    return loaded(1)


@pytest.fixture(scope="module")
def pair() -> "CpuKernel":
    return loaded(2)


def drawn(*shape: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 3),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 9),
    width=st.integers(1, 12).map(lambda n: 8 * n),
    tokens=st.integers(1, 300),
    hint=st.integers(0, 3),
)
def test_any_group_and_any_width_of_eight_equal_the_reference(
    batch: int, kv_heads: int, group: int, width: int, tokens: int, hint: int
) -> None:
    """fp32 answers are those of dense attention for every g, D, T and prefetch hint."""
    from kvtui.engine.kernels.cpu import CpuKernel

    q = drawn(batch, kv_heads * group, 1, width)
    k, v = drawn(batch, kv_heads, 300, width, seed=4), drawn(batch, kv_heads, 300, width, seed=5)
    out = CpuKernel(hint=hint).attend(q, contiguous_rows(k, v, torch.full((batch,), tokens)))
    close(out, dense_attention(q, k[:, :, :tokens], v[:, :, :tokens]))


@pytest.mark.parametrize("group", [1, 4])
def test_bf16_is_read_as_it_is_stored(kernel: "CpuKernel", group: int) -> None:
    """Over bf16 the answer is that of the same bf16 values in fp32."""
    q = drawn(2, 2 * group, 1, 64)
    k, v = (drawn(2, 2, 200, 64, seed=seed).bfloat16() for seed in (4, 5))
    out = kernel.attend(q, contiguous_rows(k, v, torch.tensor([200, 200])))
    close(out, dense_attention(q, k, v))


@pytest.mark.parametrize("dtype", ["int8", "int8-channel"])
def test_int8_equals_attention_over_what_is_stored(kernel: "CpuKernel", dtype: str) -> None:
    """Scales a row, and scales a channel folded into q and the output, change nothing."""
    cache = QuantisedCache(2, 2, 150, 64, 64, dtype=dtype, device=CPU)
    k, v, q = drawn(2, 2, 150, 64), drawn(2, 2, 150, 64, seed=4), drawn(2, 10, 1, 64, seed=5)
    cache.fill(slice(0, 2), 0, k, v)
    cache.filled(150)
    entered = kernel.entries
    out = cache.attend(q, compute=Compute(kernel=kernel))
    assert kernel.entries == entered + 1
    torch.testing.assert_close(out, dense_attention(q, *cache.views()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("block", [1, 3, 16, 100])
def test_pages_are_followed_by_their_table(kernel: "CpuKernel", block: int) -> None:
    """Blocks of any size in shuffled order give what contiguous rows give."""
    run = DecodeRun(
        groups=(FullAttention(layers=1, q_heads=8, kv_heads=2, k_width=16, v_width=16),),
        batch=2, start=90, target=130, cache="paged", block=block,
    )  # fmt: skip
    table = DeviceTable(BlockTable(2, 2 * -(-130 // block), block, seed=3), CPU)
    cache = layer_cache(run.groups[0], run, torch.float32, CPU, table)
    k, v, q = drawn(2, 2, 130, 16), drawn(2, 2, 130, 16, seed=4), drawn(2, 8, 1, 16, seed=5)
    cache.fill(slice(0, 2), 0, k[:, :, :90], v[:, :, :90])
    cache.filled(90)
    for token in range(90, 130):
        cache.append(k[:, :, token : token + 1], v[:, :, token : token + 1])
        out = cache.attend(q, compute=Compute(kernel=kernel))
        expected = dense_attention(q, k[:, :, : token + 1], v[:, :, : token + 1])
        close(out, expected)


def test_one_head_is_cut_for_two_threads(pair: "CpuKernel") -> None:
    """With fewer heads than threads the keys are divided and merged, sequences of any length."""
    q, k, v = drawn(1, 4, 1, 32), drawn(1, 1, 3000, 32, seed=4), drawn(1, 1, 3000, 32, seed=5)
    for tokens in (1, 511, 1024, 2999):
        out = pair.attend(q, contiguous_rows(k, v, torch.tensor([tokens])))
        expected = dense_attention(q, k[:, :, :tokens], v[:, :, :tokens])
        close(out, expected)


def test_each_sequence_has_its_own_length(pair: "CpuKernel") -> None:
    """Ragged lengths, a sequence without tokens among them, are attended to exactly."""
    q, k, v = drawn(4, 8, 1, 24), drawn(4, 2, 70, 24, seed=4), drawn(4, 2, 70, 24, seed=5)
    lengths = [70, 0, 1, 33]
    out = pair.attend(q, contiguous_rows(k, v, torch.tensor(lengths)))
    for row, tokens in enumerate(lengths):
        seen = k[row : row + 1, :, :tokens], v[row : row + 1, :, :tokens]
        torch.testing.assert_close(out[row : row + 1], dense_attention(q[row : row + 1], *seen))


def test_large_scores_do_not_overflow(kernel: "CpuKernel") -> None:
    """Scores of thousands leave a finite answer: the best key's value."""
    k = torch.zeros(1, 1, 100, 8)
    k[0, 0, 40, 0] = 3e4
    v = drawn(1, 1, 100, 8)
    q = torch.ones(1, 4, 1, 8)
    out = kernel.attend(q, contiguous_rows(k, v, torch.tensor([100])))
    torch.testing.assert_close(out[0, 0, 0], v[0, 0, 40])


def test_what_it_does_not_take_it_refuses(kernel: "CpuKernel") -> None:
    """fp16, widths that 8 does not divide and unequal widths are left to torch."""
    lengths = torch.tensor([4])
    for k_width, v_width, dtype in ((12, 12, torch.float32), (16, 8, torch.float32)):
        k, v = drawn(1, 1, 4, k_width).to(dtype), drawn(1, 1, 4, v_width).to(dtype)
        assert not kernel.takes(contiguous_rows(k, v, lengths))
    half = drawn(1, 1, 4, 16).half()
    assert not kernel.takes(contiguous_rows(half, half, lengths))


def test_a_run_names_the_kernel_it_entered(kernel: "CpuKernel") -> None:
    """Evidence is the kernel's own counter: once a layer and step."""
    group = FullAttention(layers=3, q_heads=8, kv_heads=2, k_width=16, v_width=16)
    run = Run(DecodeRun(groups=(group,), batch=1, start=8, target=12, device="cpu", threads=1))
    run.use(kernel)
    run.allocate()
    assert run.backend == f"{KERNEL_BACKEND} over fp32"
    assert run.prefill(Control(lambda paused: None)) is not None
    found = run.evidence()
    assert found.kernel is not None
    assert found.kernel.startswith("kvtui cpu_decode")
    assert "3 times" in found.method
    steps = list(run.steps(Control(lambda paused: None)))
    assert len(steps) == 4
    assert run.end[0] == "target"


def test_small_caches_and_other_formats_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that a core keeps to itself, fp16 and MLA ask for no kernel; insisting does."""
    group = FullAttention(layers=1, q_heads=8, kv_heads=8, k_width=64, v_width=64)

    def wants(**changed: object) -> bool:
        fields = {"batch": 1, "start": 8, "target": 64, "device": "cpu", "threads": 1, **changed}
        return Run(DecodeRun(groups=(group,), **fields)).wants_kernel  # type: ignore[arg-type]

    assert not wants()
    assert wants(backend="kernel")
    assert wants(target=4096)
    assert not wants(target=4096, dtype="fp16")
    assert not wants(target=4096, backend="torch")
    assert not wants(target=4096, cache="offload")


def test_without_numba_torch_runs_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing numba is a reason in words and no failure."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    missing = Compilation()
    missing.begin()
    assert not missing.ready()
    assert missing.load(1) is None
    assert "pip install" in missing.why
