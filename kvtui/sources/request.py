"""From typed fields to a scenario: what the command line and the input panel have in common.

A ``Request`` holds the fields as text, as they were typed; ``scenario`` checks every one and
raises ``InputError`` naming field, value and range. Rising strength: defaults, the workload
preset, the model or device preset, typed fields.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

from kvtui.dtypes import element_format
from kvtui.errors import InputError, SourceError
from kvtui.sources import config_json, presets
from kvtui.sources.cautions import shape_warnings, suffix_warnings
from kvtui.sources.lengths import sequence_runs, spread_runs, token_count
from kvtui.sources.shape import SHAPE_FIELDS, reshaped, typed_groups
from kvtui.spec import (
    Band,
    BudgetTerms,
    Device,
    FullAttention,
    Model,
    Parallel,
    RecurrentState,
    Scenario,
    SequenceRun,
    Storage,
    Workload,
)
from kvtui.units import (
    count,
    format_bytes,
    parse_bytes,
    parse_bytes_per_s,
    parse_flop_per_s,
    parse_fraction,
)

_MACHINE_FIELDS: Final = ("memory", "bandwidth", "flops")
_DEFAULT_DTYPE: Final = "bf16"


@dataclass(frozen=True, slots=True)
class Request:
    """Every field a question can have, as typed; None is not given."""

    model: str | None = None
    attention: str | None = None
    layers: str | None = None
    q_heads: str | None = None
    kv_heads: str | None = None
    head_dim: str | None = None
    v_head_dim: str | None = None
    window: str | None = None
    full_layers: str | None = None
    sinks: str | None = None
    kv_lora_rank: str | None = None
    rope_dim: str | None = None
    workload: str | None = None
    batch: str | None = None
    context: str | None = None
    lengths: str | None = None
    shared_prefix: str | None = None
    hit_rate: str | None = None
    mean: str | None = None
    p95: str | None = None
    lookahead: str | None = None
    in_flight: str | None = None
    chunk: str | None = None
    draft: str | None = None
    dtype: str | None = None
    v_dtype: str | None = None
    block: str | None = None
    state_dtype: str | None = None
    gpu: str | None = None
    memory: str | None = None
    bandwidth: str | None = None
    flops: str | None = None
    tp: str | None = None
    pp: str | None = None
    pp_layers: str | None = None
    dp_attention: str | None = None
    dcp: str | None = None
    ep: str | None = None
    weights: str | None = None
    weights_dtype: str | None = None
    activations: str | None = None
    overhead: str | None = None
    reserve: str | None = None
    utilization: str | None = None
    kv_budget: str | None = None
    kv_blocks: str | None = None

    def given(self) -> dict[str, str]:
        """The fields that were typed."""
        pairs = ((one.name, getattr(self, one.name)) for one in fields(self))
        return {name: value for name, value in pairs if value is not None}


DetectDevice = Callable[[str], Device]
"""Finds the device of ``--gpu auto`` or ``--gpu host``; raises ``UnavailableError``."""
_HERE: Final = ("auto", "host")


def scenario(request: Request, *, detect: DetectDevice | None = None) -> Scenario:
    """The checked question behind ``request``.

    Raises:
        InputError: a field cannot be used; names field, value and range.
        SourceError: a file or preset cannot be read.
        UnavailableError: ``--gpu auto`` found no device.
    """
    asked = with_workload_preset(request)
    warnings: list[str] = []
    model = _model(asked, warnings)
    storage = _storage(asked)
    for group in model.groups:
        if isinstance(group, FullAttention):
            storage.kv.check_width("head dim", group.k_width)
            (storage.v or storage.kv).check_width("v head dim", group.v_width)
    parallel = _parallel(asked, model)
    device = _device(asked, detect, warnings)
    budget = _budget(asked, model, device)
    workload = _workload(asked)
    warnings += shape_warnings(model, workload, parallel.attention_tp)
    warnings += suffix_warnings(asked.context)
    unknown = budget.weights_bytes is None and model.stored_weights_bytes is None
    if unknown and not model.parameters and device.memory_bytes is not None:
        warnings.append("Weights are unknown and counted as nothing; give --weights SIZE.")
    return Scenario(
        model=model,
        workload=workload,
        storage=storage,
        parallel=parallel,
        device=device,
        budget=budget,
        draft=None if asked.draft is None else _named_model(asked.draft),
        step_tokens=None if asked.chunk is None else count("chunk", asked.chunk),
        warnings=(*model.warnings, *dict.fromkeys(warnings)),
    )


def _parallel(asked: Request, model: Model) -> Parallel:
    """How the model is spread; every figure checked against what it must divide."""
    tp = count("tp", asked.tp or "1", high=4096)
    pp = count("pp", asked.pp or "1", high=max(1, min(4096, model.layers)))
    stages: tuple[int, ...] = ()
    if asked.pp_layers is not None:
        stages = tuple(count("pp layers", part) for part in asked.pp_layers.split(","))
        if sum(stages) != model.layers or (asked.pp is not None and len(stages) != pp):
            raise InputError(
                "pp layers", asked.pp_layers, f"{model.layers} layers in all, one figure a stage"
            )
        pp = len(stages)
    dp = count("dp attention", asked.dp_attention or "1", high=tp)
    if tp % dp:
        raise InputError("dp attention", dp, f"a divisor of tp ({tp})")
    return Parallel(
        tp=tp,
        pp=pp,
        stage_layers=stages,
        dp_attention=dp,
        dcp=count("dcp", asked.dcp or "1", high=4096),
        ep=count("ep", asked.ep or "1", high=tp),
    )


def with_workload_preset(request: Request) -> Request:
    """The typed fields over those of the workload preset, where the two do not exclude."""
    if request.workload is None:
        return request
    typed = request.given()
    table = presets.workload_table(request.workload)
    preset = {
        name: str(value)
        for name, value in table.items()
        if name in Request.__dataclass_fields__ and name != "workload"
    }
    unknown = set(table) - set(preset) - {"title", "source"}
    if unknown:
        raise InputError(
            f"workload {request.workload}",
            sorted(unknown)[0],
            "a table of known fields: " + ", ".join(Request.__dataclass_fields__),
        )
    if "model" in typed:
        for name in (*SHAPE_FIELDS, "weights", "weights_dtype"):
            preset.pop(name, None)
    if "gpu" in typed:
        for name in _MACHINE_FIELDS:
            preset.pop(name, None)
    if "lengths" in typed:
        preset.pop("batch", None)
        preset.pop("context", None)
    elif {"batch", "context"} & set(typed):
        preset.pop("lengths", None)
    return Request(**{**preset, **typed})


def _model(asked: Request, warnings: list[str]) -> Model:
    shape = {name: value for name, value in asked.given().items() if name in SHAPE_FIELDS}
    if asked.model is None:
        name = "typed shape" if asked.workload is None else f"{asked.workload} shape"
        model = Model(name=name, groups=typed_groups(shape))
    else:
        model = _named_model(asked.model)
        if shape:
            model = replace(model, groups=reshaped(model.groups, shape))
            if asked.weights is None and model.parameters:
                warnings.append(
                    f"The shape of {model.name} was changed; its weights are those of the "
                    "unchanged model."
                )
    if asked.state_dtype is not None:
        state = element_format("state dtype", asked.state_dtype).name
        model = replace(
            model,
            groups=tuple(
                replace(group, state_format=state) if isinstance(group, RecurrentState) else group
                for group in model.groups
            ),
        )
    return model


def _named_model(name: str) -> Model:
    """What ``--model`` stands for: a GGUF file, a folder, a config.json, a preset or a hub id.

    What is there as a file wins; a link that leads nowhere is there, and is no hub id.
    """
    path = Path(name)
    suffix = path.suffix.lower()
    if suffix == ".gguf" or _begins_like_gguf(path):
        from kvtui.sources import gguf

        return gguf.read(path)
    if os.path.isdir(name):
        from kvtui.sources import safetensors

        return safetensors.read_folder(path)
    if suffix == ".safetensors":
        raise SourceError(f"{name} holds weights alone; give the folder with its config.json.")
    if suffix == ".json" or ("/" in name and os.path.lexists(name)):
        return config_json.read(path)
    if name.count("/") == 1 and all(part and not part.startswith(".") for part in name.split("/")):
        from kvtui.sources import hub

        return hub.read(name)
    facts = presets.model_facts(name)
    return config_json.model(facts, name=str(facts.get("name", name)))


def _begins_like_gguf(path: Path) -> bool:
    """Whether a file is GGUF under another name, as in a cache of blobs."""
    if not os.path.isfile(path):
        return False
    try:
        with path.open("rb") as file:
            return file.read(4) == b"GGUF"
    except OSError:
        return False


def _workload(asked: Request) -> Workload:
    if asked.lengths is not None:
        for name in ("batch", "context"):
            if getattr(asked, name) is not None:
                raise InputError(name, getattr(asked, name), "left out where lengths are given")
        runs = sequence_runs(asked.lengths)
    elif asked.mean is not None or asked.p95 is not None:
        mean = count("mean", asked.mean)
        p95 = count("p95", asked.p95 or asked.mean or "")
        runs = spread_runs(mean, p95, count("batch", asked.batch or "1"))
    else:
        runs = (
            SequenceRun(
                token_count("context", _required(asked, "context")),
                count("batch", asked.batch or "1"),
            ),
        )
    return Workload(
        runs=runs,
        shared_prefix=count("shared prefix", asked.shared_prefix or "0", low=0),
        lookahead=count("lookahead", asked.lookahead or "0", low=0),
        in_flight=count("in flight", asked.in_flight or "0", low=0),
        hit_rate=(
            None
            if asked.hit_rate is None
            else parse_fraction("hit rate", asked.hit_rate, zero=True)
        ),
        name=asked.workload or "typed",
    )


def _required(asked: Request, name: str) -> str:
    value = getattr(asked, name)
    if value is None:
        raise InputError(name, None, f"given (--{name.replace('_', '-')}, a preset or a file)")
    return str(value)


def _storage(asked: Request) -> Storage:
    return Storage(
        kv=element_format("dtype", asked.dtype or _DEFAULT_DTYPE),
        v=None if asked.v_dtype is None else element_format("v dtype", asked.v_dtype),
        block=count("block", asked.block or "1"),
    )


def _device(asked: Request, detect: DetectDevice | None, warnings: list[str]) -> Device:
    if asked.gpu in _HERE and detect is not None:
        device = detect(asked.gpu)
    elif asked.gpu is not None:
        device = presets.device(asked.gpu)
    elif asked.memory is not None:
        device = Device(name="typed")
    else:
        device = Device(name="none given")
    if asked.memory is not None:
        memory = parse_bytes("memory", asked.memory, low=1)
        if asked.memory.strip().lower().endswith("gb"):
            warnings.append(
                f"{asked.memory.strip()} is {format_bytes(memory)}: GB is 10^9 bytes, GiB 2^30."
            )
        device = replace(device, memory_bytes=memory)
    if asked.bandwidth is not None:
        rate = parse_bytes_per_s("bandwidth", asked.bandwidth)
        device = replace(device, bandwidth_bytes_per_s=rate)
    if asked.flops is not None:
        device = replace(device, flop_per_s=parse_flop_per_s("flops", asked.flops))
    return device


def _budget(asked: Request, model: Model, device: Device) -> BudgetTerms:
    table = presets.table("budget")["host" if device.host else "gpu"]
    activations = _band(table["activations"], hidden_size=model.hidden_size)
    overhead = _band(table["overhead"], hidden_size=None)
    weights = asked.weights
    return BudgetTerms(
        utilization=parse_fraction("utilization", asked.utilization or "1"),
        weights_bytes=None if weights is None else parse_bytes("weights", weights),
        weights_format=(
            None
            if asked.weights_dtype is None
            else element_format("weights dtype", asked.weights_dtype)
        ),
        activations=_typed_band("activations", asked.activations) or activations,
        overhead=_typed_band("overhead", asked.overhead) or overhead,
        reserve_bytes=parse_bytes("reserve", asked.reserve or "0"),
        kv_bytes=None if asked.kv_budget is None else parse_bytes("kv budget", asked.kv_budget),
        kv_blocks=None if asked.kv_blocks is None else count("kv blocks", asked.kv_blocks, low=0),
    )


def _typed_band(field: str, text: str | None) -> Band | None:
    if text is None:
        return None
    size = parse_bytes(field, text)
    return Band(size, size, size, f"{field} typed")


def _band(table: Mapping[str, int | str], *, hidden_size: int | None) -> Band:
    low, high = int(table["low"]), int(table["high"])
    expected = int(table["expected"])
    if hidden_size is not None and "expected_coefficient" in table:
        scaled = int(table["expected_tokens"]) * int(table["expected_coefficient"]) * hidden_size
        expected = min(max(scaled, low), high)
    return Band(low, expected, high, str(table["source"]))
