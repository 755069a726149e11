"""``python -m kvtui.lab``: run the experiments and print them; what ``kvtui lab`` starts."""

import argparse
import sys

import msgspec
import torch

from kvtui import host
from kvtui.errors import ExitCode, KvtuiError
from kvtui.lab.report import experiments, text
from kvtui.units import parse_bytes


def main() -> None:
    """All experiments on one device; exit 1 when the two paths differ."""
    parser = argparse.ArgumentParser(prog="kvtui lab", description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--at-most", metavar="SIZE")
    options = parser.parse_args()
    try:
        at_most = None if options.at_most is None else parse_bytes("at most", options.at_most)
        # One core is left to the rest of the machine, as in a run: on a shared one, threads that
        # wait for each other would be what is measured.
        torch.set_num_threads(max(1, host.cores() - 1))
        report = experiments(options.device, at_most_bytes=at_most)
    except KvtuiError as error:
        sys.stderr.write(f"kvtui: {error}\n")
        sys.exit(int(error.exit_code))
    except torch.OutOfMemoryError as error:
        sys.stderr.write(f"kvtui: the device ran out of memory: {str(error).splitlines()[0]}\n")
        sys.exit(int(ExitCode.RUN_FAILED))
    except AssertionError as error:
        told = " ".join(str(error).split())
        sys.stderr.write(f"kvtui: cached decoding differs from recomputation: {told}\n")
        sys.exit(int(ExitCode.RUN_FAILED))
    sys.stdout.write(
        (msgspec.json.encode(report).decode() if options.json else text(report)) + "\n"
    )


if __name__ == "__main__":
    main()
