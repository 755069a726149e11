"""``python -m kvtui.lab``: run the experiments and print them; what ``kvtui lab`` starts."""

import argparse
import sys

import msgspec
import torch

from kvtui import host
from kvtui.engine.plan import resolved_device
from kvtui.errors import ExitCode, KvtuiError
from kvtui.lab import capacity, reference
from kvtui.lab.report import REPORTED, REPORTED_ON, Report, text
from kvtui.units import parse_bytes


def main() -> None:
    """Both experiments on one device; exit 1 when the two paths differ."""
    parser = argparse.ArgumentParser(prog="kvtui lab", description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--at-most", metavar="SIZE")
    options = parser.parse_args()
    try:
        device = resolved_device(options.device)
        at_most = None if options.at_most is None else parse_bytes("at most", options.at_most)
        on_cuda = device.type == "cuda"
        report = Report(
            device=torch.cuda.get_device_name(device) if on_cuda else host.cpu_name(),
            torch_version=str(torch.__version__),
            small=reference.run(reference.SMALL, options.device),
            reference=reference.run(
                reference.ON_CUDA if on_cuda else reference.ON_CPU, options.device
            ),
            reported=REPORTED,
            reported_on=REPORTED_ON,
            capacity=[
                capacity.run(case, options.device, at_most_bytes=at_most) for case in capacity.CASES
            ],
        )
    except KvtuiError as error:
        sys.stderr.write(f"kvtui: {error}\n")
        sys.exit(int(error.exit_code))
    except AssertionError as error:
        sys.stderr.write(f"kvtui: cached decoding differs from recomputation: {error}\n")
        sys.exit(int(ExitCode.RUN_FAILED))
    sys.stdout.write(
        (msgspec.json.encode(report).decode() if options.json else text(report)) + "\n"
    )


if __name__ == "__main__":
    main()
