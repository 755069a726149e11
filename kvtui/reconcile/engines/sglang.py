"""SGLang: what its start-up lines are called and how they come about.

Wordings of 0.4 to 0.5, from ``python/sglang/srt/model_executor/model_runner.py``,
``mem_cache/memory_pool.py``, ``swa_memory_pool.py`` and ``cuda_graph_runner.py``. "GB" is 2^30
throughout; every pool holds one page more than it hands out.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kvtui.reconcile.case import Case, PerToken, only, per_token, state_bytes, text_setting
from kvtui.reconcile.engines.common import pool_finding, sum_finding, weights_finding
from kvtui.reconcile.findings import Finding, Hypothesis, measured, settled
from kvtui.reconcile.readings import Log, Reading, pattern
from kvtui.runtimes.sglang import Sglang
from kvtui.sources.request import Request
from kvtui.spec import RecurrentState, Scenario

_DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"}
_SPARE: Final = "in the spare page"

PATTERNS: Final = (
    pattern("ServerArgs(", r"model_path=(?P<model__text>'[^']{1,300}'|\"[^\"]{1,300}\")"),
    pattern("ServerArgs(", r"mem_fraction_static=(?P<mem_fraction__exact>[\d.]+)", telling=False),
    pattern("ServerArgs(", r"[ (]tp_size=(?P<tp__count>\d+)", telling=False),
    pattern("ServerArgs(", r"[ (]page_size=(?P<page__count>\d+)", telling=False),
    pattern("ServerArgs(", r"swa_full_tokens_ratio=(?P<window_ratio__exact>[\d.]+)", telling=False),
    pattern(
        "ServerArgs(", r"mamba_full_memory_ratio=(?P<state_ratio__exact>[\d.]+)", telling=False
    ),
    pattern("ServerArgs(", r"kv_cache_dtype='(?P<kv_dtype__text>\w+)'", telling=False),
    pattern("Using KV cache dtype", r"dtype: torch\.(?P<kv_dtype_used__text>\w+)"),
    pattern("Load weight begin", r"avail mem=(?P<before__gib>[\d.]+) GB"),
    pattern(
        "Load weight end",
        r"avail mem=(?P<after__gib>[\d.]+) GB, mem usage=(?P<weights__gib>-?[\d.]+) GB",
    ),
    pattern("Load weight end", r" dtype=torch\.(?P<dtype__text>\w+)", telling=False),
    pattern(
        "KV Cache is allocated",
        r"#tokens: (?P<slots__count>[\d,]+), K size: (?P<k__gib>[\d.]+) GB, "
        r"V size: (?P<v__gib>[\d.]+) GB",
    ),
    pattern(
        "KV Cache is allocated",
        r"#tokens: (?P<slots__count>[\d,]+), KV size: (?P<kv__gib>[\d.]+) GB",
    ),
    pattern(
        "Mamba Cache is allocated",
        r"max_mamba_cache_size: (?P<state_slots__count>\d+), conv_state size: "
        r"(?P<conv__gib>[\d.]+) ?GB, ssm_state size: (?P<ssm__gib>[\d.]+) ?GB",
    ),
    pattern(
        "SWAKVPool mem usage",
        r"usage: (?P<both__gib>[\d.]+) GB, swa size: (?P<swa_slots__count>\d+), "
        r"full size: (?P<full_slots__count>\d+)",
    ),
    pattern(
        "liding window memory pool",
        r"full_layer_tokens=(?P<full_slots__count>\d+), swa_layer_tokens=(?P<swa_slots__count>\d+)",
    ),
    pattern("Memory pool end", r"avail mem=(?P<after_pool__gib>[\d.]+) GB"),
    pattern("uda graph end", r"mem usage=(?P<graph__gib>-?[\d.]+) GB", telling=False),
    pattern("CUDA graph end", r"mem usage=(?P<graph__gib>-?[\d.]+) GB", telling=False),
    pattern("max_total_num_tokens=", r"max_total_num_tokens=(?P<tokens__count>\d+)"),
    pattern("max_total_num_tokens=", r"context_len=(?P<max_len__count>\d+)", telling=False),
)


def said(log: Log) -> Request:
    """Length, page, ranks and format, as far as the log states them."""
    used = log.text("kv_dtype_used") or log.text("dtype") or ""
    typed = text_setting(log, "kv_dtype")
    return Request(
        dtype=typed or _DTYPES.get(used) or ("fp8" if used.startswith("float8") else None),
        tp=_whole(log, "tp"),
        block=_whole(log, "page"),
        context=_whole(log, "max_len"),
    )


def findings(log: Log, found: Case | None) -> Iterator[Finding]:
    """Weights, pools of K and V, states, the token count, graphs."""
    target = log.all("weights")[:1]
    for reading in target:
        yield weights_finding("weights", reading, found)
        yield from _weights_as_difference(log, reading)
    yield from _pools(log, found)
    yield from _states(log, found)
    yield from _token_count(log, found)
    graphs = {one.value: one for one in log.all("graph")}
    for one in graphs.values():
        yield measured("CUDA graphs", one, "captured after the pools, outside mem_fraction_static")


def _weights_as_difference(log: Log, weights: Reading) -> Iterator[Finding]:
    before, after = log.all("before"), log.beside("after", weights)
    if before and after is not None:
        yield sum_finding(
            "weights, by free memory",
            weights,
            [(1.0, before[0], "free before"), (-1.0, after, "free after")],
            "the difference of free memory, so other processes count",
        )


def _pools(log: Log, found: Case | None) -> Iterator[Finding]:
    page = int(log.value("page") or 1)
    shown: set[tuple[float, float]] = set()
    targets: set[str] = set()
    for slots in log.all("slots"):
        parts = [(name, log.beside(name, slots)) for name in ("k", "v", "kv")]
        here = [(name, reading) for name, reading in parts if reading is not None]
        key = (slots.value, sum(reading.value for _, reading in here))
        if not here or not slots.value or key in shown:
            continue
        shown.add(key)
        which, per = ("", []) if found is None else _layers_of(log, slots, found)
        # The target's pools come first; another over the same layers is a draft model's.
        if which in targets:
            per = []
        targets.add(which)
        for name, reading in here:
            title = {"k": "K pool", "v": "V pool", "kv": "KV pool"}[name]
            if not per:
                yield measured(title, reading, _implied(reading, slots))
                continue
            yield pool_finding(
                f"{title}{which}",
                reading,
                slots.value,
                [(_part(name, one), _rule(name, one), one.assumes) for one in per],
                spare=page,
                spare_words=_SPARE,
            )
    both = log.last("both")
    if both is not None:
        yield measured("both pools", both, "the windowed layers' pool and the others' together")


def _layers_of(log: Log, slots: Reading, found: Case) -> tuple[str, list[PerToken]]:
    """Whose layers a pool holds: all, the windowed ones, or those that keep everything."""
    question = found.scenario
    windowed, full = only(question.model, windows=True), only(question.model, windows=False)
    if windowed is None or full is None or log.value("swa_slots") is None:
        return "", list(per_token(question))
    if slots.value == log.value("swa_slots"):
        return " of windowed layers", list(per_token(question, windowed))
    return " of full layers", list(per_token(question, full))


def _part(name: str, one: PerToken) -> float:
    return {"k": one.k_bytes, "v": one.v_bytes, "kv": one.bytes}[name]


def _rule(name: str, one: PerToken) -> str:
    if name == "kv":
        return one.words
    return f"{_part(name, one):,.0f} B of {name.upper()} ({one.words})"


def _implied(reading: Reading, slots: Reading) -> str:
    return (
        f"{reading.value / slots.value:,.0f} B a token over {slots.printed} tokens; "
        "a draft model's, or of a model that is not known here"
    )


def _states(log: Log, found: Case | None) -> Iterator[Finding]:
    """Convolution and recurrent states, one slot more than are handed out."""
    for slots in log.all("state_slots")[:1]:
        for name, title in (("conv", "convolution states"), ("ssm", "recurrent states")):
            reading = log.beside(name, slots)
            if reading is None:
                continue
            if found is None or not _has_state(found.scenario):
                yield measured(title, reading, f"{slots.printed} slots")
                continue
            sizes = [
                (size, f"{size:,.0f} B a slot", assumes)
                for size, assumes in _state_bytes(found.scenario, name)
            ]
            yield pool_finding(title, reading, slots.value, sizes, spare=1, spare_words="spare")


def _has_state(question: Scenario) -> bool:
    return any(isinstance(group, RecurrentState) for group in question.model.groups)


def _state_bytes(question: Scenario, name: str) -> Iterator[tuple[float, str]]:
    """Bytes of one sequence's state in all layers, as asked and in other formats."""
    for fmt in (None, "bf16", "fp32"):
        assumes = "" if fmt is None else f"states are kept in {fmt}"
        yield state_bytes(question, name, fmt), assumes


def _token_count(log: Log, found: Case | None) -> Iterator[Finding]:
    """Tokens from what the static share of memory leaves; those of windowed layers from them."""
    windowed, full = log.last("swa_slots"), log.last("full_slots")
    page = int(log.value("page") or 1)
    if windowed is not None and full is not None:
        ratio = log.value("window_ratio") or Sglang().window_ratio
        words = f"{ratio:g} of the full pool's {full.printed} tokens, in whole pages"
        part = Hypothesis(full.value * ratio // page * page, words, page)
        yield settled("tokens of windowed layers", windowed, "tokens", [part])
    tokens = log.last("tokens")
    if tokens is None:
        return
    before, after, share = log.all("before"), log.all("after"), log.value("mem_fraction")
    if found is None or not before or not after or share is None:
        slots = [one for one in log.all("slots") if one.value == tokens.value]
        words = "the slots of the pool of full layers" if slots else "slots that are handed out"
        yield measured("max_total_num_tokens", tokens, words, "tokens")
        return
    room = after[0].value - before[0].value * (1 - share)
    half = after[0].half + before[0].half * (1 - share)
    left = (
        f"{after[0].printed} free after loading − (1 − {share:g}) × {before[0].printed} free before"
    )
    hypotheses = [
        Hypothesis(
            room // one.bytes // page * page,
            f"({left}) / {one.words}",
            half / one.bytes + page,
            one.assumes,
        )
        for one in per_token(found.scenario)
        if one.bytes
    ]
    shared = _shared_out(log, found, room)
    if shared is not None:
        slack = shared * half / room + page if room > 0 else page
        words = f"({left}), shared out over the pools of full and other layers"
        hypotheses.insert(0, Hypothesis(shared, words, slack))
    yield settled("max_total_num_tokens", tokens, "tokens", hypotheses)


def _shared_out(log: Log, found: Case, room: float) -> float | None:
    """Tokens where windowed layers or states have pools of their own; None where all are alike."""
    question = found.scenario
    if only(question.model, windows=True) is None and not _has_state(question):
        return None
    engine = Sglang()
    engine = replace(
        engine,
        window_ratio=log.value("window_ratio") or engine.window_ratio,
        state_ratio=log.value("state_ratio") or engine.state_ratio,
    )
    terms = replace(question.budget, kv_bytes=max(0, int(room)), kv_blocks=None)
    pool = engine.pool(replace(question, budget=terms))
    if pool.blocks is None or pool.block_tokens is None:
        return None
    return pool.blocks * pool.block_tokens


def _whole(log: Log, name: str) -> str | None:
    value = log.value(name)
    return None if value is None else f"{value:.0f}"
