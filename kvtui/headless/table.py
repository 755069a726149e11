"""Tables as text, Markdown and CSV: one set of cells, three ways to separate them.

Text and Markdown hold what a reader wants (units, thousands separators); CSV holds plain values
under names with units, one record a line.
"""

import csv
import io
from collections.abc import Sequence

Cell = str | int | float | bool | None


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns in line, the first to the left and figures to the right."""
    widths = [max(len(row[at]) for row in (header, *rows)) for at in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A pipe table, figures aligned to the right; pipes in cells are escaped."""
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"
        for row in (header, rule, *rows)
    )


def csv_table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Comma-separated values as RFC 4180 quotes them; unknown is empty, truth is true or false."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_plain(cell) for cell in row] for row in rows)
    return out.getvalue().removesuffix("\n")


def _plain(cell: Cell) -> str | int | float:
    if cell is None:
        return ""
    return ("true" if cell else "false") if isinstance(cell, bool) else cell
