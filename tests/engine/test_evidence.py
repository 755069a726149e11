"""The kernel among what a profiler saw on a GPU."""

from dataclasses import dataclass

import torch

from kvtui.engine.evidence import named_kernel

DEVICE = torch.autograd.DeviceType  # type: ignore[attr-defined]  # there at run time
FLASH = "void pytorch_flash::flash_fwd_splitkv_kernel<traits>(Flash_fwd_params)"


@dataclass
class Event:
    key: str
    device_type: object
    self_device_time_total: float
    self_cpu_time_total: float = 1.0


def test_a_gpu_kernel_is_preferred_to_its_operator() -> None:
    """Of an operator and its kernels, the attention kernel with the most time is named."""
    seen = [
        Event("aten::mm", DEVICE.CPU, 90.0),
        Event("aten::scaled_dot_product_attention", DEVICE.CPU, 0.0),
        Event("aten::_scaled_dot_product_flash_attention", DEVICE.CPU, 50.0),
        Event("aten::_flash_attention_forward", DEVICE.CPU, 50.0),
        Event("nvjet_hsh_64x8_64x16_4x1_v_bz_TNT", DEVICE.CUDA, 90.0),
        Event("void pytorch_flash::flash_fwd_splitkv_combine_kernel<x>", DEVICE.CUDA, 5.0),
        Event(FLASH, DEVICE.CUDA, 45.0),
    ]
    assert named_kernel(seen, on_cuda=True).kernel == FLASH
