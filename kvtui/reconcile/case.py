"""The question behind a log, and what one token takes under it and under other assumptions.

What the log says (format, ranks, page, length) fills in what was not typed; typed fields win.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from kvtui.dtypes import FORMATS
from kvtui.errors import InputError, SourceError
from kvtui.reconcile.readings import Log
from kvtui.sizing import budget, weights
from kvtui.sizing.kinds import streams
from kvtui.sizing.payload import Payload, payload
from kvtui.sizing.rank import fullest_rank
from kvtui.solve import packs, with_groups
from kvtui.sources import presets
from kvtui.sources.request import DetectDevice, Request, scenario
from kvtui.sources.shape import SHAPE_FIELDS
from kvtui.spec import (
    FullAttention,
    LayerGroup,
    Model,
    RecurrentState,
    Scenario,
    uniform_workload,
)

_OTHER_FORMATS: Final = ("bf16", "fp8", "int8", "fp32", "q8_0", "q4_0")
_WEIGHT_FORMATS: Final = ("fp8", "bf16", "int4", "nvfp4", "mxfp4", "fp32")


@dataclass(frozen=True, slots=True)
class Case:
    """The question as far as it is known."""

    scenario: Scenario
    model_from: str
    """Who named the model: ``typed``, or the log."""


@dataclass(frozen=True, slots=True)
class PerToken:
    """Bytes of one token on one rank, under an assumption."""

    bytes: int
    words: str
    """How they come about."""
    assumes: str = ""
    """Empty for the question as it stands."""
    k_bytes: int = 0
    v_bytes: int = 0


def case(
    typed: Request, said: Request, model_hint: str | None, detect: DetectDevice | None
) -> Case | None:
    """The question: ``typed`` fields over what the log ``said``; None where no model is known.

    Raises:
        InputError: a typed field cannot be used.
    """
    given = typed.given()
    own_model = {"model", "workload", *SHAPE_FIELDS} & set(given)
    from_log = {
        name: value
        for name, value in said.given().items()
        if not (own_model and name in SHAPE_FIELDS)
    }
    source = "typed"
    if not own_model:
        shape_said = {"layers", "kv_heads"} <= set(from_log)
        if not shape_said:
            preset = preset_of(model_hint)
            if preset is None:
                return None
            from_log["model"] = preset
        source = "the log"
    merged = Request(**{"context": "1", **from_log, **given})
    if "lengths" in given:
        merged = replace(merged, context=None)
    try:
        return Case(scenario(merged, detect=detect), source)
    except (InputError, SourceError):
        if not own_model:
            return None
        raise


def preset_of(hint: str | None) -> str | None:
    """The preset that a model's id or path stands for: the longest whose words begin it."""
    if not hint:
        return None
    name = hint.strip("'\" ").replace("\\", "/").rstrip("/").rsplit("/", 1)[-1].lower()
    name = name.replace("_", "-").replace(" ", "-")
    name = name.removeprefix("meta-").removesuffix(".gguf")
    known = [
        preset
        for preset in presets.model_names()
        if name == preset or name.startswith((f"{preset}-", f"{preset}."))
    ]
    return max(known, key=len, default=None)


def one_token(scenario: Scenario, model: Model | None = None, *, split: bool = True) -> Payload:
    """One token of one sequence in every layer that grows, on the fullest rank."""
    return payload(
        model or scenario.model,
        uniform_workload(1, 1),
        scenario.storage,
        tp=scenario.parallel.attention_tp if split else 1,
    )


def per_token(scenario: Scenario, model: Model | None = None) -> Iterator[PerToken]:
    """Bytes of a token as the question has it, then with one assumption changed at a time.

    Args:
        scenario: the question.
        model: some of its layers, where a pool holds only those; else those of the fullest stage.
    """
    parallel = scenario.parallel
    model = model or fullest_rank(scenario).model
    yield _per_token(scenario, model, "")
    if scenario.draft is not None:
        both = one_token(scenario, model).bytes + one_token(scenario, scenario.draft).bytes
        words = f"{both:,} B a token of {scenario.model.name} and {scenario.draft.name}"
        yield PerToken(both, words, "the draft model's layers share the pool")
    for name in _OTHER_FORMATS:
        fmt = FORMATS[name]
        if fmt.value_bits == scenario.storage.kv.value_bits or not packs(scenario, fmt):
            continue
        other = replace(scenario, storage=replace(scenario.storage, kv=fmt, v=None))
        said = scenario.storage.kv.name
        yield _per_token(other, model, f"the cache is kept in {name}, not in {said}")
    if parallel.attention_tp > 1:
        whole = one_token(scenario, model, split=False)
        yield PerToken(
            whole.bytes,
            "all KV heads on one rank",
            f"heads are not split over tp {parallel.attention_tp}",
            whole.k_bytes,
            whole.v_bytes,
        )
    if any(isinstance(group, FullAttention) and group.q_heads for group in model.groups):
        expanded = with_groups(replace(scenario, model=model), _expanded)
        yield _per_token(expanded, expanded.model, "K and V are kept for every query head")


def _per_token(scenario: Scenario, model: Model, assumes: str) -> PerToken:
    found = one_token(scenario, model)
    return PerToken(
        found.bytes,
        token_words(scenario, model, found.bytes),
        assumes,
        found.k_bytes,
        found.v_bytes,
    )


def token_words(scenario: Scenario, model: Model, total: int) -> str:
    """``total`` bytes a token as a rule with values."""
    tp, kv = scenario.parallel.attention_tp, scenario.storage.kv
    shares = [
        f"{group.layers}·{row.heads_per_rank(tp)}·{row.width}"
        for group in model.groups
        for stream in streams(group)
        if not stream.constant
        for row in stream.rows
    ]
    ranks = f" per rank of tp {tp}" if tp > 1 else ""
    return f"{total:,} B a token{ranks} ({' + '.join(shares)} values in {kv.name})"


def only(model: Model, *, windows: bool) -> Model | None:
    """``model`` with its windowed layers alone, or with those that keep everything."""
    groups = tuple(group for group in model.groups if _saturates(group) == windows)
    return replace(model, groups=groups) if groups else None


def _saturates(group: LayerGroup) -> bool:
    far = 2**40
    return any(
        not stream.constant and stream.entries(far) < far // stream.tokens_per_entry
        for stream in streams(group)
    )


def _expanded(group: LayerGroup) -> LayerGroup:
    if isinstance(group, FullAttention) and group.q_heads:
        return replace(group, kv_heads=group.q_heads)
    return group


def state_bytes(scenario: Scenario, part: str, fmt: str | None) -> int:
    """Bytes of one sequence's state in all layers, on one rank.

    Args:
        scenario: the question.
        part: ``conv`` for convolution states, ``ssm`` for recurrent ones.
        fmt: the element format; None as the model has it.
    """
    groups = []
    for group in scenario.model.groups:
        if not isinstance(group, RecurrentState):
            continue
        if part == "conv":
            one = replace(group, state_heads=0)
            groups.append(one if fmt is None else replace(one, conv_format=fmt))
        else:
            one = replace(group, conv_channels=0)
            groups.append(one if fmt is None else replace(one, state_format=fmt))
    return one_token(scenario, replace(scenario.model, groups=tuple(groups))).state_bytes


@dataclass(frozen=True, slots=True)
class WeightGuess:
    """Bytes of weights on one rank, under an assumption."""

    bytes: int
    words: str
    assumes: str = ""


def weight_guesses(found: Case) -> Iterator[WeightGuess]:
    """Weights on the fullest rank as asked, then whole, then in other formats."""
    question = found.scenario
    asked = budget.weights_bytes(question)
    if not asked:
        return
    name = budget.weight_format(question).name
    ranks = question.parallel.ranks
    split = f" on one of {ranks} ranks" if ranks > 1 else ""
    yield WeightGuess(asked, f"weights of {question.model.name} in {name}{split}")
    if ranks > 1:
        whole = budget.weights_bytes(replace(question, parallel=replace(question.parallel, tp=1)))
        assert whole is not None
        yield WeightGuess(whole, f"all weights in {name}", f"they are not split over {ranks} ranks")
    if question.budget.weights_bytes is not None or question.model.stored_weights_bytes is not None:
        return
    tables = tuple(
        replace(block, kept_in="bf16") if block.role in ("embedding", "head") else block
        for block in question.model.parameters
    )
    model = question.model
    kept = replace(model, parameters=tables)
    for other in _WEIGHT_FORMATS:
        if other == name or not tables:
            continue
        tp, assumes = question.parallel.tp, f"the weights are in {other}, not in {name}"
        size = weights.stored_bytes(kept, FORMATS[other], tp=tp)
        said = f"weights in {other} with token table and head in bf16{split}"
        yield WeightGuess(size, said, assumes)
        size = weights.stored_bytes(model, FORMATS[other], tp=tp)
        yield WeightGuess(size, f"weights in {other}{split}", assumes)


def text_setting(log: Log, name: str) -> str | None:
    """A setting that the log states, unless it says None or auto."""
    value = (log.text(name) or "").strip().strip("'\"")
    return None if value.lower() in ("", "none", "auto") else value
