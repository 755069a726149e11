"""Figures that real machines printed, from public issues and notes, are explained.

Each file of ``public/`` holds the memory lines of one log. None was made with this program.
"""

from pathlib import Path

import pytest

from kvtui.reconcile import reconciled
from kvtui.sources.request import Request

FOLDER = Path(__file__).parent / "public"

PUBLIC = {
    # VLLM issue 12330: Llama-3-8B on an A100 of 40 GB.
    "vllm-v0": (
        Request(model="llama-3-8b"),
        (
            "model weights",
            "usable memory",
            "memory for the cache",
            "GPU blocks",
            "maximum concurrency",
        ),
    ),
    # vLLM issue 10517: Llama-3.1-8B-Instruct on a card of 24 GB, refused at 29,000 tokens.
    "vllm-v0-results": (
        Request(model="llama-3.1-8b"),
        (
            "model weights",
            "memory for the cache",
            "GPU blocks",
            "GPU KV cache size",
            "maximum concurrency",
        ),
    ),
    # A public notebook: Qwen2.5-0.5B; the 0.78 is a rounded 0.7827.
    "vllm-v0-rounded-share": (
        Request(model="qwen2.5-0.5b"),
        ("usable memory", "memory for the cache", "GPU blocks", "maximum concurrency"),
    ),
    # A public deployment note: Qwen2.5-1.5B.
    "vllm-v1": (Request(model="qwen2.5-1.5b"), ("model weights", "GPU KV cache size")),
    # A public compatibility report; consumed memory holds weights and non-torch.
    "vllm-consumed": (Request(model="llama-3.1-8b"), ("usable memory", "memory for the cache")),
    # A public note on MiniMax-M2 over four cards, which would not start.
    "vllm-refused": (
        Request(model="minimax-m2", block="16", tp="4"),
        ("cache needed", "estimated maximum model length"),
    ),
    # A public benchmark on a card of 32 GB: a hybrid of Qwen3.5-35B-A3B's shape, fp8, with prefix
    # caching; 569,878 and 4.35 with 6.01 GiB in another run of the same.
    "vllm-hybrid": (
        Request(model="qwen3.5-35b-a3b"),
        ("GPU KV cache size", "maximum concurrency"),
    ),
    # A public installation guide: Llama-3.1-8B.
    "sglang": (Request(model="llama-3.1-8b"), ("weights", "K pool", "V pool")),
    # A public benchmark: Llama-3.1-8B in fp8 on a card of 32 GB.
    "tensorrt-llm": (
        Request(model="llama-3.1-8b", dtype="fp8"),
        ("blocks", "tokens in the pool", "pool"),
    ),
    # A public report: gpt-oss-120b; every layer is charged in full.
    "tensorrt-llm-torch": (
        Request(model="gpt-oss-120b"),
        ("memory for the cache", "kv size", "tokens in the pool", "pool"),
    ),
    # TensorRT-LLM issue 1400: a 7B multi-head model, exact bytes.
    "tensorrt-llm-bytes": (Request(model="llama-2-7b"), ("pool",)),
    # A public llama.cpp issue: gpt-oss-20b at its full context.
    "llama-cpp-windows": (
        Request(model="gpt-oss-20b"),
        ("cells", "cells of windowed layers", "K cache", "V cache", "K cache of windowed layers"),
    ),
    # LM Studio issue 1862: a 27B model of which 16 layers of 64 keep K and V.
    "llama-cpp-hybrid": (
        Request(model="qwen3.5-27b"),
        ("cells", "K cache", "V cache", "convolution states", "recurrent states"),
    ),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_log_is_explained(name: str) -> None:
    """Every named figure is explained by the plain rule, without another assumption."""
    typed, figures = PUBLIC[name]
    with (FOLDER / f"{name}.log").open("rb") as file:
        found = reconciled(file, name, typed)
    by_name = {one.figure: one for one in found.findings}
    for figure in figures:
        assert by_name[figure].status == "explained", by_name[figure]
        assert by_name[figure].assumes == "", by_name[figure]


def test_every_public_log_is_tested() -> None:
    """No log lies there unread."""
    assert {path.stem for path in FOLDER.glob("*.log")} == set(PUBLIC)
