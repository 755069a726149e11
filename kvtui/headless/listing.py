"""``kvtui presets``: the models, devices and workloads that a name can stand for."""

import json

from kvtui.errors import ExitCode
from kvtui.headless import output
from kvtui.sources import presets as sources


def presets(*, as_json: bool = False) -> ExitCode:
    """Print every preset name by kind."""
    found = {
        "models": sources.model_names(),
        "devices": sources.device_names(),
        "workloads": sources.workload_names(),
    }
    if as_json:
        output.data(json.dumps({"schema": "kvtui.presets/1", **found}))
        return ExitCode.DONE
    for kind, names in found.items():
        output.data(f"{kind} ({len(names)})")
        output.data("\n".join(f"  {name}" for name in names))
    return ExitCode.DONE
