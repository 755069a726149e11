"""Rows of a comparison: what each variant takes, how far it goes, how fast, at what price."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvtui import roofline
from kvtui.compare.kinds import kind_name
from kvtui.compare.reserving import available_bytes, departures, reserved_bytes
from kvtui.compare.variants import Variant, Variants, standard_variants, variants
from kvtui.sizing.budget import Verdict, budget
from kvtui.sizing.payload import payload
from kvtui.solve import Limit, largest
from kvtui.spec import Scenario, SequenceRun, Workload


@dataclass(frozen=True, slots=True)
class Row:
    """One variant. Bytes of payload are of the whole model, reservations of the fullest rank."""

    name: str
    model: str
    kind: str
    dtype: str
    runtime: str
    asked: bool
    bytes: int
    """Payload and constant state of the whole workload, no page rounding."""
    state_bytes: int
    """The part of ``bytes`` that does not grow with T."""
    bytes_per_token: int
    """One more token of the longest sequence."""
    share: float
    """``bytes`` as a share of the first row that is as asked."""
    reserved_bytes: int
    """What the runtime takes on the fullest rank."""
    available_bytes: int | None
    """Memory for the cache on one rank, as the runtime counts it."""
    spare_bytes: int | None
    """Left in the budget; negative when over, None without a memory figure."""
    verdict: Verdict | None
    max_batch: Limit
    max_context: Limit
    step_ms: float | None
    """Floor of one decode step."""
    tokens_per_s: float | None
    price: str
    assumes: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rows, in the order asked for."""

    rows: tuple[Row, ...]
    left_out: tuple[str, ...]
    """What could not be compared, a sentence each."""
    warnings: tuple[str, ...]
    scenarios: tuple[Scenario, ...]
    """The question of each row."""


def compared(
    scenarios: Sequence[Scenario],
    *,
    kinds: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    runtimes: Sequence[str] = (),
) -> Comparison:
    """The rows for ``scenarios`` (one a model); with nothing named, the lessons' table.

    Raises:
        InputError: a name is unknown or a combination impossible.
    """
    if len(scenarios) == 1 and not (kinds or dtypes or runtimes):
        found = standard_variants(scenarios[0])
    else:
        found = variants(scenarios, kinds=kinds, dtypes=dtypes, runtimes=runtimes)
    return _comparison(found)


def _comparison(found: Variants) -> Comparison:
    first = next((one for one in found.rows if one.asked), found.rows[0])
    against = _total_bytes(first.scenario)
    changed = any(
        one.scenario.model.parameters and one.scenario.model.groups != first.scenario.model.groups
        for one in found.rows
        if one.scenario.model.name == first.scenario.model.name
    )
    warnings = [text for one in found.rows for text in one.scenario.warnings]
    if changed and first.scenario.budget.weights_bytes is None:
        warnings.append(
            f"Weights are those of {first.scenario.model.name} as published, whatever the kind."
        )
    return Comparison(
        rows=tuple(_row(one, against) for one in found.rows),
        left_out=found.left_out,
        warnings=tuple(dict.fromkeys(warnings)),
        scenarios=tuple(one.scenario for one in found.rows),
    )


def _total_bytes(scenario: Scenario) -> int:
    return payload(scenario.model, scenario.workload, scenario.storage).total_bytes


def _row(variant: Variant, against: int) -> Row:
    scenario = variant.scenario
    whole = payload(scenario.model, scenario.workload, scenario.storage)
    held = reserved_bytes(scenario, variant.runtime)
    available = available_bytes(scenario, variant.runtime)
    room = replace(budget(scenario, held), available_bytes=available)
    step = roofline.step(scenario)
    workload = scenario.workload

    def fits(batch: int, tokens: int, shared: int) -> bool:
        trial = Workload(
            runs=(SequenceRun(tokens, batch),),
            shared_prefix=min(shared, tokens),
            lookahead=workload.lookahead,
            in_flight=workload.in_flight,
        )
        assert available is not None
        asked = replace(scenario, workload=trial)
        return reserved_bytes(asked, variant.runtime) <= available

    prefix = workload.shared_prefix
    why = departures(scenario, variant.runtime)
    known = available is not None
    return Row(
        name=variant.name,
        model=scenario.model.name,
        kind=kind_name(scenario.model),
        dtype=scenario.storage.kv.name,
        runtime=variant.runtime,
        asked=variant.asked,
        bytes=whole.total_bytes,
        state_bytes=whole.state_bytes,
        bytes_per_token=whole.bytes_per_token,
        share=whole.total_bytes / against if against else 1.0,
        reserved_bytes=held,
        available_bytes=available,
        spare_bytes=room.spare_bytes,
        verdict=room.verdict,
        max_batch=largest(lambda n: fits(n, workload.longest, prefix)) if known else None,
        max_context=largest(lambda n: fits(workload.batch, n, prefix)) if known else None,
        step_ms=step.floor_ms,
        tokens_per_s=step.tokens_per_s,
        price="; ".join(part for part in (variant.price, why) if part) or "as asked",
        assumes=variant.assumes,
    )
