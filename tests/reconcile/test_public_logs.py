"""Figures that real machines printed, from public issues and repositories, are explained.

Each case names its model and holds the memory lines alone. None was made with this program.
"""

import io

import pytest

from kvtui.reconcile import reconciled
from kvtui.sources.request import Request

VLLM = "INFO 01-13 11:35:23 "
TRT = "[TensorRT-LLM][INFO] "

PUBLIC = {
    # vLLM issue 12330: Llama-3-8B on an A100 of 40 GB.
    "vllm v0": (
        Request(model="llama-3-8b"),
        VLLM + "model_runner.py:1099] Loading model weights took 14.9595 GB\n" + VLLM + "worker.py:"
        "241] the current vLLM instance can use total_gpu_memory (39.50GiB) x "
        "gpu_memory_utilization (0.90) = 35.55GiB\n" + VLLM + "worker.py:241] model weights take "
        "14.96GiB; non_torch_memory takes 0.10GiB; PyTorch activation peak memory takes 9.37GiB; "
        "the rest of the memory reserved for KV Cache is 11.12GiB.\n"
        + VLLM
        + "gpu_executor.py:76] # GPU blocks: 5691, # CPU blocks: 2048\n"
        + VLLM
        + "gpu_executor.py:80] Maximum concurrency for 8192 tokens per request: 11.12x\n",
        (
            "model weights",
            "usable memory",
            "memory for the cache",
            "GPU blocks",
            "maximum concurrency",
        ),
    ),
    # A public notebook: Qwen2.5-0.5B, where 0.78 is a rounded 0.7827.
    "vllm v0, rounded share": (
        Request(model="qwen2.5-0.5b"),
        VLLM + "worker.py:295] the current vLLM instance can use total_gpu_memory (47.50GiB) x "
        "gpu_memory_utilization (0.78) = 37.18GiB\n" + VLLM + "worker.py:295] model weights take "
        "0.52GiB; non_torch_memory takes 0.08GiB; PyTorch activation peak memory takes 1.78GiB; "
        "the rest of the memory reserved for KV Cache is 34.81GiB.\n"
        + VLLM
        + "executor_base.py:113] # cuda blocks: 190100, # CPU blocks: 0\n"
        + VLLM
        + "executor_base.py:118] Maximum concurrency for 32768 tokens per request: 92.82x\n",
        ("usable memory", "memory for the cache", "GPU blocks", "maximum concurrency"),
    ),
    # A public deployment note: Qwen2.5-1.5B.
    "vllm v1": (
        Request(model="qwen2.5-1.5b"),
        (
            "(EngineCore pid=258) INFO gpu_model_runner.py:4879 Model loading took 2.89 GiB memory and "
            "60.297843 seconds\n(EngineCore pid=258) INFO gpu_worker.py:440 Available KV cache memory: "
            "0.56 GiB\n(EngineCore pid=258) INFO kv_cache_utils.py:1708 GPU KV cache size: 20,992 "
            "tokens\n"
        ),
        ("model weights", "GPU KV cache size"),
    ),
    # A public compatibility report: consumed memory holds the weights and what is outside torch.
    "vllm, consumed memory": (
        Request(model="llama-3.1-8b"),
        (
            "(Worker_TP1 pid=771) INFO 08-21 18:22:06 [gpu_worker.py:400] Available KV cache memory: "
            "27.85 GiB\n(Worker_TP1 pid=771) INFO 08-21 18:22:06 [gpu_worker.py:789] Free memory on "
            "device (94.05/95.01 GiB) on startup. Desired GPU memory utilization is (0.9, 85.51 GiB). "
            "Actual usage is 56.89 GiB for consumed memory (weights + non-torch), 0.76 GiB for peak "
            "activation, and 0.32 GiB for CUDAGraph memory. Current kv cache memory in use is 27.85 "
            "GiB.\n"
        ),
        ("usable memory", "memory for the cache"),
    ),
    # vLLM issue: MiniMax-M2 at 196,608 tokens on 4 cards would not start.
    "vllm, refused": (
        Request(model="minimax-m2", tp="4", block="16"),
        (
            "(EngineCore_DP0 pid=9) [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: "
            "model='MiniMaxAI/MiniMax-M2', dtype=torch.bfloat16, max_seq_len=196608\nValueError: To "
            "serve at least one request with the models's max seq len (196608), (11.62 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (9.38 GiB). Based on the "
            "available memory, the estimated maximum model length is 158560.\n"
        ),
        ("cache needed", "estimated maximum model length"),
    ),
    # An AMD developer guide: Llama-3.1-8B-Instruct on one card.
    "sglang": (
        Request(model="llama-3.1-8b"),
        (
            "[2025-07-14 05:48:43] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail "
            "mem=7.37 GB, mem usage=15.02 GB.\n[2025-07-14 05:48:43] KV Cache is allocated. #tokens: "
            "38141, K size: 2.33 GB, V size: 2.33 GB\n[2025-07-14 05:48:43] Memory pool end. avail "
            "mem=1.46 GB\n[2025-07-14 05:49:02] max_total_num_tokens=38141, context_len=131072\n"
        ),
        ("weights", "K pool", "V pool"),
    ),
    # A public benchmark: Llama-3.1-8B in fp8 on a card of 32 GB.
    "tensorrt-llm": (
        Request(model="llama-3.1-8b", dtype="fp8"),
        TRT + "Memory usage when calculating max tokens in paged kv cache: total: 31.84 GiB, "
        "available: 17.83 GiB\n"
        + TRT
        + "Number of blocks in KV cache primary pool: 8219\n"
        + TRT
        + "Number of tokens per block: 32.\n"
        + TRT
        + "[MemUsageChange] Allocated 16.05 GiB for max tokens in paged KV cache (263008)\n",
        ("blocks", "tokens in the pool", "pool"),
    ),
    # A public report: gpt-oss-120b on a machine of 119.7 GiB; every layer is charged in full.
    "tensorrt-llm, torch": (
        Request(model="gpt-oss-120b"),
        "[12/20/2025-04:21:51] [TRT-LLM] [I] Peak memory during memory usage profiling (torch + "
        "non-torch): 113.65 GiB, available KV cache memory when calculating max tokens: 5.95 GiB, "
        "fraction is set 0.8999999761581421, kv size is 73728. device total memory 119.70 GiB, , "
        "tmp kv_mem 0.56 GiB\n"
        + TRT
        + "Number of tokens per block: 32.\n"
        + TRT
        + "[MemUsageChange] Allocated 5.95 GiB for max tokens in paged KV cache (86720).\n",
        ("memory for the cache", "kv size", "tokens in the pool", "pool"),
    ),
    # TensorRT-LLM issue 1400: a 7B multi-head model, exact bytes.
    "tensorrt-llm, bytes": (
        Request(model="llama-2-7b"),
        TRT
        + "Allocate 69524783104 bytes for k/v cache. \n"
        + TRT
        + "Using 132608 total tokens in paged KV cache, and 40 blocks per sequence\n",
        ("pool",),
    ),
    # A public llama.cpp issue: gpt-oss-20b at its full context.
    "llama.cpp": (
        Request(model="gpt-oss-20b"),
        (
            "print_info: n_swa            = 128\nllama_context: n_seq_max     = 1\n"
            "llama_context: n_ctx         = 131072\nllama_context: n_batch       = 2048\n"
            "llama_context: n_ubatch      = 512\nllama_context: kv_unified    = false\n"
            "llama_kv_cache_iswa: creating non-SWA KV cache, size = 131072 cells\n"
            "llama_kv_cache: size = 3072.00 MiB (131072 cells,  12 layers,  1/1 seqs), K (f16): "
            "1536.00 MiB, V (f16): 1536.00 MiB\n"
            "llama_kv_cache_iswa: creating     SWA KV cache, size = 768 cells\n"
            "llama_kv_cache: size =   18.00 MiB (   768 cells,  12 layers,  1/1 seqs), K (f16):    "
            "9.00 MiB, V (f16):    9.00 MiB\n"
        ),
        ("cells", "cells of windowed layers", "K cache", "V cache", "K cache of windowed layers"),
    ),
    # LM Studio issue 1862: Qwen3.6-27B, of which 16 layers of 64 keep K and V, one sequence.
    "llama.cpp, hybrid": (
        Request(model="qwen3.5-27b"),
        (
            "llama_context: n_ctx = 262144\nllama_context: n_seq_max = 1\n"
            "llama_kv_cache: size = 16384.00 MiB (262144 cells, 16 layers, 1/1 seqs), K (f16): 8192.00 "
            "MiB, V (f16): 8192.00 MiB\nllama_memory_recurrent: size =  149.62 MiB (     1 cells,  64 "
            "layers,  1 seqs), R (f32):    5.62 MiB, S (f32):  144.00 MiB\n"
        ),
        ("cells", "K cache", "V cache", "convolution states", "recurrent states"),
    ),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_log_is_explained(name: str) -> None:
    """Every named figure is explained by the plain rule, without another assumption."""
    typed, text, figures = PUBLIC[name]
    found = reconciled(io.BytesIO(text.encode()), "log", typed)
    by_name = {one.figure: one for one in found.findings}
    for figure in figures:
        assert by_name[figure].status == "explained", by_name[figure]
        assert by_name[figure].assumes == "", by_name[figure]
