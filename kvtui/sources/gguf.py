"""A GGUF file as a model: layer groups from its metadata, weight bytes from its tensor table.

A model split over several files is read as one: geometry from the first, weights from all of
them. Nothing is guessed: where parts are missing the weights stay unknown and a warning says so.
"""

import re
from pathlib import Path
from typing import Final

from kvtui.errors import SourceError
from kvtui.sources.gguf_file import GgufHeader, Value, read_header
from kvtui.sources.gguf_keys import Keys
from kvtui.sources.gguf_layers import layer_groups
from kvtui.spec import Model

_ARCHITECTURE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PART: Final = re.compile(r"(.*-)([0-9]{5})(-of-)([0-9]{5})(\.gguf)", re.IGNORECASE)
_PARTS_MAX: Final = 1024
_NAME_MAX: Final = 120


def read(path: Path) -> Model:
    """The model in ``path``.

    Raises:
        SourceError: it is no usable GGUF file.
        InputError: a key is missing or cannot be used; names key, value and range.
    """
    header = read_header(path)
    number = header.metadata.get("split.count")
    parts = [path] if not _several(number) else _parts(path, number)
    missing = sum(not part.exists() for part in parts)
    if parts[0] != path and parts[0].exists():
        header = read_header(parts[0])
    arch = header.metadata.get("general.architecture")
    if not isinstance(arch, str) or not _ARCHITECTURE.fullmatch(arch):
        where = "; its first part would" if len(parts) > 1 else ""
        raise SourceError(f"{path} does not say its general.architecture{where}.")
    keys = Keys(header.metadata, arch)
    groups = layer_groups(keys)
    stored = None
    if missing:
        keys.warn(f"{missing} of the {len(parts)} parts of the model are not there: its weights "
                  "are unknown.")  # fmt: skip
    else:
        stored = sum(
            part_header.weights_bytes for part_header in _headers(parts, header, at=parts[0])
        )
    return Model(
        name=_shown(header.metadata.get("general.name")) or path.stem,
        groups=groups,
        family=arch,
        hidden_size=keys.optional("embedding_length"),
        trained_context=keys.optional("context_length", low=0, high=2**40) or None,
        stored_weights_bytes=stored or None,
        source=f"{path.name}, metadata and tensor table",
        confidence="file",
        warnings=tuple(keys.warnings),
    )


def _several(number: Value | None) -> bool:
    return isinstance(number, int) and number > 1


def _parts(path: Path, number: Value | None) -> list[Path]:
    """The files of a split model, by the names that llama.cpp gives them."""
    named = _PART.fullmatch(path.name)
    if named is None or int(named[4]) != number or not 1 < int(named[4]) <= _PARTS_MAX:
        raise SourceError(
            f"{path} is one of {number} parts; it must be named NAME-00001-of-{number:05}.gguf "
            f"and there may be at most {_PARTS_MAX}."
        )
    return [
        path.with_name(f"{named[1]}{part:05}{named[3]}{named[4]}{named[5]}")
        for part in range(1, int(named[4]) + 1)
    ]


def _headers(parts: list[Path], first: GgufHeader, *, at: Path) -> list[GgufHeader]:
    """The header of every part, ``first`` being that of the part ``at``."""
    return [first if part == at else read_header(part) for part in parts]


def _shown(name: Value | None) -> str:
    """A name from a file as one line of text that a terminal may show."""
    if not isinstance(name, str):
        return ""
    return "".join(one for one in name if one.isprintable()).strip()[:_NAME_MAX]
