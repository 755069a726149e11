"""``kvtui compare``: variants of one question as a table, a figure, Markdown, CSV or JSON."""

import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Final

import msgspec

from kvtui.compare import Comparison, Row, compared, figure
from kvtui.errors import ExitCode, InputError
from kvtui.headless import output
from kvtui.headless.table import csv_table, markdown_table, text_table
from kvtui.sources.request import DetectDevice, Request, scenario
from kvtui.spec import Scenario
from kvtui.units import format_bytes, format_count, format_ms, format_share

COMPARE_SCHEMA: Final = "kvtui.compare/1"
FORMS: Final = ("text", "json", "csv", "markdown", "plot")
_WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Compared:
    """What is set side by side, as typed: names separated by commas."""

    models: str | None = None
    kinds: str | None = None
    dtypes: str | None = None
    runtimes: str | None = None


def compare(
    request: Request, asked: Compared, *, form: str = "text", detect: DetectDevice | None = None
) -> ExitCode:
    """Print the comparison for ``request`` in ``form``, one of ``FORMS``."""
    comparison = compared(
        _scenarios(request, asked.models, detect),
        kinds=[name.lower() for name in names("kinds", asked.kinds)],
        dtypes=names("dtypes", asked.dtypes),
        runtimes=[name.lower() for name in names("runtimes", asked.runtimes)],
    )
    output.data(_shown(comparison, form))
    if form != "json":
        for sentence in (*comparison.left_out, *comparison.warnings):
            output.note(sentence)
    return ExitCode.DONE


def names(field: str, text: str | None) -> list[str]:
    """The names in ``text``, separated by commas."""
    if text is None:
        return []
    found = [part.strip() for part in text.split(",")]
    if not all(found):
        raise InputError(field, text, "names separated by commas")
    return list(dict.fromkeys(found))


def _scenarios(request: Request, models: str | None, detect: DetectDevice | None) -> list[Scenario]:
    if models is None:
        return [scenario(request, detect=detect)]
    if request.model is not None:
        raise InputError("model", request.model, "left out where models are given")
    return [
        scenario(replace(request, model=name), detect=detect) for name in names("models", models)
    ]


def _shown(comparison: Comparison, form: str) -> str:
    if form == "json":
        return compare_json(comparison)
    if form == "csv":
        keys = [field.name for field in fields(Row)]
        return csv_table(keys, [list(asdict(row).values()) for row in comparison.rows])
    if form == "markdown":
        header, *rows = _table(comparison)
        priced = zip(rows, comparison.rows, strict=True)
        cells = [(*map(str.strip, row), _price(one)) for row, one in priced]
        return markdown_table((*header, "price"), cells)
    if form == "plot":
        from kvtui.headless.compare_plot import drawn

        return drawn(figure(comparison))
    return compare_text(comparison)


def compare_json(comparison: Comparison) -> str:
    """Rows and the figure's curves as one object."""
    return msgspec.json.encode(
        {
            "schema": COMPARE_SCHEMA,
            "rows": comparison.rows,
            "figure": figure(comparison),
            "left_out": comparison.left_out,
            "warnings": comparison.warnings,
        }
    ).decode()


def compare_text(comparison: Comparison) -> str:
    """The table, and below it what each variant costs; ``>`` marks the question as asked."""
    header, *rows = _table(comparison)
    widest = max(len(row.name) for row in comparison.rows) + 4
    prices = [
        textwrap.fill(
            _price(row),
            _WIDTH,
            initial_indent=f"{_marked(row):<{widest}}",
            subsequent_indent=" " * widest,
        )
        for row in comparison.rows
    ]
    return "\n".join(
        (_title(comparison), "", text_table(header, rows), "", "What each costs", *prices)
    )


def _title(comparison: Comparison) -> str:
    first = comparison.scenarios[0]
    workload = first.workload
    models = list(dict.fromkeys(row.model for row in comparison.rows))
    return (
        f"{', '.join(models)} · {workload.batch:,} × {workload.longest:,} tokens · "
        f"{first.device.name} · bytes of the whole model, limits of one rank"
    )


def _table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Header and rows; what is reserved on one rank only where it differs from the bytes."""
    apart = any(row.reserved_bytes != row.bytes for row in comparison.rows)
    named: dict[str, Callable[[Row], str]] = {
        "variant": _marked,
        "bytes": lambda row: format_bytes(row.bytes),
        "share": lambda row: format_share(row.share),
        "per token": lambda row: format_bytes(row.bytes_per_token),
        "reserved": lambda row: format_bytes(row.reserved_bytes),
        "max B": lambda row: format_count(row.max_batch),
        "max T": lambda row: format_count(row.max_context),
        "step floor": lambda row: format_ms(row.step_ms),
        "verdict": lambda row: row.verdict or "",
    }
    columns = [
        (name, *(shown(row) for row in comparison.rows))
        for name, shown in named.items()
        if apart or name != "reserved"
    ]
    return list(zip(*columns, strict=True))


def _marked(row: Row) -> str:
    return f"> {row.name}" if row.asked else f"  {row.name}"


def _price(row: Row) -> str:
    return f"{row.price} (assumed: {row.assumes})" if row.assumes else row.price
