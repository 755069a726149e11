"""Which variants of a question stand side by side, each with its price in words.

Prices and their order are those of the lessons' table of means (support-desk lesson, section 8:
fewer KV heads, quantisation, window, eviction, pages, prefix caching), with the tutorial's
section on MLA.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from kvtui.compare.kinds import KINDS, attends, kind_name, under_kind
from kvtui.compare.reserving import ALL, departures, runtime_names
from kvtui.dtypes import ElementFormat, element_format
from kvtui.errors import InputError
from kvtui.runtimes import ideal
from kvtui.sizing.kinds import streams
from kvtui.solve import packs
from kvtui.spec import Scenario

VARIANTS_MAX: Final = 256
"""More rows than anyone reads; a product of long lists is a slip."""

_STANDARD_FORMATS: Final = ("fp8", "int8", "int4")
_STANDARD_BLOCK: Final = 16
"""vLLM's default page."""

_KIND_PRICES: Final = {
    "mha": "the most bytes; nothing is given up",
    "gqa": "query heads share K and V: expressiveness a little lower; another model",
    "mqa": "all query heads share one K and V: expressiveness lower; another model",
    "mla": "another model; latent and rotary paths need kernels of their own",
    "window": "information further back than the window is lost",
    "sinks": "eviction: what lies between is lost; positions and kernels get more complex",
}
_OTHER_MODEL: Final = "another model, with its own quality"
_PAGED: Final = "a block table; kernels must gather pages"
_PREFIX: Final = "helps only requests that begin alike; sharing must respect who may see what"
_SMALLER: Final = "precision loss; the kernel must read the format without expanding it"
_SCALED: Final = "precision loss, scales beside the values; the kernel must not expand them"
_WIDER: Final = "more bytes; precision that attention rarely needs"


@dataclass(frozen=True, slots=True)
class Variant:
    """One row's question."""

    name: str
    scenario: Scenario
    price: str
    """What it costs in quality or complexity."""
    assumes: str = ""
    """What had to be assumed to state it."""
    runtime: str = ideal.NAME
    asked: bool = False
    """The question as it was asked, which the others are set against."""


@dataclass(frozen=True, slots=True)
class Variants:
    """What is compared, and what could not be."""

    rows: tuple[Variant, ...]
    left_out: tuple[str, ...] = ()
    """Sentences."""


def standard_variants(scenario: Scenario) -> Variants:
    """One move at a time: every kind, the usual formats, pages, and a shared prefix."""
    found, left_out = [_as_asked(scenario)], []
    if not attends(scenario.model):
        left_out.append(f"{scenario.model.name} has no K and V to be of another kind.")
    for kind in KINDS if attends(scenario.model) else ():
        try:
            found.append(_of_kind(scenario, kind))
        except InputError as error:
            left_out.append(f"{kind}: {error}")
    kv = scenario.storage.kv
    for name in _STANDARD_FORMATS:
        fmt = element_format("dtype", name)
        if fmt.bits_per_value >= kv.bits_per_value:
            continue
        if packs(scenario, fmt):
            found.append(_of_format(scenario, fmt))
        else:
            left_out.append(f"{name}: rows of this model do not pack into it.")
    found += _layouts(scenario)
    return Variants(_without_repeats(found), tuple(left_out))


def variants(
    scenarios: Sequence[Scenario],
    *,
    kinds: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    runtimes: Sequence[str] = (),
) -> Variants:
    """Every combination of what was named; what was not named stays as asked.

    Args:
        scenarios: one question a model.
        kinds: attention kinds, of ``KINDS``.
        dtypes: element formats of the cache.
        runtimes: engines whose reservation is given; ``all`` stands for every one.

    Raises:
        InputError: a name is unknown, a combination impossible, or there are too many.
    """
    if ALL in runtimes:
        runtimes = runtime_names()
    count = len(scenarios) * max(1, len(kinds)) * max(1, len(dtypes)) * max(1, len(runtimes))
    if count > VARIANTS_MAX:
        raise InputError("variants", count, f"at most {VARIANTS_MAX} combinations")
    for name in kinds:
        if name not in KINDS:
            raise InputError("kinds", name, "one of " + ", ".join(KINDS))
    for name in runtimes:
        departures(scenarios[0], name)
    formats = [element_format("dtypes", name) for name in dtypes]
    found: list[Variant] = []
    refused: list[InputError] = []
    for scenario, kind, fmt, runtime in product(
        scenarios, kinds or (None,), formats or (None,), runtimes or (None,)
    ):
        several = len(scenarios) > 1
        try:
            one = _combined(scenario, kind, fmt, runtime, with_model=several)
        except InputError as error:
            refused.append(error)
            continue
        if scenario is not scenarios[0]:
            price = "; ".join(part for part in (_OTHER_MODEL, one.price) if part)
            one = replace(one, asked=False, price=price)
        found.append(one)
    if not found:
        raise refused[0]
    return Variants(tuple(found), tuple(dict.fromkeys(map(str, refused))))


def _combined(
    scenario: Scenario,
    kind: str | None,
    fmt: ElementFormat | None,
    runtime: str | None,
    *,
    with_model: bool,
) -> Variant:
    """One combination; what is None stays as asked."""
    parts = [scenario.model.name] if with_model else []
    asked = _as_asked(scenario)
    turned, prices, assumes = scenario, [], ""
    if kind is not None:
        of_kind = _of_kind(scenario, kind)
        turned, assumes = of_kind.scenario, of_kind.assumes
        parts.append(of_kind.name)
        prices.append(of_kind.price)
    if fmt is not None:
        _check_packing(turned, fmt)
        of_format = _of_format(turned, fmt)
        turned = of_format.scenario
        parts.append(fmt.name)
        prices.append(of_format.price)
    if runtime is not None:
        parts.append(runtime)
    same = _same(turned, scenario)
    return Variant(
        name=" ".join(parts) or asked.name,
        scenario=turned,
        price="; ".join(dict.fromkeys(one for one in prices if one)),
        assumes="" if same else assumes,
        runtime=runtime or ideal.NAME,
        asked=same and runtime in (None, ideal.NAME),
    )


def _as_asked(scenario: Scenario) -> Variant:
    kind = kind_name(scenario.model)
    price = _KIND_PRICES.get(kind, "as asked")
    return Variant(_asked_name(scenario), scenario, price, asked=True)


def _asked_name(scenario: Scenario) -> str:
    return f"{_shown(kind_name(scenario.model))} {scenario.storage.kv.name}"


def _shown(kind: str) -> str:
    return kind.upper() if kind in ("mha", "gqa", "mqa", "mla") else kind


def _of_kind(scenario: Scenario, kind: str) -> Variant:
    turned, assumes = under_kind(scenario, kind)
    price = _KIND_PRICES[kind]
    return Variant(_shown(kind), turned, price, assumes, asked=_same(turned, scenario))


def _of_format(scenario: Scenario, fmt: ElementFormat) -> Variant:
    kv = scenario.storage.kv
    storage = replace(scenario.storage, kv=fmt, v=None)
    smaller = fmt.bits_per_value < 16
    price = (_SCALED if fmt.group is not None else _SMALLER) if smaller else ""
    if fmt.bits_per_value > 16:
        price = _WIDER
    same = fmt == kv and scenario.storage.v is None
    return Variant(fmt.name, replace(scenario, storage=storage), price, asked=same)


def _layouts(scenario: Scenario) -> Iterator[Variant]:
    """Pages, and a prefix that all sequences share."""
    if scenario.storage.block == 1:
        storage = replace(scenario.storage, block=_STANDARD_BLOCK)
        yield Variant(
            "paged",
            replace(scenario, storage=storage),
            _PAGED,
            f"pages of {_STANDARD_BLOCK} tokens",
        )
    shortest = min(run.tokens for run in scenario.workload.runs)
    if scenario.workload.batch > 1 and not scenario.workload.shared_prefix and shortest > 1:
        shared = replace(scenario.workload, shared_prefix=shortest // 2)
        yield Variant(
            "prefix caching",
            replace(scenario, workload=shared),
            _PREFIX,
            f"the first {shortest // 2:,} tokens are the same",
        )


def _without_repeats(found: Sequence[Variant]) -> tuple[Variant, ...]:
    """The question as asked stands once, under the name of its kind where it has one."""
    named = [one for one in found[1:] if one.asked]
    if not named:
        return tuple(found)
    asked, rest = named[0], []
    for one in found[1:]:
        if one is asked:
            rest.append(replace(one, assumes=""))
        elif not one.asked:
            rest.append(one)
    return tuple(rest)


def _same(one: Scenario, other: Scenario) -> bool:
    return (
        one.model == other.model and one.storage == other.storage and one.workload == other.workload
    )


def _check_packing(scenario: Scenario, fmt: ElementFormat) -> None:
    for group in scenario.model.groups:
        for stream in streams(group):
            for row in stream.rows:
                fmt.check_width(f"{row.part} width", row.width)
