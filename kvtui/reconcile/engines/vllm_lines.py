"""The wordings of vLLM's start-up lines, 0.2 to 0.29.

From ``vllm/worker/worker.py`` and ``executor_base.py`` (V0), ``vllm/v1/worker/gpu_worker.py``,
``gpu_model_runner.py`` and ``v1/core/kv_cache_utils.py`` (V1). "GB" in old lines is 2^30 too.
"""

from typing import Final

from kvtui.reconcile.readings import pattern

PATTERNS: Final = (
    pattern(
        "LLM engine (v",
        r"LLM engine \(v(?P<version__text>[^)]{1,80})\) with config: "
        r"(?:.{0,200}?model=(?P<model__text>'[^']{1,300}'|\"[^\"]{1,300}\"))?",
    ),
    pattern("LLM engine (v", r"[ ,]dtype=torch\.(?P<dtype__text>\w+)", telling=False),
    pattern("LLM engine (v", r"max_seq_len=(?P<max_len__count>\d+)", telling=False),
    pattern("LLM engine (v", r"tensor_parallel_size=(?P<tp__count>\d+)", telling=False),
    pattern("LLM engine (v", r"pipeline_parallel_size=(?P<pp__count>\d+)", telling=False),
    pattern("LLM engine (v", r"decode_context_parallel_size=(?P<dcp__count>\d+)", telling=False),
    pattern("LLM engine (v", r"kv_cache_dtype=(?P<kv_dtype__text>[\w.]+)", telling=False),
    pattern("non-default args", r"'model(?:_tag)?': (?P<model__text>'[^']{1,300}')", telling=False),
    pattern("non-default args", r"'kv_cache_dtype': '(?P<kv_dtype__text>\w+)'", telling=False),
    pattern("non-default args", r"'max_model_len': (?P<max_len__count>\d+)", telling=False),
    pattern("non-default args", r"'tensor_parallel_size': (?P<tp__count>\d+)", telling=False),
    pattern("non-default args", r"'block_size': (?P<block__count>\d+)", telling=False),
    pattern(
        "non-default args",
        r"'gpu_memory_utilization': (?P<utilization__exact>[\d.]+)",
        telling=False,
    ),
    pattern("enable_prefix_caching", r"enable_prefix_caching'?[=:] ?(?P<prefix__text>True|False)"),
    pattern("max_num_batched_tokens", r"max_num_batched_tokens'?[=:] ?(?P<in_flight__count>\d+)"),
    pattern("Asynchronous scheduling is enabled", r"(?P<async__text>Asynchronous)"),
    pattern("Setting attention block size", r"block size to (?P<block__count>\d+) tokens"),
    pattern("odel loading took", r"Model loading took (?P<weights__gib>[\d.]+) Gi?B"),
    pattern("model weights took", r"model weights took (?P<weights__gib>[\d.]+) Gi?B"),
    pattern(
        "x gpu_memory_utilization",
        r"total_gpu_memory \((?P<total__gib>[\d.]+)GiB\) x gpu_memory_utilization "
        r"\((?P<utilization__ratio>[\d.]+)\) = (?P<usable__gib>[\d.]+)GiB",
    ),
    pattern(
        "non_torch_memory takes",
        r"model weights take (?P<profiled_weights__gib>[\d.]+)GiB; non_torch_memory takes "
        r"(?P<non_torch__gib>-?[\d.]+)GiB; PyTorch activation peak memory takes "
        r"(?P<activation__gib>[\d.]+)GiB",
    ),
    pattern("reserved for KV Cache is", r"KV Cache is (?P<rest__gib>-?[\d.]+)GiB"),
    pattern(
        "peak_torch_memory=",
        r"total_gpu_memory=(?P<total__gib>[\d.]+)GiB .{0,60}?peak_torch_memory="
        r"(?P<peak__gib>[\d.]+)GiB .{0,60}?non_torch_memory=(?P<non_torch__gib>-?[\d.]+)GiB "
        r"kv_cache_size=(?P<rest__gib>-?[\d.]+)GiB gpu_memory_utilization="
        r"(?P<utilization__ratio>[\d.]+)",
    ),
    pattern("GPU blocks: ", r"GPU blocks: (?P<blocks__count>\d+)"),
    pattern("# cuda blocks: ", r"# cuda blocks: (?P<blocks__count>\d+)"),
    pattern("Available KV cache memory", r"memory: (?P<pool__gib>-?[\d.]+) GiB"),
    pattern("GPU KV cache size", r"GPU KV cache size: (?P<tokens__count>[\d,]+) tokens"),
    pattern("can be stored in KV cache", r"stored in KV cache \((?P<tokens__count>\d+)\)"),
    pattern(
        "Maximum concurrency for",
        r"for (?P<concurrency_len__count>[\d,]+) tokens per request: "
        r"(?P<concurrency__ratio>[\d.]+)x",
    ),
    pattern("Estimated CUDA graph memory", r"memory: (?P<graph_estimate__gib>-?[\d.]+) GiB"),
    pattern("Graph capturing finished", r"took (?P<graph__gib>-?[\d.]+) GiB"),
    pattern(
        "Desired GPU memory utilization",
        r"device \((?P<free__gib>[\d.]+)/(?P<total__gib>[\d.]+) GiB\) on startup\. Desired GPU "
        r"memory utilization is \((?P<utilization__exact>[\d.]+), (?P<usable__gib>[\d.]+) GiB\)",
    ),
    pattern(
        "for peak activation",
        r"usage is (?P<consumed__gib>[\d.]+) GiB for (?:weight|consumed memory).{0,60}?, "
        r"(?P<activation__gib>[\d.]+) GiB for peak activation",
    ),
    pattern("for non-torch memory", r"(?P<non_torch__gib>-?[\d.]+) GiB for non-torch memory"),
    pattern(
        "less than desired GPU memory utilization",
        r"device[^(]*\((?P<free__gib>[\d.]+)/(?P<total__gib>[\d.]+) GiB\).{0,200}?utilization "
        r"\((?P<utilization__exact>[\d.]+), (?P<usable__gib>[\d.]+) GiB\)",
    ),
    pattern(
        "GiB KV cache is needed",
        r"max seq len \((?P<needed_len__count>\d+)\), \(?(?P<needed__gib>[\d.]+) GiB KV cache",
    ),
    pattern("available KV cache memory (", r"memory \((?P<pool__gib>-?[\d.]+) GiB\)"),
    pattern("estimated maximum model length", r"length is (?P<longest__count>\d+)"),
)
