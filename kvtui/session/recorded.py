"""The question behind a recorded run, asked anew: what the inputs show while it is replayed.

``auto`` and ``host`` named the machine that was recorded; they give way to its own figures.
"""

from dataclasses import fields
from typing import Final

from kvtui.errors import KvtuiError
from kvtui.records import EngineDevice, GroupShape, Limit, RunAsked
from kvtui.sources.request import Request, scenario

_HERE: Final = ("auto", "host")
_KNOWN: Final = frozenset(one.name for one in fields(Request))


def recorded_request(
    asked: RunAsked | None, device: EngineDevice | None, limit: Limit | None
) -> Request | None:
    """The typed fields if they can still be answered, else the run's own shape; None for neither.

    A model file that was moved since cannot be answered; the shapes of the run can.
    """
    if asked is None:
        return None
    typed = {name: text for name, text in asked.fields.items() if name in _KNOWN}
    for candidate in (typed, _shape_fields(asked)):
        if not candidate:
            continue
        request = Request(**_on_recorded_machine(candidate, device, limit))
        try:
            scenario(request)
        except KvtuiError:
            continue
        return request
    return None


def _on_recorded_machine(
    given: dict[str, str], device: EngineDevice | None, limit: Limit | None
) -> dict[str, str]:
    """``given`` with figures in place of a name that means this machine."""
    found = dict(given)
    if found.get("gpu") in _HERE:
        del found["gpu"]
    if "gpu" in found or device is None:
        return found
    found.setdefault("memory", f"{device.available_bytes}")
    if limit is not None and limit.read_bytes_per_s >= 1:
        found.setdefault("bandwidth", f"{limit.read_bytes_per_s:.0f}")
    return found


def _shape_fields(asked: RunAsked) -> dict[str, str]:
    """Fields of a run of one layer kind; empty for several kinds."""
    command = asked.command
    shapes = [shape for shape in command.groups if shape.kind != "none"]
    if len(shapes) != 1:
        return {}
    common = {
        "layers": f"{shapes[0].layers}",
        "batch": f"{command.batch}",
        "context": f"{command.target}",
        "dtype": command.dtype,
    }
    return {name: text for name, text in {**common, **_of_kind(shapes[0])}.items() if text != "0"}


def _of_kind(shape: GroupShape) -> dict[str, str]:
    if shape.kind == "mla":
        return {
            "attention": "mla",
            "q_heads": f"{shape.q_heads}",
            "kv_lora_rank": f"{shape.kv_lora_rank}",
            "rope_dim": f"{shape.rope_dim}",
        }
    heads = {
        "q_heads": f"{shape.q_heads}",
        "kv_heads": f"{shape.kv_heads}",
        "head_dim": f"{shape.k_width}",
        "v_head_dim": f"{shape.v_width if shape.v_width != shape.k_width else 0}",
    }
    if shape.kind in ("window", "sinks"):
        heads |= {"attention": shape.kind, "window": f"{shape.window}"}
    if shape.kind == "sinks":
        heads["sinks"] = f"{shape.sinks}"
    return heads
