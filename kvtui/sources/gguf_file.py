"""The form of a GGUF file: metadata and the tensor table, skipping what a sizer does not need.

Little-endian versions 2 and 3. The file is mapped, never read whole: vocabularies are stepped over
text by text, tensor data is not touched. Every count is checked against the bytes that are left
and against what real files hold before it is believed, so that a lying header ends in a sentence
at once and in little memory, also where a sparse file has room for its claims.
"""

import mmap
import stat
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

from kvtui.errors import SourceError


@dataclass(frozen=True, slots=True)
class Skipped:
    """A value that was stepped over: texts in arrays, arrays in arrays, whatever is long."""

    entries: int


Value = int | float | bool | str | list[int] | list[bool] | list[float] | Skipped
"""A metadata value."""

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_MOST_TENSORS: Final = 32_768
"""Real files hold up to a few thousand."""
_MOST_PAIRS: Final = 8192
_KEPT_ARRAY: Final = 4096
"""Longest array kept: one figure a layer; vocabularies are longer."""
_KEPT_TEXT: Final = 4096
"""Longest text kept; chat templates are longer."""
_KEPT_IN_ALL: Final = 2**20
"""Values and characters kept of one file."""
_STEPS: Final = 2**21
"""Texts stepped over in one file; real vocabularies with merges hold 2^20."""
_INNER_ARRAYS: Final = 4096
"""Arrays in arrays of one file; real files have none."""
_LONGEST_NAME: Final = 65_535
"""The format's limit on a key."""
_DEEPEST: Final = 4
_MOST_DIMENSIONS: Final = 8
_LARGEST: Final = 2**60
_ALIGNMENT: Final = 32

_STRING, _ARRAY = 8, 9
_SCALARS: Final = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
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
    40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
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
    offset: int
    """Where it begins, counted from the start of the tensor data."""


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
        SourceError: it is no regular file, no GGUF, its header does not hold together, or it ends
            before its tensors do.
    """
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise SourceError(f"{path} is a folder; give a GGUF file.")
        if not stat.S_ISREG(found.st_mode):
            raise SourceError(f"{path} is not a regular file.")
        if found.st_size < 24:
            raise SourceError(f"{path} is too short for a GGUF file.")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(path, data).header()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValueError:
        raise SourceError("The path of a GGUF file cannot be used.") from None


class _Reader:
    """Walks the header; ``_at`` never passes the end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data, self._at, self._size = path, data, 0, len(data)
        self._kept = 0
        self._steps = 0

    def header(self) -> GgufHeader:
        if self._take(4) != _MAGIC:
            raise self._broken("it does not begin with GGUF")
        version = self._number("I")
        if version not in _VERSIONS:
            raise self._broken(f"version {version} is not 2 or 3, little-endian")
        tensors = self._count("tensors", least_bytes=8 + 4 + 4 + 8, most=_MOST_TENSORS)
        pairs = self._count("metadata entries", least_bytes=8 + 4 + 1, most=_MOST_PAIRS)
        metadata: dict[str, Value] = {}
        for _ in range(pairs):
            key = self._name()
            if key in metadata:
                raise self._broken(f"key {key[:60]!r} is there twice")
            metadata[key] = self._value(self._number("I"))
        found = tuple(self._tensor() for _ in range(tensors))
        if found:
            self._check_places(found, metadata.get("general.alignment", _ALIGNMENT))
        return GgufHeader(metadata, found)

    def _tensor(self) -> TensorEntry:
        name = self._name()
        dimensions = self._number("I")
        if dimensions > _MOST_DIMENSIONS:
            raise self._broken(f"tensor {name[:60]!r} has {dimensions} dimensions")
        shape = tuple(self._number("Q") for _ in range(dimensions))
        kind = self._number("I")
        offset = self._number("Q")
        if kind not in TENSOR_TYPES:
            raise self._broken(f"tensor {name[:60]!r} has the unknown type {kind}")
        type_name, block, block_bytes = TENSOR_TYPES[kind]
        values = prod(shape)
        if values > _LARGEST or (shape[0] if shape else 1) % block:
            raise self._broken(f"tensor {name[:60]!r} has a shape that {type_name} cannot pack")
        return TensorEntry(name, shape, type_name, values // block * block_bytes, offset)

    def _check_places(self, tensors: tuple[TensorEntry, ...], alignment: Value) -> None:
        """Every tensor lies in the file, and none in another."""
        whole = isinstance(alignment, int) and not isinstance(alignment, bool)
        if not whole or not isinstance(alignment, int) or not 1 <= alignment <= 2**20:
            raise self._broken("its general.alignment is no size in bytes")
        if len({tensor.name for tensor in tensors}) < len(tensors):
            raise self._broken("two of its tensors have one name")
        room = self._size - -(-self._at // alignment) * alignment
        reached = 0
        for tensor in sorted(tensors, key=lambda one: (one.offset, one.bytes)):
            if tensor.offset < reached:
                raise self._broken(f"tensor {tensor.name[:60]!r} overlaps another")
            reached = tensor.offset + tensor.bytes
        if reached > room:
            raise self._broken(
                f"its tensors reach to byte {reached} of {max(0, room)}, so it was cut short"
            )

    def _value(self, kind: int) -> Value:
        if kind == _STRING:
            length = self._number("Q")
            if length > _KEPT_TEXT:
                self._skip(length)
                return Skipped(length)
            self._keep(length)
            return self._take(length).decode("utf-8", errors="replace")
        if kind == _ARRAY:
            return self._array(0)
        value: int | float | bool = self._scalar(self._layout(kind))
        return value

    def _array(self, depth: int) -> Value:
        if depth >= _DEEPEST:
            raise self._broken("its arrays are nested too deeply")
        kind = self._number("I")
        if kind == _STRING:
            length = self._count("array entries", least_bytes=8, most=_STEPS)
            self._step_over_texts(length)
            return Skipped(length)
        if kind == _ARRAY:
            length = self._count("arrays in an array", least_bytes=12, most=_INNER_ARRAYS)
            self._step(length * (_STEPS // _INNER_ARRAYS))
            for _ in range(length):
                self._array(depth + 1)
            return Skipped(length)
        layout = self._layout(kind)
        width = struct.calcsize(f"<{layout}")
        length = self._count("array entries", least_bytes=width, most=_LARGEST)
        if depth or length > _KEPT_ARRAY:
            self._skip(length * width)
            return Skipped(length)
        self._keep(length)
        return list(struct.unpack(f"<{length}{layout}", self._take(length * width)))

    def _step_over_texts(self, number: int) -> None:
        """Move behind ``number`` texts: the only long loop, so that it has no calls to spare."""
        self._step(number)
        data, at, last = self._data, self._at, self._size - 8
        length_at = struct.Struct("<Q").unpack_from
        for _ in range(number):
            if at > last:
                raise self._cut_short()
            at += 8 + length_at(data, at)[0]
        self._at = min(at, self._size)
        if at > self._size:
            raise self._cut_short()

    def _layout(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise self._broken(f"value type {kind} is unknown")
        return _SCALARS[kind]

    def _name(self) -> str:
        length = self._number("Q")
        if length > _LONGEST_NAME:
            raise self._broken(f"a name in it is {length} bytes long")
        self._keep(length)
        return self._take(length).decode("utf-8", errors="replace")

    def _count(self, what: str, *, least_bytes: int, most: int) -> int:
        """A number of things of at least ``least_bytes`` each, that the file can hold."""
        number = self._number("Q")
        if number > most or number * least_bytes > self._size - self._at:
            raise self._broken(f"it claims {number} {what}, more than such a file can hold")
        return number

    def _number(self, layout: str) -> int:
        value: int = self._scalar(layout)  # type: ignore[assignment]  # I and Q are whole
        return value

    def _scalar(self, layout: str) -> int | float | bool:
        layout = f"<{layout}"
        value: int | float | bool
        (value,) = struct.unpack(layout, self._take(struct.calcsize(layout)))
        return value

    def _take(self, length: int) -> bytes:
        start = self._at
        self._skip(length)
        return self._data[start : self._at]

    def _skip(self, length: int) -> None:
        if length > self._size - self._at:
            raise self._cut_short()
        self._at += length

    def _keep(self, amount: int) -> None:
        self._kept += amount
        if self._kept > _KEPT_IN_ALL:
            raise self._broken("its metadata is larger than any model's")

    def _step(self, number: int) -> None:
        self._steps += number
        if self._steps > _STEPS:
            raise self._broken("its arrays hold more than any vocabulary")

    def _cut_short(self) -> SourceError:
        return self._broken("it ends in the middle of its header")

    def _broken(self, why: str) -> SourceError:
        return SourceError(f"{self._path} is no usable GGUF file: {why}.")
