"""A model by its hub id: only its config.json is fetched, where huggingface_hub is there."""

import json
from typing import Any

from kvtui.errors import SourceError, UnavailableError
from kvtui.sources import config_json
from kvtui.spec import Model


def read(name: str) -> Model:
    """The model ``name`` (owner/model).

    Raises:
        UnavailableError: huggingface_hub is not installed, or the hub cannot be reached.
        SourceError: the file it gives is no config.json.
    """
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise UnavailableError(
            f"{name} is no file and no preset; to ask the hub for it, install kvtui[hub]."
        ) from None
    try:
        path: Any = hf_hub_download(name, "config.json")
    except Exception as error:  # noqa: BLE001  # the library raises dozens of kinds for one thing
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else "no reason"
        raise UnavailableError(f"{name} cannot be had from the hub: {reason}") from None
    try:
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
    except (OSError, ValueError, RecursionError):
        raise SourceError(f"The config.json of {name} is not JSON.") from None
    if not isinstance(facts, dict):
        raise SourceError(f"The config.json of {name} is no object.")
    return config_json.model({"source": f"hub: {name}", **facts}, name=name)
