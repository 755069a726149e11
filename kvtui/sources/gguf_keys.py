"""Typed access to the keys of one architecture in a GGUF file's metadata.

Every value is checked where it is read; what cannot be used is an ``InputError`` that names key,
value and range. Lists hold one figure a layer and are never averaged.
"""

from typing import Final

from kvtui.errors import InputError
from kvtui.sources.gguf_file import Skipped, Value
from kvtui.units import count

LAYERS_MAX: Final = 4096
WIDTH_MAX: Final = 2**24


class Keys:
    """The values under ``<arch>.*``, with the warnings that reading them gives rise to."""

    def __init__(self, metadata: dict[str, Value], arch: str) -> None:
        """Read from ``metadata`` what begins with ``arch``."""
        self._metadata = metadata
        self.arch = arch
        self.warnings: list[str] = []

    def warn(self, sentence: str) -> None:
        """Say once what a reader of the answer should know."""
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def name(self, key: str) -> str:
        """The key as it stands in the file."""
        return f"{self.arch}.{key}"

    def value(self, key: str) -> Value | None:
        """The value of ``key``, None where the file does not have it."""
        return self._metadata.get(self.name(key))

    def optional(self, key: str, *, low: int = 1, high: int = WIDTH_MAX) -> int | None:
        """The whole number under ``key``, None where it is absent."""
        value = self.value(key)
        return None if value is None else self._whole(self.name(key), value, low, high)

    def number(self, key: str, *, low: int = 1, high: int = WIDTH_MAX) -> int:
        """The whole number under ``key``, which the file must have."""
        found = self.optional(key, low=low, high=high)
        if found is None:
            raise InputError(self.name(key), None, "given in the file")
        return found

    def per_layer(self, key: str, layers: int) -> list[int] | None:
        """One figure a layer, 0 allowed: a list, or one number for all; None where absent."""
        value = self.value(key)
        if value is None:
            return None
        name = self.name(key)
        if isinstance(value, list | Skipped):
            return [
                self._whole(f"{name}[{index}]", one, 0, WIDTH_MAX)
                for index, one in enumerate(self._entries(name, value, layers))
            ]
        return [self._whole(name, value, 0, WIDTH_MAX)] * layers

    def marks(self, key: str, layers: int) -> list[bool] | None:
        """Whether each layer is marked in the list under ``key``; None where it is no list."""
        value = self.value(key)
        if not isinstance(value, list | Skipped):
            return None
        entries = self._entries(self.name(key), value, layers)
        for index, one in enumerate(entries):
            if one not in (0, 1):
                raise InputError(f"{self.name(key)}[{index}]", one, "true or false")
        return [bool(one) for one in entries]

    def _entries(self, name: str, value: Value, layers: int) -> list[int | float | bool]:
        """The first ``layers`` entries; layers of multi-token prediction may follow them."""
        if not isinstance(value, list):
            raise InputError(name, "a list of texts or a long list", f"a list of {layers} numbers")
        if len(value) < layers:
            raise InputError(name, f"a list of {len(value)}", f"a list of {layers}")
        return list(value[:layers])

    @staticmethod
    def _whole(name: str, value: Value, low: int, high: int) -> int:
        if isinstance(value, list | Skipped):
            raise InputError(name, "a list or a long text", "one whole number")
        return count(name, value, low=low, high=high)
