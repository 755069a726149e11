"""Everything the lab did on one device, as text and as JSON."""

import platform
from typing import Final

import msgspec
import torch

from kvtui import host
from kvtui.engine.plan import resolved_device
from kvtui.lab import capacity, crossing, reference, sections
from kvtui.lab.capacity import Case, Measured
from kvtui.lab.crossing import Crossing
from kvtui.lab.desk import Desk, desk
from kvtui.lab.figures import Section, lines
from kvtui.lab.reference import Outcome

LAB_SCHEMA: Final = "kvtui.lab/1"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What ``lab --json`` prints."""

    schema: str = LAB_SCHEMA
    device: str
    torch_version: str
    python_version: str
    threads: int
    """CPU threads of torch."""
    small: Outcome
    references: list[Outcome]
    """The shape whose figures are reported; on a CPU, first, the one the tutorial takes there."""
    crossing: Crossing
    capacity: list[Measured]
    desk: Desk
    sections: list[Section]
    """Every figure of the above beside the lessons'."""


def experiments(
    device_name: str = "auto",
    *,
    cases: tuple[Case, ...] = capacity.CASES,
    at_most_bytes: int | None = None,
    lengths: tuple[int, ...] | None = None,
) -> Report:
    """Run them all; ``lengths`` replaces the sweep's own.

    Raises:
        AssertionError: cached decoding differs from recomputation.
    """
    device = resolved_device(device_name)
    on_cuda = device.type == "cuda"
    own = reference.ON_CUDA if on_cuda else reference.ON_CPU
    shapes = [own] if own == reference.ON_CUDA else [own, reference.ON_CUDA]
    small = reference.run(reference.SMALL, device_name)
    references = [reference.run(shape, device_name) for shape in shapes]
    swept = crossing.run(own, device_name, lengths)
    sizes = [capacity.run(case, device_name, at_most_bytes=at_most_bytes) for case in cases]
    support = desk()
    return Report(
        device=torch.cuda.get_device_name(device) if on_cuda else host.cpu_name(),
        torch_version=str(torch.__version__),
        python_version=platform.python_version(),
        threads=torch.get_num_threads(),
        small=small,
        references=references,
        crossing=swept,
        capacity=sizes,
        desk=support,
        sections=[
            sections.small(small),
            *(sections.reference(one) for one in references),
            sections.crossing(swept),
            sections.counterfactual(),
            sections.capacity(sizes),
            sections.support_desk(support),
        ],
    )


def text(report: Report) -> str:
    """The report for a reader."""
    head = (
        f"device {report.device}, torch {report.torch_version}, Python {report.python_version}, "
        f"{report.threads} thread{'' if report.threads == 1 else 's'}"
    )
    return "\n\n".join([head, *("\n".join(lines(section)) for section in report.sections)])
