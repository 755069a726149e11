"""TensorRT-LLM: what its start-up lines are called and how they come about.

Wordings of 0.8 to 1.2, from ``cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp``,
``runtime/memoryCounters`` and ``tensorrt_llm/_torch/pyexecutor/_util.py``. The fraction is of the
memory left free, not of the device; a first small pool is made to measure with, and dropped.
"""

from collections.abc import Iterator
from typing import Final

from kvtui.reconcile.case import Case, per_token, text_setting
from kvtui.reconcile.engines.common import pool_finding, sum_finding, weights_finding
from kvtui.reconcile.findings import Finding, Hypothesis, measured, settled
from kvtui.reconcile.readings import Log, Reading, pattern
from kvtui.sources.request import Request

_FRACTION: Final = 0.9
"""``free_gpu_memory_fraction`` where nothing else is said."""

PATTERNS: Final = (
    pattern("TensorRT-LLM version", r"TensorRT-LLM version:? *(?P<version__text>[^\s,]+)"),
    pattern("[TensorRT-LLM]", r"(?P<mark__text>\[TensorRT-LLM\]\[\w+\])"),
    pattern(
        "[TRT-LLM]",
        r"(?P<mark__text>\[TRT-LLM\])(?:.{0,400}\bmodel='(?P<model__text>[^']{1,300})')?",
    ),
    pattern("Loaded engine size", r"engine size: (?P<engine__size>[\d.]+) MiB"),
    pattern(
        "for execution context memory", r"Allocated (?P<context__size>[\d.]+) \w+ for execution"
    ),
    pattern(
        "GPU memory for runtime buffers", r"Allocated (?P<buffers__size>[\d.]+) \w+ GPU memory"
    ),
    pattern("GPU memory for decoder", r"Allocated (?P<decoder__size>[\d.]+) \w+ GPU memory"),
    pattern(
        "when calculating max tokens in paged kv cache",
        r"total: (?P<total__gib>[\d.]+) GiB, available: (?P<available__gib>[\d.]+) GiB",
    ),
    pattern("blocks in KV cache primary pool", r"pool[^:]*: (?P<blocks__count>\d+)"),
    pattern("Number of tokens per block", r"per block: (?P<page__count>\d+)"),
    pattern("Max KV cache", r"per sequence: (?P<pages_each__count>\d+)", telling=False),
    pattern(
        "for max tokens in paged KV cache",
        r"Allocated (?P<pool__size>[\d.]+) \w+ for max tokens in paged KV cache "
        r"\((?P<tokens__count>\d+)\)",
    ),
    pattern("bytes for k/v cache", r"Allocate (?P<pool__bytes>\d+) bytes"),
    pattern("in paged KV cache", r"Using (?P<tokens__count>\d+) (?:total )?tokens in paged"),
    pattern(
        "after loading model weights (inside torch)", r"profiling: (?P<weights__gib>[\d.]+) GiB"
    ),
    pattern(
        "dynamically allocated during inference", r"profiling: (?P<activation__gib>[\d.]+) GiB"
    ),
    pattern("Memory used outside torch", r"profiling: (?P<outside__gib>[\d.]+) GiB"),
    pattern(
        "Peak memory during memory usage profiling",
        r"non-torch\): (?P<peak__gib>[\d.]+) GiB, available KV cache memory when calculating max "
        r"tokens: (?P<room__gib>[\d.]+) GiB, fraction is set (?P<fraction__exact>[\d.]+), "
        r"kv size is (?P<per_token__count>\d+)\.? device total memory "
        r"(?P<device__gib>[\d.]+) GiB(?:.*tmp kv_mem (?P<trial__gib>[\d.]+) GiB)?",
    ),
    pattern("free_gpu_memory_fraction", r"set \(to (?P<fraction__exact>[\d.]+)", telling=False),
    pattern("Estimated max tokens in KV cache", r"cache : (?P<estimated__count>\d+)"),
    pattern("max_seq_len=", r"max_seq_len=(?P<max_len__count>\d+), max_num_requests"),
    pattern("tensor_parallel_size=", r"tensor_parallel_size=(?P<tp__count>\d+)", telling=False),
    pattern("KV Cache Dtype", r"KV Cache Dtype: +(?P<kv_dtype__text>\w+)", telling=False),
)


def said(log: Log) -> Request:
    """Length, page, ranks and format, as far as the log states them."""
    dtype = text_setting(log, "kv_dtype")
    return Request(
        dtype=None if dtype is None else dtype.lower(),
        tp=_whole(log, "tp"),
        block=_whole(log, "page"),
        context=_whole(log, "max_len"),
    )


def findings(log: Log, found: Case | None) -> Iterator[Finding]:
    """Weights, what is free, the pool with its blocks and tokens."""
    weights = log.last("weights") or log.last("engine")
    if weights is not None:
        yield weights_finding("weights", weights, found)
    for name, title, words in (
        ("context", "execution context", "activations of the engine, made once"),
        ("buffers", "runtime buffers", "inputs and outputs of the largest batch"),
        ("decoder", "decoder", "sampling state of the largest batch"),
        ("activation", "peak activation", "inside torch, of a profiling run"),
        ("outside", "outside torch", "NCCL, CUDA graphs, the context, other processes"),
    ):
        reading = log.last(name)
        if reading is not None:
            yield measured(title, reading, words)
    yield from _room(log)
    yield from _bytes_a_token(log, found)
    yield from _pool(log, found)


def _room(log: Log) -> Iterator[Finding]:
    """The share of what is free."""
    room, device, peak = log.last("room"), log.last("device"), log.last("peak")
    share = log.value("fraction")
    if room is None or device is None or peak is None or share is None:
        return
    share = round(share, 6)
    parts = [(share, device, "of the device"), (-share, peak, "at the peak")]
    trial = log.last("trial")
    if trial is not None:
        parts.append((share, trial, "of the trial pool, given back"))
    yield sum_finding("memory for the cache", room, parts, f"{share:g} of what is left free")


def _bytes_a_token(log: Log, found: Case | None) -> Iterator[Finding]:
    reading = log.last("per_token")
    if reading is None:
        return
    if found is None:
        yield measured("kv size", reading, "bytes of one token on one rank")
        return
    yield settled(
        "kv size",
        reading,
        "bytes",
        [Hypothesis(one.bytes, one.words, 0.5, one.assumes) for one in per_token(found.scenario)],
    )


def _pool(log: Log, found: Case | None) -> Iterator[Finding]:
    pool, tokens, blocks = log.last("pool"), log.last("tokens"), log.last("blocks")
    page, trials = int(log.value("page") or 0), log.all("tokens")
    if log.value("trial") and len(trials) > 1 and trials[0].value != trials[-1].value:
        yield measured("trial pool", trials[0], "made to measure the peak with", "tokens")
    if tokens is None:
        return
    if blocks is not None and page:
        yield settled(
            "blocks",
            blocks,
            "blocks",
            [
                Hypothesis(
                    -(-tokens.value // page),
                    f"{tokens.printed} tokens / {page} a block, rounded up",
                )
            ],
        )
    per = [] if found is None else [one for one in per_token(found.scenario) if one.bytes]
    room, words = _free(log)
    if per and room is not None:
        yield settled(
            "tokens in the pool",
            tokens,
            "tokens",
            [
                Hypothesis(
                    room.value // one.bytes,
                    f"{words} / {one.words}, rounded up to whole blocks",
                    room.half / one.bytes + (page or 1),
                    one.assumes,
                )
                for one in per
            ],
        )
    else:
        yield measured("tokens in the pool", tokens, _implied(tokens, pool), "tokens")
    if pool is not None and per:
        yield pool_finding(
            "pool", pool, tokens.value, [(one.bytes, one.words, one.assumes) for one in per]
        )


def _free(log: Log) -> tuple[Reading | None, str]:
    """What the tokens are cut from: the share of free memory, as either back end prints it."""
    room, available = log.last("room"), log.last("available")
    if room is not None:
        return room, room.printed
    if available is None:
        return None, ""
    share = log.value("fraction") or _FRACTION
    said_so = "" if log.value("fraction") else " (the default)"
    value, half = available.value * share, available.half * share
    cut = Reading("room", value, half, available.printed, available.line, available.place)
    return cut, f"{share:g}{said_so} × {available.printed} free"


def _implied(tokens: Reading, pool: Reading | None) -> str:
    if pool is None or not tokens.value:
        return "slots of the pool"
    return f"{pool.printed} over them is {pool.value / tokens.value:,.0f} B a token on one rank"


def _whole(log: Log, name: str) -> str | None:
    value = log.value(name)
    return None if value is None else f"{value:.0f}"
