"""Start-up logs in four engines' own line formats, with figures worked out here by hand.

Every size is made from a plain product of a published geometry, rounded as the engine rounds it.
"""

GIB, MIB = 2**30, 2**20


def gib(size: float) -> str:
    return f"{size / GIB:.2f}"


def mib(size: float) -> str:
    return f"{size / MIB:7.2f}"


# Qwen3-8B: 36 layers, 8 KV heads of 128; 147,456 B a token in 16 bits, half of it a rank at tp 2.
QWEN_TOKEN = 36 * 2 * 8 * 128 * 2
VLLM_POOL = 30_064_771_072 + 123_456_789
VLLM_BLOCKS = VLLM_POOL // (16 * QWEN_TOKEN // 2)
VLLM_TOKENS = VLLM_BLOCKS * 16


def vllm_v1() -> str:
    """Version 1 of the engine, two workers; the second has a little less room."""
    engine = "(EngineCore_DP0 pid=4711) INFO 11-02 09:14:07"
    first, second = (f"(Worker_TP{rank} pid=48{rank}0) INFO 11-02 09:14:31" for rank in (0, 1))
    length = 32768
    return "\n".join(
        (
            (
                "(APIServer pid=4700) INFO 11-02 09:13:55 [utils.py:233] non-default args: "
                "{'model': 'Qwen/Qwen3-8B', 'max_model_len': 32768, 'tensor_parallel_size': 2, "
                "'gpu_memory_utilization': 0.85}"
            ),
            (
                f"{engine} [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: "
                "model='Qwen/Qwen3-8B', speculative_config=None, tokenizer='Qwen/Qwen3-8B', "
                "dtype=torch.bfloat16, max_seq_len=32768, tensor_parallel_size=2, "
                "pipeline_parallel_size=1, data_parallel_size=1, kv_cache_dtype=auto, seed=0"
            ),
            (
                f"\x1b[1;36m{first}\x1b[0m [gpu_model_runner.py:2338] Model loading "
                f"took 7.6423 GiB "
                "and 5.31 seconds"
            ),
            f"{second} [gpu_model_runner.py:2338] Model loading took 7.6423 GiB and 5.40 seconds",
            (
                f"{first} [gpu_worker.py:298] Available KV cache memory: "
                f"{gib(VLLM_POOL + 40 * MIB)} GiB"
            ),
            f"{second} [gpu_worker.py:298] Available KV cache memory: {gib(VLLM_POOL)} GiB",
            f"{engine} [kv_cache_utils.py:1087] GPU KV cache size: {VLLM_TOKENS:,} tokens",
            (
                f"{engine} [kv_cache_utils.py:1091] Maximum concurrency for {length:,} tokens per "
                f"request: {VLLM_TOKENS / length:.2f}x"
            ),
            (
                "Capturing CUDA graphs (decode, FULL):  40%|####      | 14/35 [00:03<00:04]\r"
                "Capturing CUDA graphs (decode, FULL): 100%|##########| 35/35 [00:07<00:00]"
            ),
            f"{first} [gpu_model_runner.py:3480] Graph capturing finished in 8 secs, took 0.58 GiB",
            "INFO:     Application startup complete.",
        )
    )


# Llama-3.1-8B: 32 layers, 8 KV heads of 128: 131,072 B a token.
LLAMA_TOKEN = 32 * 2 * 8 * 128 * 2
V0_TOTAL, V0_WEIGHTS, V0_NON_TORCH, V0_PEAK = 47.44, 14.99, 0.21, 1.33
V0_POOL = round(V0_TOTAL * 0.92, 2) - V0_WEIGHTS - V0_NON_TORCH - V0_PEAK
V0_BLOCKS = int(V0_POOL * GIB // (16 * LLAMA_TOKEN))


def vllm_v0() -> str:
    """Version 0 of the engine: the sum is printed, and blocks in place of tokens."""
    at = "INFO 03-29 01:24:36"
    return "\n".join(
        (
            (
                f"{at} llm_engine.py:234] Initializing an LLM engine (v0.6.6) with config: "
                "model='meta-llama/Llama-3.1-8B-Instruct', dtype=torch.bfloat16, max_seq_len=8192, "
                "tensor_parallel_size=1, kv_cache_dtype=auto"
            ),
            f"{at} model_runner.py:1097] Loading model weights took 14.9888 GB",
            (
                f"{at} worker.py:241] the current vLLM instance can use total_gpu_memory "
                f"({V0_TOTAL}GiB) x gpu_memory_utilization (0.92) = {V0_TOTAL * 0.92:.2f}GiB"
            ),
            (
                f"{at} worker.py:241] model weights take {V0_WEIGHTS}GiB; non_torch_memory takes "
                f"{V0_NON_TORCH}GiB; PyTorch activation peak memory takes {V0_PEAK}GiB; "
                f"the rest of "
                f"the memory reserved for KV Cache is {V0_POOL:.2f}GiB."
            ),
            f"{at} gpu_executor.py:76] # GPU blocks: {V0_BLOCKS}, # CPU blocks: 2048",
            (
                f"{at} gpu_executor.py:80] Maximum concurrency for 8192 tokens per request: "
                f"{V0_BLOCKS * 16 / 8192:.2f}x"
            ),
            f"{at} model_runner.py:1527] Graph capturing finished in 13 secs, took 0.27 GiB",
        )
    )


SGLANG_SLOTS = 210_433


def sglang(spare: int = 1) -> str:
    """A dense model on one device; K and V apart, "GB" meaning 2^30."""
    half = LLAMA_TOKEN // 2 * (SGLANG_SLOTS + spare)
    before, weights = 78.58, 14.98
    after = before - weights
    # Tokens come from the free memory: 63.60 - (1 - f) x 78.58 GiB hold 210,433 tokens.
    fraction = 1 - (after - (SGLANG_SLOTS + 0.5) * LLAMA_TOKEN / GIB) / before
    return "\n".join(
        (
            (
                "[2025-11-14 16:08:40] "
                "server_args=ServerArgs(model_path='meta-llama/Llama-3.1-8B', "
                f"tokenizer_path='x', kv_cache_dtype='auto', mem_fraction_static={fraction:.7f}, "
                "page_size=1, tp_size=1, dp_size=1)"
            ),
            f"[2025-11-14 16:08:44] Load weight begin. avail mem={before:.2f} GB",
            (
                "[2025-11-14 16:08:49] Load weight end. elapsed=5.46 s, type=LlamaForCausalLM, "
                f"dtype=torch.bfloat16, avail mem={after:.2f} GB, mem usage={weights:.2f} GB."
            ),
            "[2025-11-14 16:08:49] Using KV cache dtype: torch.bfloat16",
            (
                f"[2025-11-14 16:08:49] KV Cache is allocated. #tokens: {SGLANG_SLOTS}, "
                f"K size: {gib(half)} GB, V size: {gib(half)} GB"
            ),
            "[2025-11-14 16:08:49] Memory pool end. avail mem=37.61 GB",
            (
                "[2025-11-14 16:09:02] Capture cuda graph end. Time elapsed: 12.7 s. "
                "mem usage=0.86 GB. avail mem=36.75 GB."
            ),
            (
                f"[2025-11-14 16:09:02] max_total_num_tokens={SGLANG_SLOTS}, "
                "chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2048, "
                "context_len=131072, available_gpu_mem=36.75 GB"
            ),
        )
    )


# fp8: one byte a value.
TRT_TOKEN = LLAMA_TOKEN // 2
TRT_FREE = 21.37
TRT_BLOCKS = -(-int(TRT_FREE * 0.9 * GIB // TRT_TOKEN) // 64)


def tensorrt_llm() -> str:
    """The C++ runtime: a share of what is free, in blocks of 64."""
    tag = "[TensorRT-LLM][INFO]"
    return "\n".join(
        (
            "[TensorRT-LLM] TensorRT-LLM version: 0.17.0",
            f"{tag} Loaded engine size: 8664 MiB",
            f"{tag} [MemUsageChange] Allocated 1134.01 MiB for execution context memory.",
            f"{tag} [MemUsageChange] Allocated 43.29 MB GPU memory for runtime buffers.",
            f"{tag} [MemUsageChange] Allocated 180.30 MB GPU memory for decoder.",
            (
                f"{tag} Memory usage when calculating max tokens in paged kv cache: "
                f"total: 31.84 GiB, "
                f"available: {TRT_FREE} GiB"
            ),
            f"{tag} Number of blocks in KV cache primary pool: {TRT_BLOCKS}",
            (
                f"{tag} Number of blocks in KV cache secondary pool: 0, onboard blocks to primary "
                "memory before reuse: true"
            ),
            f"{tag} Max KV cache pages per sequence: 65",
            f"{tag} Number of tokens per block: 64.",
            (
                f"{tag} [MemUsageChange] Allocated {gib(TRT_BLOCKS * 64 * TRT_TOKEN)} GiB for max "
                f"tokens in paged KV cache ({TRT_BLOCKS * 64})."
            ),
        )
    )


TORCH_DEVICE, TORCH_PEAK, TORCH_TRIAL = 79.19, 20.11, 1.05
TORCH_ROOM = (TORCH_DEVICE - TORCH_PEAK + TORCH_TRIAL) * 0.85
TORCH_TOKENS = -(-int(TORCH_ROOM * GIB // LLAMA_TOKEN) // 32) * 32


def tensorrt_llm_torch() -> str:
    """The PyTorch back end: a trial pool first, then the real one."""
    tag = "[11/20/2025-04:21:51] [TRT-LLM] [I]"
    return "\n".join(
        (
            "[TensorRT-LLM] TensorRT-LLM version: 1.1.0",
            "[TensorRT-LLM][INFO] Number of tokens per block: 32.",
            (
                "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 1.05 GiB for max "
                "tokens in paged KV "
                "cache (8608)."
            ),
            f"{tag} max_seq_len=8608, max_num_requests=64, max_num_tokens=8192, max_batch_size=64",
            (
                f"{tag} Memory used after loading model weights (inside torch) in memory usage "
                "profiling: 14.98 GiB"
            ),
            (
                f"{tag} Memory dynamically allocated during inference (inside torch) in "
                f"memory usage "
                "profiling: 1.85 GiB"
            ),
            (
                f"{tag} Memory used outside torch (e.g., NCCL and CUDA graphs) in memory usage "
                "profiling: 2.23 GiB"
            ),
            (
                f"{tag} Peak memory during memory usage profiling (torch + non-torch): "
                f"{TORCH_PEAK} "
                f"GiB, available KV cache memory when calculating max tokens: "
                f"{TORCH_ROOM:.2f} GiB, "
                f"fraction is set 0.8500000238418579, kv size is {LLAMA_TOKEN}. device "
                f"total memory "
                f"{TORCH_DEVICE} GiB, , tmp kv_mem {TORCH_TRIAL} GiB"
            ),
            "[TensorRT-LLM][INFO] Number of tokens per block: 32.",
            (
                f"[TensorRT-LLM][INFO] [MemUsageChange] Allocated "
                f"{gib(TORCH_TOKENS * LLAMA_TOKEN)} "
                f"GiB for max tokens in paged KV cache ({TORCH_TOKENS})."
            ),
            (
                f"{tag} max_seq_len=131072, max_num_requests=64, max_num_tokens=8192, "
                "max_batch_size=64"
            ),
        )
    )


def llama_cpp() -> str:
    """A dense model in q8_0, cells padded to 256; geometry in the log, no name that is known."""
    cells, row = 10240, 34 * 1024 // 32
    part = cells * 28 * row
    return "\n".join(
        (
            "0.00.320.047 I print_info: arch             = llama",
            "0.00.320.047 I print_info: n_layer          = 28",
            "0.00.320.047 I print_info: n_head           = 24",
            "0.00.320.047 I print_info: n_head_kv        = 8",
            "0.00.320.047 I print_info: n_swa            = 0",
            "0.00.320.047 I print_info: n_embd_head_k    = 128",
            "0.00.320.047 I print_info: n_embd_head_v    = 128",
            "0.00.320.047 I print_info: n_embd_k_gqa     = 1024",
            "0.00.320.047 I print_info: n_embd_v_gqa     = 1024",
            "0.00.320.049 I print_info: file size   = 1.87 GiB (5.01 BPW)",
            "0.00.520.000 I load_tensors:        CUDA0 model buffer size =  1607.31 MiB",
            "0.00.520.000 I load_tensors:   CPU_Mapped model buffer size =   308.23 MiB",
            "0.00.600.000 I llama_context: n_seq_max     = 1",
            "0.00.600.000 I llama_context: n_ctx         = 10000",
            "0.00.600.000 I llama_context: n_batch       = 2048",
            "0.00.600.000 I llama_context: n_ubatch      = 512",
            "0.00.600.000 I llama_context: kv_unified    = false",
            f"0.00.700.000 I llama_kv_cache:      CUDA0 KV buffer size = {mib(2 * part)} MiB",
            (
                f"0.00.700.000 I llama_kv_cache: size = {mib(2 * part)} MiB ( {cells} cells,  28 "
                f"layers,  1/1 seqs), K (q8_0): {mib(part)} MiB, V (q8_0): {mib(part)} MiB"
            ),
            "0.00.800.000 I llama_context:      CUDA0 compute buffer size =   256.50 MiB",
            "0.00.800.000 I llama_context:  CUDA_Host compute buffer size =    26.01 MiB",
        )
    )


def llama_cpp_windows() -> str:
    """Gemma-3-27B: 10 layers keep everything, 52 a window of 1,024; 16 KV heads of 128, f16."""
    row = 16 * 128 * 2
    base, swa = 65536, 1536
    full, windowed = base * 10 * row, swa * 52 * row
    return "\n".join(
        (
            "llama_model_loader: - kv   2:      general.name str              = Gemma 3 27B It",
            "print_info: n_layer          = 62",
            "print_info: n_swa            = 1024",
            "print_info: n_embd_k_gqa     = 2048",
            "print_info: n_embd_v_gqa     = 2048",
            "llama_context: n_seq_max     = 1",
            "llama_context: n_ctx         = 65536",
            "llama_context: n_batch       = 2048",
            "llama_context: n_ubatch      = 512",
            "llama_context: kv_unified    = false",
            f"llama_kv_cache_iswa: creating non-SWA KV cache, size = {base} cells",
            (
                f"llama_kv_cache: size = {mib(2 * full)} MiB ( {base} cells,  10 "
                f"layers,  1/1 seqs), "
                f"K (f16): {mib(full)} MiB, V (f16): {mib(full)} MiB"
            ),
            f"llama_kv_cache_iswa: creating     SWA KV cache, size = {swa} cells",
            (
                f"llama_kv_cache: size = {mib(2 * windowed)} MiB (  {swa} cells,  52 layers,  1/1 "
                f"seqs), K (f16): {mib(windowed)} MiB, V (f16): {mib(windowed)} MiB"
            ),
        )
    )
