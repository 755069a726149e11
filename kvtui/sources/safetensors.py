"""A folder of safetensors: geometry from its config.json, exact weight bytes from headers.

Only headers are read: eight bytes of length and that much JSON a file. A header that does not fit
its file, or whose tensors overlap or leave it, is refused. Of the checkpoints a folder may hold
side by side one is counted: the index's files, else the transformers names, else the rest.
"""

import json
import re
import stat
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Final

from kvtui.errors import SourceError
from kvtui.sources import config_json
from kvtui.sources.text_file import read_text
from kvtui.spec import Model
from kvtui.units import MIB, count

INDEX: Final = "model.safetensors.index.json"
_HEADER_MAX: Final = 8 * MIB
"""Far above any published file's (a tensor takes about 120 bytes of it)."""
_HEADERS_MAX: Final = 64 * MIB
"""Bytes of all headers of a folder together."""
_FILES_MAX: Final = 4096
_LARGEST: Final = 2**60
_PART: Final = re.compile(r"model-[0-9]{5}-of-([0-9]{5})\.safetensors")
_BITS: Final = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "BF16": 16, "F16": 16,
    "I16": 16, "U16": 16, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "C64": 64,
}  # fmt: skip


def read_folder(folder: Path) -> Model:
    """The model in ``folder``: its config.json, and its weights where there are any.

    Raises:
        SourceError: a file of the folder cannot be used.
        InputError: a field of its config.json cannot be used.
    """
    model = config_json.read(folder / "config.json")
    size, source = _weights(folder)
    if size is None:
        return replace(model, warnings=(*model.warnings, source)) if source else model
    return replace(model, stored_weights_bytes=size, source=f"{model.source}; {source}")


def weights_bytes(folder: Path) -> int | None:
    """Bytes of all tensors of the folder's checkpoint; None where there is none or not all of it.

    Raises:
        SourceError: a file of the folder cannot be used.
        InputError: the index states no possible size.
    """
    return _weights(folder)[0]


def _weights(folder: Path) -> tuple[int | None, str]:
    """The bytes and where they are from, or None and why (empty where there is nothing)."""
    present = {path.name: path for path in _files(folder)}
    index = folder / INDEX
    if index.is_file():
        total, named = _index(index)
        if named and all(name in present for name in named):
            return _headers_bytes([present[name] for name in named])
        if total is not None:
            return total, "total_size of its index"
        if named:
            return None, f"Not all files that {INDEX} names are there: the weights are unknown."
    parts = {name: int(found[1]) for name in present if (found := _PART.fullmatch(name))}
    if "model.safetensors" in present:
        return _headers_bytes([present["model.safetensors"]])
    if parts:
        wanted = max(parts.values())
        if len(parts) != wanted:
            return None, (
                f"{len(parts)} of {wanted} safetensors files are there: the weights are unknown."
            )
        return _headers_bytes([present[name] for name in parts])
    return _headers_bytes(list(present.values())) if present else (None, "")


def _files(folder: Path) -> list[Path]:
    try:
        found = sorted(path for path in folder.iterdir() if path.name.endswith(".safetensors"))
    except OSError as error:
        raise SourceError(f"{folder} cannot be listed: {error.strerror or error}.") from None
    if len(found) > _FILES_MAX:
        raise SourceError(f"{folder} holds {len(found)} safetensors files; at most {_FILES_MAX}.")
    return found


def _index(path: Path) -> tuple[int | None, list[str]]:
    """The size the index states, and the files it names."""
    try:
        table = json.loads(read_text(path))
    except (ValueError, RecursionError):
        raise SourceError(f"{path} is not JSON.") from None
    if not isinstance(table, dict):
        raise SourceError(f"{path} is no JSON object.")
    metadata, named = table.get("metadata"), table.get("weight_map")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    size = None if total is None else count("total_size", total, high=_LARGEST)
    if not isinstance(named, dict):
        return size, []
    files = set(map(str, named.values()))
    return size, sorted(files)


def _headers_bytes(files: Sequence[Path]) -> tuple[int, str]:
    """Bytes of the tensors of all ``files``."""
    total = read = 0
    for path in files:
        tensors, header = _file_bytes(path)
        total, read = total + tensors, read + header
        if read > _HEADERS_MAX:
            raise SourceError(f"{path.parent} holds safetensors headers of more than 64 MiB.")
    return total, "safetensors headers"


def _file_bytes(path: Path) -> tuple[int, int]:
    """Bytes of the tensors of one file, and of its header."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise SourceError(f"{path} is not a regular file.")
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= found.st_size - 8:
                raise SourceError(
                    f"{path} claims a header of {length} bytes in a file of {found.st_size}."
                )
            if length > _HEADER_MAX:
                raise SourceError(f"{path} has a header of {length} bytes; at most {_HEADER_MAX}.")
            raw = file.read(length)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}.") from None
    try:
        header = json.loads(raw, object_pairs_hook=_compact)
    except _TwiceError as error:
        raise SourceError(f"{path} describes {str(error)[:60]!r} twice.") from None
    except (ValueError, RecursionError):
        raise SourceError(f"{path} has a header that is not JSON.") from None
    if not isinstance(header, dict):
        raise SourceError(f"{path} has a header that is no table of tensors.")
    return _tensors_bytes(path, header, found.st_size - 8 - length), length


class _TwiceError(Exception):
    """A name stands twice in one object."""


def _compact(pairs: list[tuple[str, object]]) -> object:
    """A tensor's entry as its span, so that a long header takes little memory."""
    entry = dict(pairs)
    if len(entry) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for name in names if names.count(name) > 1))
    if {"dtype", "shape", "data_offsets"} <= entry.keys():
        return _span(entry)
    return entry


def _tensors_bytes(path: Path, header: dict[str, object], data_bytes: int) -> int:
    """Bytes of the tensors, whose spans must lie in the data one behind another."""
    spans: list[tuple[int, int]] = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if not isinstance(entry, tuple):
            raise SourceError(f"{path} describes tensor {name[:60]!r} in a way that cannot be.")
        spans.append(entry)
    reached = 0
    for start, stop in sorted(spans):
        if start < reached or stop > data_bytes:
            raise SourceError(f"{path} has tensors that overlap or lie outside of it.")
        reached = stop
    return sum(stop - start for start, stop in spans)


def _span(entry: dict[str, object]) -> tuple[int, int] | None:
    """Start and stop of one tensor, None unless they agree with its dtype and shape."""
    offsets, shape = _whole_numbers(entry["data_offsets"]), _whole_numbers(entry["shape"])
    bits = _BITS.get(str(entry["dtype"]))
    if offsets is None or shape is None or bits is None or len(offsets) != 2 or len(shape) > 16:
        return None
    start, stop = offsets
    return (start, stop) if stop - start == -(-prod(shape) * bits // 8) else None


def _whole_numbers(value: object) -> list[int] | None:
    if not isinstance(value, list):
        return None
    numbers = [one for one in value if type(one) is int and 0 <= one <= _LARGEST]
    return numbers if len(numbers) == len(value) else None
