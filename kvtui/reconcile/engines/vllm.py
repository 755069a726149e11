"""vLLM: how the figures of its start-up come about.

Read from ``vllm/worker/worker.py`` and ``executor_base.py`` (V0), ``vllm/v1/worker/gpu_worker.py``
and ``v1/core/kv_cache_utils.py`` (V1). Each worker logs for itself; the pool is that of the least.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kvtui.reconcile.case import Case, per_token, text_setting
from kvtui.reconcile.engines.common import sum_finding, tokens_finding, weights_finding
from kvtui.reconcile.engines.vllm_groups import Grouped, grouped
from kvtui.reconcile.findings import Finding, Hypothesis, measured, settled
from kvtui.reconcile.readings import Log, Reading
from kvtui.sources.request import Request
from kvtui.units import format_bytes

_BLOCK: Final = 16
"""Tokens of a page where nothing else is said."""
_UTILIZATION: Final = 0.9
_DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"}


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
        yield _tokens(log, tokens, pool, found, block)
    if blocks is not None:
        yield _blocks(blocks, pool, found, block)
    yield from _concurrency(log, pool, found, block)
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


def _tokens(
    log: Log, tokens: Reading, pool: Reading | None, found: Case | None, block: int
) -> Finding:
    if pool is None or found is None or pool.value <= 0:
        return measured("GPU KV cache size", tokens, _implied(tokens, pool), "tokens")
    question = found.scenario
    layers = grouped(question, block)
    plain = tokens_finding(
        "GPU KV cache size",
        tokens,
        pool,
        per_token(question),
        page=block,
        ranks=question.parallel.dcp,
        rule="num_blocks = memory // page, kv_cache_utils.py",
    )
    if layers is None:
        return plain
    by_group = settled("GPU KV cache size", tokens, "tokens", _by_group(log, layers, pool))
    if by_group.status == "explained" or plain.status != "explained":
        return by_group
    off = "the hybrid cache manager is off: every layer is charged for every token"
    return replace(plain, assumes=plain.assumes or off)


def _by_group(log: Log, layers: Grouped, pool: Reading) -> list[Hypothesis]:
    """Tokens of a pool whose layers differ, as older versions print them and as newer ones do."""
    count = layers.groups
    words = (
        f"{pool.printed} in blocks of {layers.block_tokens} tokens × {layers.layout.group_layers} "
        f"layers, over {count} groups of layers"
    )
    slack = (pool.half / layers.layout.block_bytes / count + 1) * layers.block_tokens
    found = [Hypothesis(layers.tokens(int(pool.value // layers.layout.block_bytes)), words, slack)]
    times, length = log.last("concurrency"), log.last("concurrency_len")
    if times is not None and length is not None:
        words = f"newer versions print concurrency × length: {times.printed} × {length.printed}"
        product = times.value * length.value
        found.append(Hypothesis(product, words, times.half * length.value + 1))
    return found


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


def _concurrency(
    log: Log, pool: Reading | None, found: Case | None, block: int
) -> Iterator[Finding]:
    layers = None if found is None else grouped(found.scenario, block)
    for reading in _first_each(log.all("concurrency")):
        length = log.beside("concurrency_len", reading)
        if length is None or not length.value:
            continue
        hypotheses = []
        if layers is not None and pool is not None and pool.value > 0:
            hypotheses += _reserved(log, layers, pool, length)
        tokens = log.value("tokens") or (log.value("blocks") or 0) * block
        # Where layers differ, newer versions make tokens of the concurrency, not it of them.
        if tokens and not hypotheses:
            pages = -(-int(length.value) // block) * block
            words = f"{tokens:,.0f} tokens / {length.printed} in whole pages of {block}"
            hypotheses.append(Hypothesis(tokens / pages, words, 0.005))
            words = f"{tokens:,.0f} tokens / {length.printed}"
            hypotheses.append(Hypothesis(tokens / length.value, words, 0.005))
        if hypotheses:
            yield settled("maximum concurrency", reading, "requests", hypotheses)


def _reserved(log: Log, layers: Grouped, pool: Reading, length: Reading) -> list[Hypothesis]:
    """Blocks of the pool over those that one longest request reserves."""
    found = []
    blocks = pool.value / layers.layout.block_bytes
    for each, in_flight, assumes in _requests(log, layers, int(length.value)):
        words = (
            f"{int(blocks):,} blocks of {layers.block_tokens:,} tokens / {each:,} that a request "
            f"of {length.printed} reserves in {layers.groups} groups{in_flight}"
        )
        slack = (pool.half / layers.layout.block_bytes + 1) / each
        found.append(Hypothesis(int(blocks) / each, words, slack, assumes))
    return found


def _requests(log: Log, layers: Grouped, length: int) -> Iterator[tuple[int, str, str]]:
    """Blocks of one request, what they hold besides it in words, and what those assume."""
    said: dict[int, tuple[str, str]] = {}
    for aligned, about_states in _states_kept(log, layers):
        for count, about_flight in _in_flight(log) if layers.windowed else [(1, "")]:
            each = layers.blocks_per_request(length, count, aligned=aligned)
            words = f", {count:,} tokens in flight" if layers.windowed else ""
            words += ", two states for prefix caching" if aligned else ""
            assumes = ", ".join(part for part in (about_states, about_flight) if part)
            said.setdefault(each, (words, assumes))
    for each, (words, assumes) in said.items():
        yield each, words if len(said) > 1 else "", assumes if len(said) > 1 else ""


def _states_kept(log: Log, layers: Grouped) -> list[tuple[bool, str]]:
    """Whether prefix caching keeps a second state, as the log says and the other way."""
    if not layers.state_groups:
        return [(False, "")]
    if log.text("prefix") == "True":
        return [(True, ""), (False, "states are kept once, in spite of prefix caching")]
    about = "" if log.text("prefix") == "False" else "prefix caching keeps a second state"
    return [(False, ""), (True, about)]


def _in_flight(log: Log) -> list[tuple[int, str]]:
    """Tokens in flight: a step's, twice as many when steps overlap, and what that assumes."""
    said = log.value("in_flight")
    steps = (2, 1) if log.text("async") else (1, 2)
    if said is not None:
        return [
            (int(said) * count, "" if at == 0 else f"{count} steps are in flight")
            for at, count in enumerate(steps)
        ]
    return [
        (count, f"{count:,} tokens are in flight; the log does not say")
        for count in (2048, 8192, 16384)
    ]


def _needed(log: Log, found: Case | None, block: int) -> Iterator[Finding]:
    """The refusal to start: bytes of one longest request, and the longest that would fit."""
    needed, length = log.last("needed"), log.last("needed_len")
    if needed is None or length is None:
        return
    if found is None:
        yield measured("cache needed", needed, f"for one request of {length.printed}")
        return
    tokens = -(-int(length.value) // block) * block
    layers = grouped(found.scenario, block)
    hypotheses = [
        Hypothesis(tokens * one.bytes, f"{tokens:,} tokens × {one.words}", 0, one.assumes)
        for one in per_token(found.scenario)
    ]
    if layers is not None:
        by_group = [
            Hypothesis(
                each * layers.layout.block_bytes,
                f"whole blocks of {layers.groups} groups of {layers.layout.group_layers} layers"
                f"{in_flight}",
                0,
                assumes,
            )
            for each, in_flight, assumes in _requests(log, layers, int(length.value))
        ]
        hypotheses = [*by_group, *hypotheses]
    yield settled("cache needed", needed, "bytes", hypotheses)
    if layers is not None:
        return
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
