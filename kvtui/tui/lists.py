"""What the pickers offer. Preset names are read when a list is opened, not before."""

from kvtui.tui.fields import FIELDS


def names(kind: str) -> list[str]:
    """Names of ``models``, ``devices`` or ``workloads``, or the choices of the field ``kind``."""
    from kvtui.sources import presets

    if kind == "models":
        return list(presets.model_names())
    if kind == "workloads":
        return list(presets.workload_names())
    if kind == "devices":
        return ["host", "auto", *presets.device_names()]
    return list(next(one.choices for one in FIELDS if one.name == kind))
