"""vLLM: what its start-up lines are called and how they come about.

Wordings of 0.2 to 0.29, from ``vllm/worker/worker.py`` and ``executor_base.py`` (V0),
``vllm/v1/worker/gpu_worker.py``, ``gpu_model_runner.py`` and ``v1/core/kv_cache_utils.py`` (V1).
"GB" in old lines is 2^30 too. Each worker logs for itself; the pool is that of the least.
"""

from collections.abc import Iterator
from typing import Final

from kvtui.reconcile.case import Case, only, per_token, text_setting
from kvtui.reconcile.engines.common import sum_finding, tokens_finding, weights_finding
from kvtui.reconcile.findings import Finding, Hypothesis, measured, settled
from kvtui.reconcile.readings import Log, Reading, pattern
from kvtui.sources.request import Request
from kvtui.units import format_bytes

_BLOCK: Final = 16
"""Tokens of a page where nothing else is said."""
_UTILIZATION: Final = 0.9
_DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"}

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
    pattern("non-default args", r"'block_size': (?P<block__count>\d+)", telling=False),
    pattern(
        "non-default args",
        r"'gpu_memory_utilization': (?P<utilization__exact>[\d.]+)",
        telling=False,
    ),
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


def said(log: Log) -> Request:
    """Length, page, ranks, format and share of memory, as far as the log states them."""
    dtype = text_setting(log, "kv_dtype") or _DTYPES.get(log.text("dtype") or "")
    return Request(
        dtype=dtype,
        tp=_whole(log, "tp"),
        pp=_whole(log, "pp"),
        dcp=_whole(log, "dcp"),
        block=_whole(log, "block") or str(_BLOCK),
        context=_whole(log, "max_len") or _whole(log, "concurrency_len"),
        utilization=None if log.value("utilization") is None else str(log.value("utilization")),
        memory=None if log.value("total") is None else f"{log.value('total'):.0f}",
    )


def findings(log: Log, found: Case | None) -> Iterator[Finding]:
    """Weights, the pool, its tokens or blocks, the concurrency, graphs."""
    yield from _memory(log, found)
    pool = log.least("pool") or log.least("rest")
    block = int(log.value("block") or _BLOCK)
    tokens, blocks = log.last("tokens"), log.last("blocks")
    if tokens is not None:
        yield _tokens(tokens, pool, found, block)
    if blocks is not None:
        yield _blocks(blocks, pool, found, block)
    yield from _concurrency(log, block)
    yield from _needed(log, found, block)
    graph = log.last("graph")
    if graph is not None:
        yield measured("CUDA graphs", graph, "captured after the pool is taken, beside it")


def _memory(log: Log, found: Case | None) -> Iterator[Finding]:
    """What is taken before the pool, and the share of memory it is left of."""
    for reading in dict.fromkeys(_first_each(log.all("weights"))):
        yield weights_finding("model weights", reading, found)
    usable, total, share = log.last("usable"), log.last("total"), log.last("utilization")
    if usable is not None and total is not None and share is not None:
        words = f"{share.printed} of the device's total memory, {total.printed}"
        # Version 0 prints the share to two digits, whatever was typed.
        slack = total.half * share.value + total.value * share.half
        product = Hypothesis(total.value * share.value, words, slack)
        yield settled("usable memory", usable, "bytes", [product])
    activation = log.last("activation")
    non_torch, estimate = log.last("non_torch"), log.last("graph_estimate")
    if activation is not None:
        yield measured("peak activation", activation, "of a profiling run of the largest batch")
    if non_torch is not None:
        yield measured("non-torch memory", non_torch, "NCCL, the context and other libraries")
    if estimate is not None:
        yield measured("estimated CUDA graphs", estimate, "taken off the pool since 0.21")
    pool = log.least("pool") or log.least("rest")
    if pool is None:
        return
    peak = log.last("peak")
    if peak is not None and total is not None and share is not None and non_torch is not None:
        yield _of_total(pool, total, share, peak, non_torch)
        return
    consumed = log.last("profiled_weights") or log.last("consumed")
    if usable is None or consumed is None or activation is None:
        yield measured("memory for the cache", pool, _left(log, pool, found))
        return
    parts = [(1.0, usable, "usable"), (-1.0, consumed, "weights"), (-1.0, activation, "activation")]
    if non_torch is not None:
        parts.append((-1.0, non_torch, "non-torch"))
    plain = sum_finding("memory for the cache", pool, parts, "what is left")
    if plain.status == "unexplained" and estimate is not None:
        parts.append((-1.0, estimate, "estimated graphs"))
        plain = sum_finding("memory for the cache", pool, parts, "what is left since 0.21")
    yield plain


def _of_total(
    pool: Reading, total: Reading, share: Reading, peak: Reading, non_torch: Reading
) -> Finding:
    """The pool as 0.6 prints its terms: the peak of the profiling run holds the weights."""
    words = (
        f"{share.printed} × {total.printed} in all − {peak.printed} at the peak, weights included, "
        f"− {non_torch.printed} non-torch"
    )
    slack = total.value * share.half + total.half + peak.half + non_torch.half
    predicted = total.value * share.value - peak.value - non_torch.value
    return settled("memory for the cache", pool, "bytes", [Hypothesis(predicted, words, slack)])


def _left(log: Log, pool: Reading, found: Case | None) -> str:
    """What is known of a pool whose terms the log does not print."""
    least = "the least of the workers" if len(log.all("pool")) > 1 else "of one worker"
    rule = "total × utilization − weights − activation − non-torch (− graphs since 0.21)"
    total, share, weights = log.value("total"), log.value("utilization"), log.value("weights")
    default = ""
    if found is not None:
        total = total or found.scenario.device.memory_bytes
    if share is None:
        share, default = _UTILIZATION, " (the default before it became 0.92)"
    if total is None or weights is None:
        return f"{least}: {rule}; give --memory or --gpu to see what remains of it"
    rest = total * share - weights - pool.value
    return (
        f"{least}: {rule}; of {share:g}{default} × {format_bytes(total)}, {format_bytes(rest)} "
        "went to activation, non-torch memory and graphs"
    )


def _tokens(tokens: Reading, pool: Reading | None, found: Case | None, block: int) -> Finding:
    if pool is None or found is None or pool.value <= 0:
        return measured("GPU KV cache size", tokens, _implied(tokens, pool), "tokens")
    question = found.scenario
    finding = tokens_finding(
        "GPU KV cache size",
        tokens,
        pool,
        per_token(question),
        page=block,
        ranks=question.parallel.dcp,
        rule="num_blocks = memory // page, kv_cache_utils.py",
    )
    full = only(question.model, windows=False)
    if finding.status == "unexplained" and full is not None and full != question.model:
        again = tokens_finding(
            "GPU KV cache size",
            tokens,
            pool,
            per_token(question, full),
            page=block,
            rule="windowed and recurrent layers counted as nothing",
        )
        return again if again.status == "explained" else finding
    return finding


def _implied(tokens: Reading, pool: Reading | None) -> str:
    if pool is None or pool.value <= 0 or not tokens.value:
        return "blocks of all groups times their size"
    return f"{pool.printed} over them is {pool.value / tokens.value:,.0f} B a token on one rank"


def _blocks(blocks: Reading, pool: Reading | None, found: Case | None, block: int) -> Finding:
    if pool is None or found is None or pool.value <= 0:
        return measured("GPU blocks", blocks, f"pages of {block} tokens", "blocks")
    hypotheses = [
        Hypothesis(
            pool.value // (one.bytes * block),
            f"{pool.printed} / ({block} × {one.words})",
            pool.half / (one.bytes * block) + 1,
            one.assumes,
        )
        for one in per_token(found.scenario)
        if one.bytes
    ]
    return settled("GPU blocks", blocks, "blocks", hypotheses)


def _concurrency(log: Log, block: int) -> Iterator[Finding]:
    for reading in _first_each(log.all("concurrency")):
        length = log.beside("concurrency_len", reading)
        tokens = log.value("tokens") or (log.value("blocks") or 0) * block
        if length is None or not length.value or not tokens:
            continue
        pages = -(-int(length.value) // block) * block
        yield settled(
            "maximum concurrency",
            reading,
            "requests",
            [
                Hypothesis(
                    tokens / pages,
                    f"{tokens:,.0f} tokens / {length.printed} in whole pages of {block}",
                    0.005,
                ),
                Hypothesis(
                    tokens / length.value, f"{tokens:,.0f} tokens / {length.printed}", 0.005
                ),
            ],
        )


def _needed(log: Log, found: Case | None, block: int) -> Iterator[Finding]:
    """The refusal to start: bytes of one longest request, and the longest that would fit."""
    needed, length = log.last("needed"), log.last("needed_len")
    if needed is None or length is None:
        return
    if found is None:
        yield measured("cache needed", needed, f"for one request of {length.printed}")
        return
    tokens = -(-int(length.value) // block) * block
    yield settled(
        "cache needed",
        needed,
        "bytes",
        [
            Hypothesis(tokens * one.bytes, f"{tokens:,} tokens × {one.words}", 0, one.assumes)
            for one in per_token(found.scenario)
        ],
    )
    longest, pool = log.last("longest"), log.last("pool")
    if longest is not None and pool is not None:
        yield tokens_finding(
            "estimated maximum model length",
            longest,
            pool,
            per_token(found.scenario),
            page=block,
            rule="the longest request that fits, kv_cache_utils.py",
        )


def _first_each(found: tuple[Reading, ...]) -> list[Reading]:
    """Equal figures of several ranks once."""
    seen: dict[float, Reading] = {}
    for one in found:
        seen.setdefault(one.value, one)
    return list(seen.values())


def _whole(log: Log, name: str) -> str | None:
    value = log.value(name)
    return None if value is None else f"{value:.0f}"
