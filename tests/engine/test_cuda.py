"""What only a CUDA device can show."""

import pytest
import torch

from kvtui.check.proofs import KINDS, equality, quantised_error, small_run
from kvtui.decode_run import CacheName, DecodeRun
from kvtui.engine import limits, memory
from kvtui.engine.attention import backends, decode_attention, dense_attention
from kvtui.engine.caches import QUANTISED
from kvtui.engine.control import Control
from kvtui.engine.decoder import Decoder
from kvtui.engine.page_kernels import page_kernel
from kvtui.engine.prefill import prefill_attention
from kvtui.engine.run import Run
from kvtui.spec import FullAttention, LatentAttention, LayerGroup, SinksWindow

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
]
GPU = torch.device("cuda", 0)
GROUPS: tuple[LayerGroup, ...] = (
    FullAttention(layers=2, q_heads=8, kv_heads=2, k_width=64, v_width=64),
    SinksWindow(layers=2, q_heads=8, kv_heads=2, k_width=64, v_width=64, window=32, sinks=4),
    LatentAttention(layers=2, q_heads=8, kv_lora_rank=64, rope_dim=16),
)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: str(group.kind))
def test_every_step_equals_recomputation(group: LayerGroup) -> None:
    """Cached steps after a prompt in pieces equal recomputation in fp32 on the GPU."""
    run = DecodeRun(groups=(group,), batch=2, start=48, target=60, device="cuda")
    with torch.inference_mode(), backends(GPU):
        decoder = Decoder(run, torch.float32, GPU)
        x = decoder.inputs(2, run.target, torch.Generator(device=GPU).manual_seed(3))
        for first in range(0, run.start, 16):
            list(decoder.fill(x[:, first : first + 16], slice(0, 2), first))
        decoder.filled(run.start)
        for position in range(run.start, run.target):
            torch.testing.assert_close(
                decoder.step(x[:, position : position + 1], position),
                decoder.recompute(x[:, : position + 1]),
                rtol=1e-4,
                atol=1e-5,
            )


def test_a_paged_cache_equals_recomputation() -> None:
    """Blocks in shuffled order give, on the GPU too, what recomputation gives."""
    run = DecodeRun(
        groups=GROUPS[:1], batch=2, start=48, target=60, device="cuda", cache="paged", block=7
    )
    with torch.inference_mode(), backends(GPU):
        decoder = Decoder(run, torch.float32, GPU)
        x = decoder.inputs(2, run.target, torch.Generator(device=GPU).manual_seed(3))
        for first in range(0, run.start, 16):
            list(decoder.fill(x[:, first : first + 16], slice(0, 2), first))
        decoder.filled(run.start)
        for position in range(run.start, run.target):
            torch.testing.assert_close(
                decoder.step(x[:, position : position + 1], position),
                decoder.recompute(x[:, : position + 1]),
                rtol=1e-4,
                atol=1e-5,
            )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_equals_the_dense_reference(dtype: torch.dtype) -> None:
    """Decode and later prompt pieces agree with fp32 within the format's precision."""
    q = torch.randn(2, 8, 40, 64, device=GPU, dtype=dtype)
    k = torch.randn(2, 2, 200, 64, device=GPU, dtype=dtype)
    v = torch.randn_like(k)
    with backends(GPU):
        one = decode_attention(q[:, :, -1:], k, v)
        piece = prefill_attention(q, k, v, first=160)
    expected = dense_attention(q, k, v)
    torch.testing.assert_close(piece.float(), expected, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(one.float(), expected[:, :, -1:], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_plan_covers_what_the_allocator_gave(dtype: str) -> None:
    """Peak allocated bytes of a whole run stay within cache, weights and workspace."""
    run = Run(DecodeRun(groups=GROUPS, batch=4, start=600, target=640, dtype=dtype, device="cuda"))
    need, control = run.need(), Control()
    before = torch.cuda.memory_allocated(GPU)
    run.allocate()
    run.prefill(control)
    steps = list(run.steps(control))
    found = memory.readout(GPU)
    assert len(steps) == 40
    assert found.peak_allocated_bytes is not None
    assert found.peak_allocated_bytes - before <= need.need_bytes
    readings = (
        found.requested_bytes,
        found.allocated_bytes,
        found.active_bytes,
        found.reserved_bytes,
    )
    assert list(readings) == sorted(one for one in readings if one is not None)


def test_cudnn_is_never_chosen() -> None:
    """The profiler names a flash or efficient kernel in bf16, not cuDNN."""
    run = Run(DecodeRun(groups=GROUPS[:1], batch=1, start=64, target=80, dtype="bf16"))
    run.allocate()
    run.prefill(Control())
    kernel = run.evidence().kernel
    assert kernel is not None
    assert "cudnn" not in kernel.lower()


def test_the_limit_is_that_of_a_gpu() -> None:
    """The read probe is beyond what a host memory gives."""
    size = limits.probe_bytes(GPU, torch.cuda.get_device_properties(GPU).L2_cache_size)
    rate, read = limits.read_bytes_per_s(GPU, size)
    assert read >= 512 * 2**20
    assert rate > 5e10


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("kind", ["mha", "gqa", "mqa"])
def test_an_offloaded_cache_equals_recomputation(kind: str, dtype: str) -> None:
    """Cold chunks copied on a stream of their own are complete before they are read."""
    assert equality(small_run("offload", KINDS[kind], dtype), kind, GPU).status == "passed"


@pytest.mark.parametrize("cache", ["contiguous", "paged"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_ragged_batch_equals_recomputation(cache: CacheName, dtype: str) -> None:
    """Each sequence at its own length, in both layouts that hold them."""
    run = small_run(cache, KINDS["gqa"], dtype, lengths=(24, 17, 20))
    assert equality(run, "gqa", GPU).status == "passed"


@pytest.mark.parametrize("dtype", QUANTISED)
def test_quantised_values_are_within_half_a_step(dtype: str) -> None:
    """What the GPU rounds is bounded as on the CPU."""
    assert quantised_error("gqa", dtype, GPU).status == "passed"


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_pages_are_read_by_a_kernel_that_was_tried(dtype: str) -> None:
    """A 16-bit paged run of block 256 reaches its target; a kernel passed over has its reason."""
    group = FullAttention(layers=2, q_heads=8, kv_heads=2, k_width=64, v_width=64)
    run = Run(
        DecodeRun(
            groups=(group,), batch=2, start=500, target=530, dtype=dtype, device="cuda",
            cache="paged", block=256,
        )
    )  # fmt: skip
    run.allocate()
    control = Control(lambda paused: None)
    assert run.prefill(control) is not None
    assert len(list(run.steps(control))) == 30
    assert run.end[0] == "target"
    assert "over pages" in run.backend or run.passed_over
    run.release()


@pytest.mark.parametrize("page", [16, 256])
def test_a_page_kernel_is_right_or_refused(page: int) -> None:
    """Whatever is chosen agrees with plain attention over the same pages; else it says why not."""
    chosen, passed_over = page_kernel(GPU, torch.bfloat16, page, 8, 2, 64)
    assert (chosen is None) == (len(passed_over) == 2)
