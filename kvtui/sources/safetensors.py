"""A folder of safetensors: geometry from its config.json, exact weight bytes from headers.

Only headers are read: eight bytes of length and that much JSON a file. A header that does not fit
its file, or whose tensors overlap or leave it, is refused.
"""

import json
import stat
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Final

from kvtui.errors import SourceError
from kvtui.sources import config_json
from kvtui.sources.text_file import read_text
from kvtui.spec import Model
from kvtui.units import count

_HEADER_MAX: Final = 100 * 1000 * 1000
"""The format's own limit."""
_FILES_MAX: Final = 4096
_BITS: Final = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "BF16": 16, "F16": 16,
    "I16": 16, "U16": 16, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "C64": 64,
}  # fmt: skip


def read_folder(folder: Path) -> Model:
    """The model in ``folder``: its config.json, and its weights where there are any.

    Raises:
        SourceError: a file of the folder cannot be used.
        InputError: a field of its config.json cannot be used.
    """
    model = config_json.read(folder / "config.json")
    size = weights_bytes(folder)
    if size is None:
        return model
    return replace(model, stored_weights_bytes=size, source=f"{model.source}; safetensors headers")


def weights_bytes(folder: Path) -> int | None:
    """Bytes of all tensors in the folder's safetensors files; None where there are none."""
    try:
        files = sorted(folder.glob("*.safetensors"))
    except OSError as error:
        raise SourceError(f"{folder} cannot be listed: {error.strerror or error}.") from None
    if len(files) > _FILES_MAX:
        raise SourceError(f"{folder} holds {len(files)} safetensors files; at most {_FILES_MAX}.")
    return sum(_file_bytes(path) for path in files) if files else _index_bytes(folder)


def _index_bytes(folder: Path) -> int | None:
    """What the index states where the files themselves are not there."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return None
    try:
        table = json.loads(read_text(index))
    except (ValueError, RecursionError):
        raise SourceError(f"{index} is not JSON.") from None
    metadata = table.get("metadata") if isinstance(table, dict) else None
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    return None if size is None else count("total_size", size, high=2**60)


def _file_bytes(path: Path) -> int:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise SourceError(f"{path} is not a regular file.")
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(_HEADER_MAX, found.st_size - 8):
                raise SourceError(
                    f"{path} claims a header of {length} bytes in a file of {found.st_size}."
                )
            raw = file.read(length)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}.") from None
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError):
        raise SourceError(f"{path} has a header that is not JSON.") from None
    if not isinstance(header, dict):
        raise SourceError(f"{path} has a header that is no object.")
    return _tensors_bytes(path, header, found.st_size - 8 - length)


def _tensors_bytes(path: Path, header: Mapping[str, object], data_bytes: int) -> int:
    """Bytes of the tensors, whose spans must lie in the data one behind another."""
    spans: list[tuple[int, int]] = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        span = _span(entry)
        if span is None:
            raise SourceError(f"{path} describes tensor {name[:60]!r} in a way that cannot be.")
        spans.append(span)
    reached = 0
    for start, stop in sorted(spans):
        if start < reached or stop > data_bytes:
            raise SourceError(f"{path} has tensors that overlap or lie outside of it.")
        reached = stop
    return sum(stop - start for start, stop in spans)


def _span(entry: object) -> tuple[int, int] | None:
    """Start and stop of one tensor, None unless they agree with its dtype and shape."""
    if not isinstance(entry, dict):
        return None
    offsets, shape, bits = (
        entry.get("data_offsets"),
        entry.get("shape"),
        _BITS.get(str(entry.get("dtype"))),
    )
    if not (_whole_numbers(offsets) and _whole_numbers(shape)) or bits is None:
        return None
    assert isinstance(offsets, list)
    assert isinstance(shape, list)
    if len(offsets) != 2 or len(shape) > 16:
        return None
    start, stop = offsets
    values = prod(shape)
    return (start, stop) if stop - start == -(-values * bits // 8) else None


def _whole_numbers(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, int) and not isinstance(one, bool) and 0 <= one <= 2**60 for one in value
    )
