"""Each engine's figures are explained by its own rule, and what is not is said with its size."""

import io

import pytest

from kvtui.reconcile import Finding, Reconciliation, reconciled
from kvtui.sources.request import Request
from tests.reconcile import start_up

GIB = 2**30


def read(text: str, **typed: str) -> Reconciliation:
    return reconciled(io.BytesIO(text.encode()), "log", Request(**typed))


def finding(found: Reconciliation, figure: str) -> Finding:
    return next(one for one in found.findings if one.figure == figure)


def test_vllm_names_version_model_and_ranks() -> None:
    """Version, model, format and ranks are taken from the log itself."""
    found = read(start_up.vllm_v1())
    assert (found.engine, found.version) == ("vLLM", "0.11.0")
    assert (found.model, found.model_from) == ("Qwen3-8B", "the log")
    assert (found.dtype, found.tp, found.block) == ("bf16", 2, 16)


def test_vllm_tokens_are_the_least_pool_in_whole_pages() -> None:
    """Tokens come from the smaller worker's memory over 73,728 B a token on one of two ranks."""
    found = read(start_up.vllm_v1())
    tokens = finding(found, "GPU KV cache size")
    assert tokens.status == "explained"
    assert tokens.value == start_up.VLLM_TOKENS
    assert "73,728 B a token per rank of tp 2" in tokens.explanation
    assert tokens.assumes == ""
    assert finding(found, "maximum concurrency").status == "explained"
    assert found.unexplained == ()


def test_vllm_weights_are_those_of_one_rank() -> None:
    """7.64 GiB is half of Qwen3-8B's 8.19e9 parameters in 16 bits, within a hundredth."""
    weights = finding(read(start_up.vllm_v1()), "model weights")
    assert weights.status == "explained"
    assert weights.predicted == pytest.approx(8_190_735_360 * 2 / 2, rel=0.002)


def test_old_vllm_prints_its_sum() -> None:
    """Version 0: usable is a share of the total, the pool what is left, blocks pages of 2 MiB."""
    found = read(start_up.vllm_v0())
    assert found.version == "0.6.6"
    for figure in ("usable memory", "memory for the cache", "GPU blocks", "maximum concurrency"):
        assert finding(found, figure).status == "explained", figure
    blocks = finding(found, "GPU blocks")
    assert blocks.predicted == pytest.approx(start_up.V0_BLOCKS, abs=1)
    weights = finding(found, "model weights")
    assert weights.status == "explained"
    assert "2^30" in weights.explanation


def test_vllm_after_start_up_sums_up() -> None:
    """Newer lines: usable less weights, activation, non-torch, and since 0.21 less graphs."""
    worker = "(EngineCore pid=79) INFO 07-30 07:11:20 [gpu_worker.py:857]"
    text = "\n".join(
        (
            f"{worker} Estimated CUDA graph memory: 0.58 GiB total",
            f"{worker} Available KV cache memory: 20.16 GiB",
            (
                f"{worker} GPU KV cache size: 165,152 tokens, Maximum concurrency for "
                f"16,384 tokens "
                "per request: 10.08x"
            ),
            (
                f"{worker} Free memory on device (39.2/39.5 GiB) on startup. Desired GPU memory "
                "utilization is (0.92, 36.34 GiB). Actual usage is 14.99 GiB for "
                "weight, 0.4 GiB for "
                "peak activation, 0.21 GiB for non-torch memory, and 0.44 GiB for "
                "CUDAGraph memory. "
                "Current kv cache memory in use is 20.16 GiB."
            ),
        )
    )
    found = read(text, model="llama-3.1-8b")
    assert finding(found, "usable memory").status == "explained"
    pool = finding(found, "memory for the cache")
    assert pool.status == "explained"
    assert "0.58 GiB estimated graphs" in pool.explanation
    assert finding(found, "GPU KV cache size").status == "explained"
    assert finding(found, "maximum concurrency").status == "explained"


def test_vllm_that_will_not_start() -> None:
    """A refusal states what one longest request needs: 40,960 tokens of 147,456 B are 5.625 GiB."""
    text = "\n".join(
        (
            (
                "(EngineCore_DP0 pid=9) INFO 11-02 09:14:07 [core.py:77] Initializing "
                "a V1 LLM engine "
                "(v0.11.0) with config: model='Qwen/Qwen3-8B', dtype=torch.bfloat16, "
                "max_seq_len=40960"
            ),
            (
                "ValueError: To serve at least one request with the models's max seq len (40960), "
                "(5.62 GiB KV cache is needed, which is larger than the available KV cache memory "
                f"(4.89 GiB). Based on the available memory, the estimated maximum model length is "
                f"{int(4.89 * GIB // (16 * start_up.QWEN_TOKEN)) * 16}."
            ),
        )
    )
    found = read(text)
    assert finding(found, "cache needed").status == "explained"
    assert finding(found, "estimated maximum model length").status == "explained"


def test_a_pipeline_stage_holds_its_own_layers() -> None:
    """Over two stages Llama-3.1-70B keeps 40 of 80 layers on a rank: 163,840 B a token."""
    pool = 12 * GIB
    text = (
        "INFO [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: "
        "model='meta-llama/Llama-3.1-70B-Instruct', dtype=torch.bfloat16, max_seq_len=8192, "
        "tensor_parallel_size=1, pipeline_parallel_size=2\n"
        "INFO Available KV cache memory: 12.00 GiB\n"
        f"INFO GPU KV cache size: {pool // (16 * 163_840) * 16:,} tokens\n"
    )
    tokens = finding(read(text), "GPU KV cache size")
    assert (tokens.status, tokens.assumes) == ("explained", "")
    assert "163,840 B a token" in tokens.explanation


def test_a_draft_model_shares_the_pool() -> None:
    """Tokens of target and draft together fit when the draft is named, and it says so."""
    both = start_up.LLAMA_TOKEN + 16 * 2 * 8 * 64 * 2
    text = (
        "INFO Available KV cache memory: 12.00 GiB\n"
        f"INFO GPU KV cache size: {12 * GIB // (16 * both) * 16:,} tokens\n"
    )
    tokens = finding(read(text, model="llama-3.1-8b", draft="llama-3.2-1b"), "GPU KV cache size")
    assert tokens.status == "explained"
    assert tokens.assumes == "the draft model's layers share the pool"


def test_a_cache_in_another_format_is_found_out() -> None:
    """Twice the tokens in the same memory are explained only by eight bits, and so it says."""
    text = start_up.vllm_v1().replace(
        f"size: {start_up.VLLM_TOKENS:,}", f"size: {start_up.VLLM_TOKENS * 2:,}"
    )
    tokens = finding(read(text), "GPU KV cache size")
    assert tokens.status == "explained"
    assert tokens.assumes == "the cache is kept in fp8, not in bf16"


def test_what_nothing_explains_is_left_over_with_its_size() -> None:
    """A tenth fewer tokens fit no assumption: unexplained, and by how many tokens."""
    fewer = start_up.VLLM_TOKENS * 9 // 10
    text = start_up.vllm_v1().replace(f"size: {start_up.VLLM_TOKENS:,}", f"size: {fewer:,}")
    tokens = finding(read(text), "GPU KV cache size")
    assert tokens.status == "unexplained"
    assert tokens.unexplained == pytest.approx(fewer - start_up.VLLM_TOKENS, abs=80)
    assert tokens.remainder.endswith("tokens less")


def test_sglang_pools_hold_a_spare_page() -> None:
    """K and V are slots and a spare page times 65,536 B; its GB are 2^30."""
    found = read(start_up.sglang())
    for figure in ("K pool", "V pool"):
        pool = finding(found, figure)
        assert pool.status == "explained", figure
        assert pool.predicted == (start_up.SGLANG_SLOTS + 1) * 65_536
        assert "2^30" in pool.explanation
    assert finding(found, "weights").status == "explained"
    assert finding(found, "weights, by free memory").status == "explained"
    assert finding(found, "CUDA graphs").status == "measured"


def test_sglang_tokens_come_from_free_memory() -> None:
    """Tokens are what mem_fraction_static leaves after loading, over the bytes of a token."""
    tokens = finding(read(start_up.sglang()), "max_total_num_tokens")
    assert tokens.status == "explained"
    assert "78.58 GB free before" in tokens.explanation


def test_sglang_shares_memory_out_over_pools() -> None:
    """gpt-oss-20b: a full token takes 24 KiB and 0.6 of another 24 for the windows, in 20 GiB."""
    before, after, share = 40.0, 26.0, 0.85
    room = (after - before * (1 - share)) * GIB
    layer = 12 * 2 * 8 * 64 * 2
    full = int(room / (layer + 0.6 * layer))
    text = (
        "[2025-12-01 10:00:00] server_args=ServerArgs(model_path='openai/gpt-oss-20b', "
        f"page_size=1, tp_size=1, kv_cache_dtype='auto', mem_fraction_static={share}, "
        "swa_full_tokens_ratio=0.6)\n"
        f"[2025-12-01 10:00:04] Load weight begin. avail mem={before:.2f} GB\n"
        f"[2025-12-01 10:00:05] Load weight end. type=GptOss, avail mem={after:.2f} GB, mem "
        f"usage={before - after:.2f} GB.\n"
        "[2025-12-01 10:00:05] Use Sliding window memory pool. "
        f"full_layer_tokens={full}, swa_layer_tokens={int(full * 0.6)}\n"
        f"[2025-12-01 10:00:06] max_total_num_tokens={full}, context_len=131072\n"
    )
    found = read(text)
    for figure in ("max_total_num_tokens", "tokens of windowed layers"):
        one = finding(found, figure)
        assert (one.status, one.assumes) == ("explained", ""), one


def test_sglang_pools_of_windowed_layers() -> None:
    """gpt-oss-20b: 12 windowed layers and 12 others, 8 KV heads of 64, a pool for each."""
    row, full, windowed = 8 * 64 * 2, 400_000, 320_000
    text = "\n".join(
        (
            (
                "[2025-12-01 10:00:00] server_args=ServerArgs(model_path='openai/gpt-oss-20b', "
                "page_size=1, tp_size=1, kv_cache_dtype='auto')"
            ),
            (
                "[2025-12-01 10:00:05 TP0] Use Sliding window memory pool. "
                f"full_layer_tokens={full}, swa_layer_tokens={windowed}"
            ),
            *(
                f"[2025-12-01 10:00:05 TP0] KV Cache is allocated. #tokens: {slots}, K size: "
                f"{start_up.gib(slots * 12 * row)} GB, V size: {start_up.gib(slots * 12 * row)} GB"
                for slots in (windowed, full)
            ),
            "[2025-12-01 10:00:06 TP0] max_total_num_tokens=400000, context_len=131072",
        )
    )
    found = read(text)
    assert finding(found, "K pool of windowed layers").status == "explained"
    assert finding(found, "V pool of full layers").status == "explained"


def test_sglang_latent_and_state() -> None:
    """A latent is one pool of 576 values a layer; states are counted by slot."""
    slots = 500_000
    text = "\n".join(
        (
            (
                "[2025-12-01 10:00:00] "
                "server_args=ServerArgs(model_path='deepseek-ai/DeepSeek-V3', "
                "page_size=64, tp_size=8, kv_cache_dtype='auto')"
            ),
            (
                f"[2025-12-01 10:00:05 TP3] KV Cache is allocated. #tokens: {slots}, KV size: "
                f"{start_up.gib((slots + 64) * 61 * 576 * 2)} GB"
            ),
            f"[2025-12-01 10:00:06 TP3] max_total_num_tokens={slots}, context_len=163840",
        )
    )
    pool = finding(read(text), "KV pool")
    assert pool.status == "explained"
    assert pool.place == "TP3"
    assert "70,272 B a token per rank of tp 8" in pool.explanation


def test_tensorrt_llm_takes_a_share_of_what_is_free() -> None:
    """0.9 of the free memory in blocks of 64, rounded up, a byte a value."""
    found = read(start_up.tensorrt_llm(), model="llama-3.1-8b", dtype="fp8")
    assert found.version == "0.17.0"
    assert finding(found, "blocks").predicted == start_up.TRT_BLOCKS
    tokens = finding(found, "tokens in the pool")
    assert tokens.status == "explained"
    assert "0.9 (the default) × 21.37 GiB free" in tokens.explanation
    assert finding(found, "pool").status == "explained"
    weights = finding(found, "weights")
    assert weights.status == "explained"
    assert weights.assumes == "the weights are in fp8, not in bf16"


def test_tensorrt_llm_gives_its_trial_pool_back() -> None:
    """The torch back end: device less peak plus the trial pool, times the fraction."""
    found = read(start_up.tensorrt_llm_torch(), model="llama-3.1-8b")
    room = finding(found, "memory for the cache")
    assert room.status == "explained"
    assert "0.85 of what is left free" in room.explanation
    assert finding(found, "kv size").predicted == 131_072
    assert finding(found, "tokens in the pool").value == start_up.TORCH_TOKENS
    assert finding(found, "tokens in the pool").status == "explained"
    assert finding(found, "trial pool").value == 8608


def test_old_tensorrt_llm_prints_bytes() -> None:
    """0.8 printed exact bytes: 21,504 tokens of 131,072 B."""
    text = (
        "[TensorRT-LLM][INFO] Allocate 2818572288 bytes for k/v cache. \n"
        "[TensorRT-LLM][INFO] Using 21504 tokens in paged KV cache.\n"
        "[TensorRT-LLM] TensorRT-LLM version: 0.8.0\n"
    )
    found = read(text, model="llama-3.1-8b")
    assert finding(found, "pool").status == "explained"
    wrong = read(text.replace("2818572288", "2818572289"), model="llama-3.1-8b")
    assert finding(wrong, "pool").status == "explained", "within a millionth"
    wrong = read(text.replace("2818572288", "2818672288"), model="llama-3.1-8b")
    assert finding(wrong, "pool").unexplained == 100_000


def test_llama_cpp_explains_itself() -> None:
    """Without any model named: cells padded to 256, rows of q8_0 with their scales."""
    found = read(start_up.llama_cpp())
    assert (found.engine, found.dtype) == ("llama.cpp", "q8_0")
    assert finding(found, "cells").predicted == 10240
    cache = finding(found, "K cache")
    assert cache.status == "explained"
    assert cache.predicted == 10240 * 28 * 8 * 128 * 34 / 32
    assert finding(found, "model buffers").status == "explained"
    assert found.unexplained == ()


def test_llama_cpp_adds_equal_devices_and_leaves_trials_out() -> None:
    """Two devices with the same share both count; a trial load before does not."""
    text = (
        "print_info: file size   = 4.00 GiB (4.80 BPW)\n"
        "load_tensors: CUDA0 model buffer size = 0.00 MiB\n"
        "print_info: file size   = 4.00 GiB (4.80 BPW)\n"
        "load_tensors: CUDA0 model buffer size = 2048.00 MiB\n"
        "load_tensors: CUDA1 model buffer size = 2048.00 MiB\n"
        "llama_context: n_ctx         = 4096\n"
    )
    buffers = finding(read(text), "model buffers")
    assert (buffers.status, buffers.value) == ("explained", 4 * GIB)


def test_llama_cpp_windows_have_cells_of_their_own() -> None:
    """Windowed layers: 1,024 + a micro-batch of 512, in the 52 layers that have the window."""
    found = read(start_up.llama_cpp_windows())
    assert found.model == "Gemma-3-27B"
    cells = finding(found, "cells of windowed layers")
    assert (cells.status, cells.predicted) == ("explained", 1536)
    assert "n_ubatch 512" in cells.explanation
    for figure in ("K cache", "V cache of windowed layers"):
        assert finding(found, figure).status == "explained", figure


def test_llama_cpp_before_cells_were_printed() -> None:
    """The older line has K and V alone; its cells are n_ctx."""
    text = (
        "llm_load_print_meta: n_layer          = 28\n"
        "llm_load_print_meta: n_head           = 28\n"
        "llm_load_print_meta: n_head_kv        = 4\n"
        "llm_load_print_meta: n_embd_head_k    = 128\n"
        "llm_load_print_meta: n_embd_head_v    = 128\n"
        "llama_new_context_with_model: n_ctx      = 3072\n"
        "llama_kv_cache_init:      CUDA0 KV buffer size =   168.00 MiB\n"
        "llama_new_context_with_model: KV self size  =  168.00 MiB, K (f16):   84.00 MiB, "
        "V (f16):   84.00 MiB\n"
    )
    cache = finding(read(text), "K cache")
    assert (cache.status, cache.predicted) == ("explained", 84 * 2**20)


def test_llama_cpp_state_is_f32_always() -> None:
    """Qwen3-Next's states are f32 whatever the cache holds: 36 layers of 32·128·128."""
    conv = 36 * (2 * 16 * 128 + 32 * 128) * 3 * 4
    state = 36 * 32 * 128 * 128 * 4
    text = "\n".join(
        (
            "print_info: n_layer          = 48",
            "llama_context: n_ctx         = 8192",
            (
                f"llama_memory_recurrent: size = {start_up.mib(conv + state)} MiB (     "
                f"1 cells,  48 "
                f"layers,  1 seqs), R (f32): {start_up.mib(conv)} MiB, S (f32): "
                f"{start_up.mib(state)} MiB"
            ),
        )
    )
    found = read(text, model="qwen3-next-80b-a3b")
    assert finding(found, "recurrent states").status == "explained"
    assert finding(found, "convolution states").status == "explained"


def test_typed_fields_win_over_the_log() -> None:
    """A typed format and model replace what the log says of them."""
    found = read(start_up.vllm_v1(), model="llama-3.1-8b", tp="1")
    assert (found.model, found.model_from, found.tp) == ("Llama-3.1-8B", "typed", 1)
    assert "GPU KV cache size" in [one.figure for one in found.unexplained]


def test_an_unknown_model_is_said() -> None:
    """Without a known model the figures are named, implied bytes are given, a sentence says why."""
    found = read(start_up.vllm_v1().replace("Qwen/Qwen3-8B", "someone/secret-12b"))
    assert found.model is None
    assert "secret-12b" in found.warnings[0]
    tokens = finding(found, "GPU KV cache size")
    assert tokens.status == "measured"
    assert "73,7" in tokens.explanation


# gpt-oss-20b: 12 layers keep everything, 12 a window of 128; 8 KV heads of 64: 2,048 B a layer.
OSS_POOL = 9_876_543_210
OSS_BLOCKS = OSS_POOL // (12 * 16 * 2_048)


def gpt_oss(tokens: int, concurrency: float, length: int = 8192) -> str:
    return (
        "INFO [scheduler.py:225] Chunked prefill is enabled with max_num_batched_tokens=2048.\n"
        "INFO [core.py:97] Initializing a V1 LLM engine (v0.11.1) with config: "
        f"model='openai/gpt-oss-20b', dtype=torch.bfloat16, max_seq_len={length}\n"
        f"INFO Available KV cache memory: {start_up.gib(OSS_POOL)} GiB\n"
        f"INFO GPU KV cache size: {tokens:,} tokens\n"
        f"INFO Maximum concurrency for {length:,} tokens per request: {concurrency:.2f}x\n"
    )


def test_vllm_with_windows_counts_groups() -> None:
    """Two groups of 12 layers share the blocks; a request reserves 512 and 137 of them."""
    text = gpt_oss(OSS_BLOCKS // 2 * 16, OSS_BLOCKS / (512 + 137))
    found = read(text)
    tokens = finding(found, "GPU KV cache size")
    assert (tokens.status, tokens.assumes) == ("explained", "")
    assert "over 2 groups" in tokens.explanation
    concurrency = finding(found, "maximum concurrency")
    assert (concurrency.status, concurrency.assumes) == ("explained", "")
    assert "649 that a request" in concurrency.explanation


def test_newer_vllm_prints_concurrency_times_length() -> None:
    """The same pool as newer versions print it is told from the older count."""
    concurrency = OSS_BLOCKS / (512 + 137)
    tokens = finding(read(gpt_oss(int(concurrency * 8192), concurrency)), "GPU KV cache size")
    assert tokens.status == "explained"
    assert "concurrency × length" in tokens.explanation


def test_two_figures_never_explain_each_other() -> None:
    """Tokens made of the concurrency do not make the concurrency right: the pool must."""
    twice = 2 * OSS_BLOCKS / (512 + 137)
    found = read(gpt_oss(int(twice * 8192), twice))
    concurrency = finding(found, "maximum concurrency")
    assert concurrency.status == "unexplained"
    assert concurrency.remainder.endswith("requests more")


@pytest.mark.parametrize(
    ("layers", "assumes"),
    [(7 * 10, ""), (62, "the hybrid cache manager is off: every layer is charged for every token")],
)
def test_groups_are_padded_and_may_be_off(layers: int, assumes: str) -> None:
    """Gemma-3-27B's 10 and 52 layers are 7 groups of 10, 8 of them padding; or all 62 in full."""
    pool = 30 * GIB
    text = (
        "INFO [core.py:97] Initializing a V1 LLM engine (v0.11.1) with config: "
        "model='google/gemma-3-27b-it', dtype=torch.bfloat16, max_seq_len=8192\n"
        "INFO Available KV cache memory: 30.00 GiB\n"
        f"INFO GPU KV cache size: {pool // (layers * 16 * 8_192) * 16:,} tokens\n"
    )
    tokens = finding(read(text), "GPU KV cache size")
    assert (tokens.status, tokens.assumes) == ("explained", assumes)


@pytest.mark.parametrize(
    ("length", "batched", "overlap", "needed"),
    # What one request of gpt-oss-20b reserves, MiB, worked out by others from vLLM's own rule:
    # 243.4, 819.4 and 3,123.4 with 2,048 in flight; 384.4 and 963.4 with 8,192; twice as many
    # tokens where steps overlap: 1,155.4 and 3,459.4.
    [
        (8192, 2048, False, 243.375),
        (32768, 2048, False, 819.375),
        (131072, 2048, False, 3123.375),
        (8192, 8192, False, 384.375),
        (32768, 8192, False, 963.375),
        (32768, 8192, True, 1155.375),
        (131072, 8192, True, 3459.375),
    ],
)
def test_vllm_reserves_windows_and_what_is_in_flight(
    length: int, batched: int, overlap: bool, needed: float
) -> None:
    """A refusal to start is explained by whole blocks of both groups."""
    text = gpt_oss(1600, 0.1, length).replace("tokens=2048", f"tokens={batched}") + (
        f"ValueError: To serve at least one request with the models's max seq len ({length}), "
        f"({needed / 1024:.2f} GiB KV cache is needed, which is larger than the available KV cache "
        "memory (0.10 GiB).\n"
    )
    if overlap:
        text = f"INFO [vllm.py:790] Asynchronous scheduling is enabled.\n{text}"
    found = finding(read(text), "cache needed")
    assert (found.status, found.assumes) == ("explained", "")
    assert found.predicted == needed * 2**20


def test_vllm_beside_recurrent_layers() -> None:
    """Qwen3-Next in pages of 544 tokens: 12 layers keep K and V, 36 a state of one page each."""
    page = 544 * 2 * 2 * 256 * 2
    pool = 40 * GIB
    blocks = pool // (12 * page)
    length = 32768
    text = (
        "INFO [config.py:439] Setting attention block size to 544 tokens to ensure that attention "
        "page size is >= mamba page size.\n"
        "INFO [core.py:97] Initializing a V1 LLM engine (v0.11.1) with config: "
        f"model='Qwen/Qwen3-Next-80B-A3B-Instruct', dtype=torch.bfloat16, max_seq_len={length}\n"
        "INFO Available KV cache memory: 40.00 GiB\n"
        f"INFO GPU KV cache size: {blocks // 4 * 544:,} tokens\n"
        f"INFO Maximum concurrency for {length:,} tokens per request: "
        f"{blocks / (-(-length // 544) + 3):.2f}x\n"
    )
    found = read(text)
    tokens = finding(found, "GPU KV cache size")
    assert (tokens.status, tokens.assumes) == ("explained", "")
    assert "over 4 groups" in tokens.explanation
    concurrency = finding(found, "maximum concurrency")
    assert (concurrency.status, concurrency.assumes) == ("explained", "")
