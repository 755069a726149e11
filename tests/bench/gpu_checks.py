"""All that a GPU can show, in one go of at most eight minutes: ``make gpu-checks OUT=DIR``.

The tests marked ``cuda``, the proofs and the bench run one after another, each with a time limit of
its own; a part that fails or is ended does not stop the next. DIR gets their JSON, their logs and
``summary.json``; the exit status is 1 unless all of them ended well.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

PATIENCE_S = 5.0
"""Between asking a part to end and ending it."""


@dataclass(frozen=True)
class Part:
    """One command; its stdout goes to ``output``, its stderr to ``NAME.log``."""

    name: str
    command: Sequence[str]
    output: str
    limit_s: float


def parts(folder: Path) -> list[Part]:
    """The three parts; 450 seconds in all."""
    python = sys.executable
    tests = [python, "-m", "pytest", "-m", "cuda", f"--junitxml={folder / 'pytest.xml'}"]
    kvtui = [python, "-m", "kvtui"]
    bench = [*kvtui, "bench", "--device", "cuda", "--json", "--time-limit", "150"]
    return [
        Part("pytest", tests, "pytest.txt", 130.0),
        Part("check", [*kvtui, "check", "--device", "cuda", "--json"], "check.json", 100.0),
        # --output is written after every case, so that an end by the limit keeps them.
        Part("bench", [*bench, "--output", str(folder / "bench.json")], "bench.stdout.json", 220.0),
    ]


def carry_out(part: Part, folder: Path) -> dict[str, object]:
    """Run one part to its end or its limit; what is to be said of it."""
    begun = perf_counter()
    with (
        (folder / part.output).open("wb") as output,
        (folder / f"{part.name}.log").open("wb") as log,
    ):
        process = subprocess.Popen(
            part.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=log,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(part.limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end(process)
    return {
        "part": part.name,
        "command": list(part.command),
        "status": status,
        "result": "over its limit" if status is None else "failed" if status else "passed",
        "seconds": round(perf_counter() - begun, 1),
        "limit_seconds": part.limit_s,
    }


def end(process: subprocess.Popen[bytes]) -> None:
    """End a part that still runs, and all it started; nothing is done where it has ended."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(PATIENCE_S)
    with suppress(ProcessLookupError):  # all of the group is gone already
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run(chosen: Sequence[Part], folder: Path) -> int:
    """All parts in turn; the summary is written after each."""
    folder.mkdir(parents=True, exist_ok=True)
    done: list[dict[str, object]] = []
    for part in chosen:
        print(f"{part.name}: at most {part.limit_s:g} s", flush=True)
        done.append(carry_out(part, folder))
        print(f"{part.name}: {done[-1]['result']} after {done[-1]['seconds']} s", flush=True)
        (folder / "summary.json").write_text(json.dumps({"parts": done}, indent=1) + "\n")
    return 0 if all(one["status"] == 0 for one in done) else 1


def main() -> None:
    """``python -m tests.bench.gpu_checks DIR``."""
    if len(sys.argv) != 2 or not sys.argv[1]:
        print("usage: make gpu-checks OUT=DIR", file=sys.stderr)
        sys.exit(2)
    folder = Path(sys.argv[1]).resolve()
    sys.exit(run(parts(folder), folder))


if __name__ == "__main__":
    main()
