"""``python -m kvtui.bench``: run the cases and print them; what ``kvtui bench`` starts.

Exit 1 when a candidate failed or its output was wrong. ``--output`` is written after every case,
so that a run that is ended keeps what it measured.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Final

import msgspec

from kvtui.bench.cases import CASES, chosen
from kvtui.bench.comparing import comparison, earlier
from kvtui.bench.course import Asked, Course
from kvtui.bench.results import Report
from kvtui.bench.text import listing, text
from kvtui.errors import ExitCode, InputError, KvtuiError
from kvtui.units import count, parse_bytes

_LONGEST_S: Final = 86_400


def main() -> None:
    """One run of the bench."""
    options = _parser().parse_args()
    if options.list:
        sys.stdout.write(listing(CASES) + "\n")
        return
    try:
        found = _measured(options)
    except KvtuiError as error:
        sys.stderr.write(f"kvtui: {error}\n")
        sys.exit(int(error.exit_code))
    except KeyboardInterrupt:
        sys.exit(int(ExitCode.INTERRUPTED))
    shown = msgspec.json.encode(found).decode() if options.json else text(found)
    sys.stdout.write(shown + "\n")
    sys.exit(int(ExitCode.RUN_FAILED if found.failed else ExitCode.DONE))


def _measured(options: argparse.Namespace) -> Report:
    """Everything that can be refused is refused before anything is measured."""
    cases = chosen(options.cases)
    then = None if options.compare is None else earlier(Path(options.compare))
    output = None if options.output is None else Path(options.output)
    if output is not None and not output.parent.is_dir():
        raise InputError("output", options.output, "a file in a folder that exists")
    course = Course(
        Asked(
            cases=cases,
            device=options.device,
            dtype=options.dtype,
            threads=count("threads", options.threads) if options.threads is not None else None,
            sweep_bytes=parse_bytes("sweep", options.sweep, low=2**16)
            if options.sweep is not None
            else None,
            seconds=_seconds("seconds", options.seconds),
            time_limit_s=_seconds("time limit", options.time_limit),
        ),
        _progress,
    )
    found = course.run(lambda report: _write(report, output) if output else None)
    _progress("")
    if then is not None:
        found = msgspec.structs.replace(found, compared=comparison(found, then, options.compare))
        if output is not None:
            _write(found, output)
    return found


def _seconds(field: str, text: str | None) -> float | None:
    """A time above 0, s."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= _LONGEST_S:
        raise InputError(field, text, f"seconds above 0, at most {_LONGEST_S:,}")
    return value


def _write(report: Report, path: Path) -> None:
    """Replace ``path`` at once, so that it never holds half a result."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(msgspec.json.encode(report) + b"\n")
        os.replace(part, path)
    except OSError as error:
        raise InputError(
            "output", str(path), f"a file that can be written ({error.strerror})"
        ) from None


def _progress(stage: str) -> None:
    """Rewrite the progress line of a terminal; nothing where stderr is none."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{f'kvtui bench: {stage}' if stage else ''}")
        sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kvtui bench", description=__doc__, allow_abbrev=False)
    parser.add_argument("--cases")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads")
    parser.add_argument("--dtype")
    parser.add_argument("--sweep")
    parser.add_argument("--seconds")
    parser.add_argument("--time-limit")
    parser.add_argument("--compare")
    parser.add_argument("--output")
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    main()
