"""The form of a GGUF file: metadata and the tensor table, skipping what a sizer does not need.

Little-endian versions 2 and 3. The file is mapped, never read whole: vocabularies are stepped over
string by string, tensor data is not touched. Every count is checked against the bytes that are
left before it is believed, so that a lying header ends in a sentence at once.
"""

import mmap
import stat
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

from kvtui.errors import SourceError

Value = int | float | bool | str | list[int] | list[bool] | list[float] | None
"""A metadata value; None for what is stepped over (texts in arrays, long arrays)."""

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_KEPT_ARRAY: Final = 4096
"""Longest array kept: one figure a layer; vocabularies are longer."""
_LONGEST_KEY: Final = 65_535
_LONGEST_TEXT: Final = 65_536
_DEEPEST: Final = 4
_MOST_DIMENSIONS: Final = 8

_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS: Final = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?",
    10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip

TENSOR_TYPES: Final = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2),
    26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
}  # fmt: skip
"""ggml tensor types: name, values of a block, bytes of a block (ggml-common.h)."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One row of the tensor table."""

    name: str
    shape: tuple[int, ...]
    """Fastest axis first, as ggml writes it."""
    type_name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a sizer needs of a file."""

    metadata: dict[str, Value]
    tensors: tuple[TensorEntry, ...]

    @property
    def weights_bytes(self) -> int:
        """Bytes of all tensors as they lie in the file, padding excluded."""
        return sum(tensor.bytes for tensor in self.tensors)


def read_header(path: Path) -> GgufHeader:
    """Metadata and tensor table of ``path``.

    Raises:
        SourceError: it is no regular file, no GGUF, or its header does not hold together.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise SourceError(f"{path} is not a regular file.")
        if found.st_size < 24:
            raise SourceError(f"{path} is too short for a GGUF file.")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(path, data).header()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}.") from None


class _Reader:
    """Walks the header; ``at`` never passes the end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data, self._at, self._size = path, data, 0, len(data)

    def header(self) -> GgufHeader:
        if self._take(4) != _MAGIC:
            raise self._broken("it does not begin with GGUF")
        version = self._number("<I")
        if version not in _VERSIONS:
            raise self._broken(f"version {version} is not 2 or 3, little-endian")
        tensors = self._count("<Q", "tensors", least_bytes=8 + 4 + 8 + 4 + 8)
        pairs = self._count("<Q", "metadata entries", least_bytes=8 + 4 + 1)
        metadata: dict[str, Value] = {}
        for _ in range(pairs):
            key = self._text(_LONGEST_KEY)
            metadata[key] = self._value(self._number("<I"), 0)
        return GgufHeader(metadata, tuple(self._tensor() for _ in range(tensors)))

    def _tensor(self) -> TensorEntry:
        name = self._text(_LONGEST_KEY)
        dimensions = self._number("<I")
        if dimensions > _MOST_DIMENSIONS:
            raise self._broken(f"tensor {name[:60]!r} has {dimensions} dimensions")
        shape = tuple(self._number("<Q") for _ in range(dimensions))
        kind = self._number("<I")
        self._number("<Q")  # offset
        if kind not in TENSOR_TYPES:
            raise self._broken(f"tensor {name[:60]!r} has the unknown type {kind}")
        type_name, block, block_bytes = TENSOR_TYPES[kind]
        values = prod(shape)
        if values > 2**60 or (shape and shape[0] % block):
            raise self._broken(f"tensor {name[:60]!r} has a shape that {type_name} cannot pack")
        return TensorEntry(name, shape, type_name, values // block * block_bytes)

    def _value(self, kind: int, depth: int) -> Value:
        if kind == _STRING:
            return self._text(_LONGEST_TEXT, keep=True)
        if kind == _ARRAY:
            return self._array(depth)
        if kind not in _SCALARS:
            raise self._broken(f"value type {kind} is unknown")
        return self._scalar(_SCALARS[kind])

    def _array(self, depth: int) -> Value:
        if depth >= _DEEPEST:
            raise self._broken("its arrays are nested too deeply")
        kind = self._number("<I")
        least = {_STRING: 8, _ARRAY: 12}.get(kind) or struct.calcsize(_SCALARS.get(kind, "<B"))
        length = self._count("<Q", "array entries", least_bytes=least)
        if kind == _STRING:
            for _ in range(length):
                self._skip(self._number("<Q"))
            return None
        if kind == _ARRAY:
            for _ in range(length):
                self._array(depth + 1)
            return None
        if kind not in _SCALARS:
            raise self._broken(f"value type {kind} is unknown")
        if length > _KEPT_ARRAY:
            self._skip(length * least)
            return None
        layout = f"<{length}{_SCALARS[kind][1]}"
        return list(struct.unpack(layout, self._take(struct.calcsize(layout))))

    def _text(self, longest: int, *, keep: bool = False) -> str:
        length = self._number("<Q")
        if length > longest and not keep:
            raise self._broken(f"a name of {length} bytes")
        if length > longest:
            self._skip(length)
            return ""
        return self._take(length).decode("utf-8", errors="replace")

    def _count(self, layout: str, what: str, *, least_bytes: int) -> int:
        """A number of things of at least ``least_bytes`` each, that the file can hold."""
        number = self._number(layout)
        if number * least_bytes > self._size - self._at:
            raise self._broken(f"it claims {number} {what}, more than its size can hold")
        return number

    def _number(self, layout: str) -> int:
        value = self._scalar(layout)
        assert isinstance(value, int)
        return value

    def _scalar(self, layout: str) -> int | float | bool:
        raw = self._take(struct.calcsize(layout))
        value: int | float | bool = struct.unpack(layout, raw)[0]
        return value

    def _take(self, length: int) -> bytes:
        start = self._at
        self._skip(length)
        return self._data[start : self._at]

    def _skip(self, length: int) -> None:
        if length > self._size - self._at:
            raise self._broken("it ends in the middle of its header")
        self._at += length

    def _broken(self, why: str) -> SourceError:
        return SourceError(f"{self._path} is no usable GGUF file: {why}.")
