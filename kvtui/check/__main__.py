"""``python -m kvtui.check``: run the proofs; what ``kvtui check`` starts. Exit 1 when one fails."""

import argparse
import sys
from collections.abc import Iterator

import msgspec
import torch

from kvtui import host
from kvtui.check.positions import positions_under, prove_positions
from kvtui.check.proofs import prove
from kvtui.check.results import Result, report, table
from kvtui.engine.plan import resolved_device
from kvtui.engine.schedules import UNSCALED
from kvtui.errors import ExitCode, KvtuiError
from kvtui.units import parse_bytes


def main() -> None:
    """Every proof on one device."""
    parser = argparse.ArgumentParser(prog="kvtui check", description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rope", metavar="NAME")
    parser.add_argument("--decode-rope", metavar="NAME")
    parser.add_argument("--at-most", metavar="SIZE")
    options = parser.parse_args()
    try:
        device = resolved_device(options.device)
        on_cuda = device.type == "cuda"
        name = torch.cuda.get_device_name(device) if on_cuda else host.cpu_name()
        torch.set_num_threads(1)  # shapes this small only wait for a second one
        found = report(name, list(_chosen(options, device)))
    except KvtuiError as error:
        sys.stderr.write(f"kvtui: {error}\n")
        sys.exit(int(error.exit_code))
    shown = msgspec.json.encode(found).decode() if options.json else table(found)
    sys.stdout.write(shown + "\n")
    sys.exit(int(ExitCode.RUN_FAILED if found.failed else ExitCode.DONE))


def _chosen(options: argparse.Namespace, device: torch.device) -> Iterator[Result]:
    """All proofs; with a schedule named, the positions alone, filled and decoded as named."""
    if options.rope or options.decode_rope:
        prompt = options.rope or UNSCALED.name
        yield from positions_under(prompt, options.decode_rope or prompt, device)
        return
    at_most = None if options.at_most is None else parse_bytes("at most", options.at_most)
    yield from prove(options.device, at_most_bytes=at_most)
    yield from prove_positions(device)


if __name__ == "__main__":
    main()
