"""``python -m kvtui.check``: run the proofs; what ``kvtui check`` starts. Exit 1 when one fails."""

import argparse
import sys

import msgspec
import torch

from kvtui import host
from kvtui.check.proofs import prove
from kvtui.check.results import report, table
from kvtui.engine.plan import resolved_device
from kvtui.errors import ExitCode, KvtuiError


def main() -> None:
    """Every proof on one device."""
    parser = argparse.ArgumentParser(prog="kvtui check", description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        device = resolved_device(options.device)
        on_cuda = device.type == "cuda"
        name = torch.cuda.get_device_name(device) if on_cuda else host.cpu_name()
        torch.set_num_threads(1)  # shapes this small only wait for a second one
        found = report(name, list(prove(options.device)))
    except KvtuiError as error:
        sys.stderr.write(f"kvtui: {error}\n")
        sys.exit(int(error.exit_code))
    shown = msgspec.json.encode(found).decode() if options.json else table(found)
    sys.stdout.write(shown + "\n")
    sys.exit(int(ExitCode.RUN_FAILED if found.failed else ExitCode.DONE))


if __name__ == "__main__":
    main()
