"""The measurements of transformers, and the models that they are of."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from kvtui.sources import config_json, presets
from kvtui.spec import Model

_FILE = Path(__file__).resolve().parents[1] / "data" / "oracle.json"


@cache
def measured() -> dict[str, dict[str, Any]]:
    """Every model that transformers could build, by name."""
    models: dict[str, dict[str, Any]] = json.loads(_FILE.read_text())["models"]
    return {name: found for name, found in models.items() if found["status"] == "ok"}


@cache
def preset(name: str) -> Model:
    return config_json.model(presets.model_facts(name), name=name)
