"""llama.cpp: what its start-up lines are called and how they come about.

Wordings of 2024 to 2026, from ``src/llama-kv-cache.cpp``, ``llama-kv-cache-iswa.cpp``,
``llama-memory-recurrent.cpp``, ``llama-context.cpp`` and ``llama-model.cpp``. The log states its
model's geometry itself, so that it can often be explained without naming the model.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kvtui.dtypes import element_format
from kvtui.errors import InputError
from kvtui.reconcile.case import Case, one_token, only, state_bytes, token_words
from kvtui.reconcile.engines.common import pool_finding, weights_finding
from kvtui.reconcile.findings import Finding, Hypothesis, measured, settled
from kvtui.reconcile.readings import Log, Reading, pattern
from kvtui.sources.request import Request
from kvtui.spec import Model, RecurrentState
from kvtui.units import format_bytes

_PAD: Final = 256
"""Cells are padded to this (``llama_context``, n_ctx; ``llama-kv-cache-iswa.cpp``, n_swa)."""
_FILE_SLACK: Final = 0.02

_SIZE: Final = (
    r"size += +(?P<{0}__mib>[\d.]+) MiB \( *(?P<{0}_cells__count>\d+) cells, +"
    r"(?P<{0}_layers__count>\d+) layers, +(?P<{0}_seqs__count>\d+)"
)
PATTERNS: Final = (
    pattern("n_ctx ", r"llama_\w+: n_ctx += (?P<n_ctx__count>\d+)"),
    pattern("n_seq_max", r"n_seq_max += (?P<n_seq__count>\d+)"),
    pattern("n_batch", r"llama_\w+: n_batch += (?P<n_batch__count>\d+)"),
    pattern("n_ubatch", r"llama_\w+: n_ubatch += (?P<n_ubatch__count>\d+)"),
    pattern("kv_unified", r"kv_unified += '?(?P<unified__text>true|false|[01])"),
    pattern("n_layer ", r"print_(?:info|meta): n_layer += (?P<n_layer__count>\d+)"),
    pattern("n_head ", r"print_(?:info|meta): n_head += (?P<n_head__count>\d+)$"),
    pattern("n_head_kv ", r"print_(?:info|meta): n_head_kv += (?P<n_head_kv__count>\d+)$"),
    pattern("n_embd_head_k ", r"n_embd_head_k += (?P<head_k__count>\d+)$"),
    pattern("n_embd_head_v ", r"n_embd_head_v += (?P<head_v__count>\d+)$"),
    pattern("n_embd_k_gqa ", r"n_embd_k_gqa += (?P<k_gqa__count>\d+)$"),
    pattern("n_embd_v_gqa ", r"n_embd_v_gqa += (?P<v_gqa__count>\d+)$"),
    pattern("n_swa ", r"print_(?:info|meta): n_swa += (?P<n_swa__count>\d+)"),
    pattern("n_lora_kv ", r"n_lora_kv += (?P<lora_kv__count>[1-9]\d*)"),
    pattern(
        "general.name",
        r"general\.name\s+(?:str\s+)?[=:]\s*(?P<model__text>\S.{0,200})",
        telling=False,
    ),
    pattern("file size ", r"print_info: file size += (?P<file__size>[\d.]+) [GM]iB"),
    pattern("model size ", r"print_meta: model size += (?P<file__size>[\d.]+) [GM]iB"),
    pattern(
        "model buffer size",
        r"model buffer size += +(?P<part__mib>[\d.]+)",
    ),
    pattern(
        "KV self size",
        r"KV self size += +(?P<self__mib>[\d.]+) MiB, K \((?P<k_type__text>\w+)\): +"
        r"(?P<self_k__mib>[\d.]+) MiB, V \((?P<v_type__text>\w+)\): +(?P<self_v__mib>[\d.]+) MiB",
    ),
    pattern("kv_size =", r"kv_size = (?P<kv_size__count>\d+),"),
    pattern(
        " cells, ",
        _SIZE.format("kv") + r"(?:/(?P<streams__count>\d+))? seqs\), K \((?P<k_type__text>\w+)\): +"
        r"(?P<k__mib>[\d.]+) MiB, V \((?P<v_type__text>\w+)\): +(?P<v__mib>[\d.]+) MiB",
    ),
    pattern(
        " cells, ",
        _SIZE.format("rs") + r" seqs(?: +\d+ rs_seq)?\), R \(\w+\): +(?P<r__mib>[\d.]+) MiB, "
        r"S \(\w+\): +(?P<s__mib>[\d.]+) MiB",
    ),
    pattern("non-SWA KV cache, size", r"size = (?P<base_cells__count>\d+) cells"),
    pattern(
        " SWA KV cache, size", r"creating +SWA KV cache, size = (?P<swa_cells__count>\d+) cells"
    ),
    pattern("compute buffer size", r"compute buffer size += +(?P<compute__mib>[\d.]+) MiB"),
    pattern("output buffer size", r"output buffer size += +(?P<output__mib>[\d.]+) MiB"),
)


def said(log: Log) -> Request:
    """Context, sequences, and the shape where all layers are alike and keep everything."""
    alike = all(log.value(name) for name in ("n_layer", "n_head_kv", "head_k", "head_v"))
    plain = alike and not log.value("n_swa") and not log.value("lora_kv") and not log.all("rs")
    return Request(
        dtype=log.text("k_type"),
        v_dtype=log.text("v_type") if log.text("v_type") != log.text("k_type") else None,
        context=_whole(log, "n_ctx"),
        layers=_whole(log, "n_layer") if plain else None,
        q_heads=_whole(log, "n_head") if plain else None,
        kv_heads=_whole(log, "n_head_kv") if plain else None,
        head_dim=_whole(log, "head_k") if plain else None,
        v_head_dim=_whole(log, "head_v") if plain else None,
    )


def findings(log: Log, found: Case | None) -> Iterator[Finding]:
    """Weights by device, caches by cells, states, buffers."""
    yield from _weights(log, found)
    yield from _cells(log)
    seen: set[tuple[float, float]] = set()
    for total in log.all("kv"):
        cells = log.beside("kv_cells", total)
        if cells is None or not cells.value or (total.value, cells.value) in seen:
            continue
        seen.add((total.value, cells.value))
        streams = log.beside("streams", total)
        slots = cells.value * max(1, streams.value if streams else 1)
        yield from _rows(log, found, total, slots, windowed=cells.value == log.value("swa_cells"))
    yield from _self_size(log, found)
    yield from _states(log, found)
    for name, title in (("compute", "compute buffer"), ("output", "output buffer")):
        for value in dict.fromkeys(one.value for one in log.all(name)):
            reading = next(one for one in log.all(name) if one.value == value)
            yield measured(
                title, reading, "the largest graph of a micro-batch, planned not formula"
            )


def _weights(log: Log, found: Case | None) -> Iterator[Finding]:
    file, parts = log.last("file"), log.all("part")
    if file is not None and found is not None and found.scenario.model.stored_weights_bytes:
        yield weights_finding("file size", file, found)
    elif file is not None:
        yield measured("file size", file, "all tensors of the file")
    # A trial load and a draft model print theirs too: what follows the last file is its own.
    parts = tuple(one for one in parts if file is not None and one.line > file.line)
    if not parts or file is None:
        return
    total = replace(
        parts[-1],
        value=sum(one.value for one in parts),
        printed=" + ".join(one.printed for one in parts),
        half=sum(one.half for one in parts),
    )
    words = f"the file's {file.printed} over the devices"
    slack = file.half + file.value * _FILE_SLACK
    yield settled("model buffers", total, "bytes", [Hypothesis(file.value, words, slack)])


def _cells(log: Log) -> Iterator[Finding]:
    """Cells from the context: padded, shared out over streams, or a window and a batch."""
    n_ctx, n_seq = log.value("n_ctx"), int(log.value("n_seq") or 1)
    base = log.last("base_cells") or next(iter(log.all("kv_cells")), None) or log.last("kv_size")
    if base is not None and n_ctx is not None:
        each = -(-int(n_ctx) // n_seq)
        yield settled(
            "cells",
            base,
            "cells",
            [
                Hypothesis(
                    _padded(n_ctx), f"n_ctx {n_ctx:,.0f} padded to {_PAD}, for all sequences"
                ),
                Hypothesis(
                    _padded(each),
                    f"n_ctx {n_ctx:,.0f} / {n_seq} sequences padded to {_PAD}, for each",
                ),
                Hypothesis(n_ctx, f"n_ctx {n_ctx:,.0f} as it is"),
            ],
        )
    swa, window = log.last("swa_cells"), log.value("n_swa")
    if swa is None or base is None or window is None:
        return
    ubatch, batch = log.value("n_ubatch") or 512, log.value("n_batch") or 2048
    unified = (log.text("unified") or "true") in ("true", "1")
    sequences = n_seq if unified else 1
    hypotheses = [
        Hypothesis(
            min(base.value, _padded(window * count + more)),
            f"window {window:,.0f}{_times(count)} + {name} {more:,.0f}, padded to {_PAD}",
        )
        for count in dict.fromkeys((sequences, 1, n_seq))
        for name, more in (("n_ubatch", ubatch), ("n_batch", batch))
    ]
    full = Hypothesis(base.value, "as many as the other layers", 0, "--swa-full was given")
    yield settled("cells of windowed layers", swa, "cells", [*hypotheses, full])


def _times(count: int) -> str:
    return f" × {count} sequences" if count > 1 else ""


def _padded(cells: float) -> int:
    return -(-int(cells) // _PAD) * _PAD


def _rows(
    log: Log, found: Case | None, total: Reading, slots: float, *, windowed: bool
) -> Iterator[Finding]:
    """K and V of one cache: cells times the rows of its layers."""
    where = " of windowed layers" if windowed else ""
    layers = log.beside("kv_layers", total)
    for part, gqa, words in (("k", "k_gqa", "K"), ("v", "v_gqa", "V")):
        reading = log.beside(part, total)
        if reading is None or layers is None or not layers.value:
            continue
        fmt = log.text(f"{part}_type") or "f16"
        per = _from_case(found, part, fmt, windowed) or _from_log(log, gqa, fmt, layers.value)
        if not per:
            implied = f"{reading.value / slots / layers.value:,.1f} B a cell and layer"
            yield measured(f"{words} cache{where}", reading, implied)
            continue
        yield pool_finding(f"{words} cache{where}", reading, slots, per)


def _from_case(
    found: Case | None, part: str, fmt: str, windowed: bool
) -> list[tuple[float, str, str]]:
    """Bytes of a cell in the layers that this cache holds."""
    if found is None:
        return []
    question = found.scenario
    mixed = only(question.model, windows=True) and only(question.model, windows=False)
    model: Model | None = question.model
    if mixed:
        model = only(question.model, windows=windowed)
    if model is None:
        return []
    try:
        stored = replace(question.storage, kv=element_format("type", fmt), v=None)
        asked = replace(question, storage=stored)
        one = one_token(asked, model)
    except InputError:
        return []
    size = one.v_bytes if part == "v" else one.k_bytes + one.latent_bytes
    rule = f"{size:,} B a cell in {fmt}"
    if part == "k" and one.latent_bytes:
        return [(size, f"{rule}: the latent alone, V is computed from it", "")]
    if not size and part == "v":
        return [(0, f"{rule}: no V beside a latent", "")]
    if part == "k":
        rule += f", half of {token_words(asked, model, one.bytes)}" if one.v_bytes == size else ""
    return [(size, rule, "")]


def _from_log(log: Log, name: str, fmt: str, layers: float) -> list[tuple[float, str, str]]:
    """Bytes of a cell from the widths that the log prints."""
    width = log.value(name)
    if width is None:
        return []
    try:
        row = element_format("type", fmt).row_bytes(int(width))
    except InputError:
        return []
    words = f"{layers:,.0f} layers × {row:,} B ({width:,.0f} values in {fmt})"
    return [(layers * row, words, "")]


def _self_size(log: Log, found: Case | None) -> Iterator[Finding]:
    """The older line, which has no cells beside it."""
    total, slots = log.last("self"), log.value("kv_size") or log.value("n_ctx")
    if total is None or slots is None:
        return
    for part, words in (("k", "K"), ("v", "V")):
        reading = log.beside(f"self_{part}", total)
        if reading is None:
            continue
        fmt = log.text(f"{part}_type") or "f16"
        layers = log.value("n_layer")
        per = _from_case(found, part, fmt, False)
        if not per and layers is not None:
            per = _from_log(log, f"{part}_gqa", fmt, layers)
        if per:
            yield pool_finding(f"{words} cache", reading, slots, per)
        else:
            yield measured(f"{words} cache", reading, f"of {slots:,.0f} cells")


def _states(log: Log, found: Case | None) -> Iterator[Finding]:
    """Recurrent states: f32 whatever the cache's types are."""
    for total in log.all("rs")[:1]:
        cells = log.beside("rs_cells", total)
        for part, title in (("r", "convolution states"), ("s", "recurrent states")):
            reading = log.beside(part, total)
            if reading is None or cells is None or not cells.value:
                continue
            groups = () if found is None else found.scenario.model.groups
            if found is None or not any(isinstance(one, RecurrentState) for one in groups):
                shown = format_bytes(reading.value / cells.value)
                yield measured(title, reading, f"{shown} a sequence, constant in T")
                continue
            size = state_bytes(found.scenario, "conv" if part == "r" else "ssm", "fp32")
            per = [(size, f"{size:,} B a sequence, in f32 always", "")]
            yield pool_finding(title, reading, cells.value, per)


def _whole(log: Log, name: str) -> str | None:
    value = log.value(name)
    return None if value is None else f"{value:.0f}"
