"""The shipped presets and the user's own: models, devices, workloads and small tables.

A preset of the user's (same form, in the XDG config folder) wins over a shipped one of the same
name. Shipped presets lie inside the package (wheel) or beside it (checkout). A lookup reads the
one file it needs; folders are listed only to list them or to say what a wrong name was near.
Nothing here computes with what it reads.
"""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kvtui import config
from kvtui.errors import InputError, SourceError
from kvtui.sources.text_file import read_text
from kvtui.spec import Device
from kvtui.units import format_bytes

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._+-]{0,99}")
_SAME_BOARD: Final = 0.06
"""Largest relative difference of memory between a board and its preset (ECC, driver reserve)."""


def shipped_folder() -> Path:
    """The folder of the shipped presets: in the package, else beside it.

    Raises:
        SourceError: the installation holds neither.
    """
    for folder in (_PACKAGE / "presets", _PACKAGE.parent / "presets"):
        if (folder / "devices.toml").is_file():
            return folder
    raise SourceError("The presets are missing from this installation of kvtui.")


def user_folder() -> Path:
    """The folder of the user's own presets; it need not exist."""
    return config.user_folder(os.environ)


def model_names() -> list[str]:
    """Names of all model presets, sorted."""
    return _names("models", ".json")


def model_facts(name: str) -> dict[str, object]:
    """The facts of the model preset ``name``: a config.json's fields, with name and source.

    Raises:
        SourceError: there is no such preset (with the nearest names), or it cannot be read.
    """
    path = _find("model", "models", name, ".json")
    try:
        facts = json.loads(read_text(path))
    except (ValueError, RecursionError):
        raise SourceError(f"The model preset {path.name} is not valid JSON.") from None
    if not isinstance(facts, dict):
        raise SourceError(f"The model preset {path.name} is not a JSON object.")
    return facts


def workload_names() -> list[str]:
    """Names of all workload presets, sorted."""
    return _names("workloads", ".toml")


def workload_table(name: str) -> dict[str, object]:
    """The fields of the workload preset ``name``, or of the TOML file at that path.

    Raises:
        SourceError: there is no such preset (with the nearest names), or it cannot be read.
    """
    if name.endswith(".toml") or "/" in name:
        return _toml(Path(name))
    return _toml(_find("workload", "workloads", name, ".toml"))


def table(stem: str) -> dict[str, dict[str, dict[str, int | str]]]:
    """The preset table ``stem``.toml (``budget``), the user's own where there is one."""
    for folder in (user_folder(), shipped_folder()):
        path = folder / f"{stem}.toml"
        if path.is_file():
            return _toml(path)  # type: ignore[return-value]  # checked by its reader
    raise SourceError(f"The preset table {stem}.toml is missing from this installation of kvtui.")


def device_names() -> list[str]:
    """Names of all device presets, sorted."""
    return sorted(_devices())


def device(name: str) -> Device:
    """The device preset ``name`` or of that alias.

    Raises:
        SourceError: there is no such preset (with the nearest names).
    """
    wanted = _slug(name)
    devices = _devices()
    for key, fields in devices.items():
        aliases = fields.get("aliases", [])
        if wanted == key or (isinstance(aliases, list) and wanted in aliases):
            return _device(key, fields)
    raise _unknown("gpu", name, sorted(devices))


def device_by_nvml_name(name: str, total_bytes: int | None) -> Device | None:
    """The preset of the board that the driver calls ``name``, told apart by its memory.

    None where no preset has that name, or where its memory is another (a slice of the board, a
    variant nobody has written down).
    """
    known = [
        _device(key, fields)
        for key, fields in _devices().items()
        if name in _strings(fields.get("nvml"))
    ]
    if total_bytes is None:
        return known[0] if len(known) == 1 else None
    near = [
        (abs(board.memory_bytes - total_bytes), board)
        for board in known
        if board.memory_bytes
        and abs(board.memory_bytes - total_bytes) <= _SAME_BOARD * board.memory_bytes
    ]
    return min(near, key=lambda pair: pair[0])[1] if near else None


def _devices() -> dict[str, Mapping[str, object]]:
    """Tables of all devices by name, the user's over the shipped."""
    found: dict[str, Mapping[str, object]] = {}
    for folder in (shipped_folder(), user_folder()):
        path = folder / "devices.toml"
        if path.is_file():
            for key, fields in _toml(path).items():
                if not isinstance(fields, dict):
                    raise SourceError(f"{path.name} holds {key!r} outside a table of a device.")
                found[_slug(key)] = fields
    return found


def _device(key: str, fields: Mapping[str, object]) -> Device:
    """The device of one table; a figure that is left out is unknown."""
    memory = _figure(key, fields, "memory", "bytes")
    bandwidth = _figure(key, fields, "bandwidth", "bytes_per_s")
    flops = _figure(key, fields, "flops", "per_s")
    sources = []
    for part in ("memory", "bandwidth", "flops"):
        inner = fields.get(part)
        if isinstance(inner, dict):
            sources.append(f"{part}: {inner.get('source', 'not given')}")
    marketing = fields.get("marketing")
    if marketing and memory is not None:
        sources.insert(0, f"{format_bytes(memory, digits=4)}, sold as {marketing}")
    return Device(
        name=str(fields.get("title", key)),
        memory_bytes=None if memory is None else int(memory),
        bandwidth_bytes_per_s=bandwidth,
        flop_per_s=flops,
        source="; ".join(sources),
    )


def _figure(key: str, fields: Mapping[str, object], part: str, unit: str) -> float | None:
    inner = fields.get(part)
    if inner is None:
        return None
    value = inner.get(unit) if isinstance(inner, dict) else inner
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e24:
        raise InputError(f"{part} of device {key}", value, f"a table with {unit} above 0")
    return value


def _strings(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _slug(name: str) -> str:
    return name.strip().lower().replace(" ", "-").replace("_", "-")


def _find(what: str, kind: str, name: str, suffix: str) -> Path:
    """The file of a preset, the user's before the shipped."""
    slug = _slug(name)
    if _NAME.fullmatch(slug):
        own = user_folder() / kind
        if own.is_dir():
            for path in sorted(own.glob(f"*{suffix}")):
                if _slug(path.name.removesuffix(suffix)) == slug:
                    return path
        shipped = shipped_folder() / kind / f"{slug}{suffix}"
        if shipped.is_file():
            return shipped
    raise _unknown(what, name, _names(kind, suffix))


def _names(kind: str, suffix: str) -> list[str]:
    folders = (shipped_folder() / kind, user_folder() / kind)
    return sorted(
        {
            _slug(path.name.removesuffix(suffix))
            for folder in folders
            if folder.is_dir()
            for path in folder.glob(f"*{suffix}")
        }
    )


def _unknown(what: str, name: str, names: list[str]) -> SourceError:
    """Why ``name`` was not found, with what it may have been meant to be."""
    from difflib import get_close_matches

    shown = name if len(name) <= 60 else name[:57] + "..."
    near = get_close_matches(_slug(name), names, n=3, cutoff=0.6)
    near = near or [known for known in names if _slug(name) and _slug(name) in known][:3]
    hint = f"did you mean {', '.join(near)}? " if near else ""
    return SourceError(f"Unknown {what} {shown!r}: {hint}`kvtui presets` lists all.")


def _toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SourceError(f"The preset {path.name} is not valid TOML: {error}.") from None
