"""How rows of K or V are stored in fewer bits, and read back: one codec a format.

Formats with metadata a row quantise each token by itself. Formats with static scales take them from
the first piece of a prompt, with headroom for what comes later; beyond it values saturate. Names
and bytes a row are those of ``dtypes``; a step is the distance of neighbouring values.
"""

from abc import ABC, abstractmethod
from typing import Final, Literal

import torch
from torch import Tensor

_INT8: Final = 127
"""Symmetric: -127 to 127, so that 0 is exact."""
_INT4_LEVELS: Final = 15
"""With a zero point: 0 to 15."""
_FP8_LARGEST: Final = 448.0
"""OCP 8-bit floating point specification, E4M3."""
_LEAST_SCALE: Final = 1e-30
"""Rows of zeros have some scale to be divided by."""
HEADROOM: Final = 1.5
"""Of static scales over the largest value of the prompt's first piece."""
INT4_GROUP: Final = 32
"""Values along D that share a scale and a zero point (KIVI, arXiv:2402.02750, G = 32)."""


class Codec(ABC):
    """One format's encoding of rows ``[B, Hkv, n, D]``."""

    stored: torch.dtype
    metadata: torch.dtype = torch.float32

    def values(self, width: int) -> int:
        """Stored elements of a row."""
        return width

    def metadata_values(self, width: int) -> int:
        """Metadata elements of a row; 0 where scales are static."""
        del width
        return 0

    def calibrate(self, rows: Tensor) -> None:
        """Take static scales from the first rows seen; nothing where each row has its own."""
        del rows

    @property
    def statics(self) -> tuple[Tensor, ...]:
        """Scales that belong to the layer and to no token."""
        return ()

    @abstractmethod
    def encode(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Stored values and metadata of ``rows``."""

    @abstractmethod
    def decode(self, stored: Tensor, metadata: Tensor | None) -> Tensor:
        """fp32 rows."""


class TokenHeadCodec(Codec):
    """int8 or fp8 with one fp32 scale a row: vLLM's per-token-head form (kv_cache_interface.py)."""

    def __init__(self, kind: Literal["int8", "fp8"]) -> None:
        """Symmetric."""
        self._integer = kind == "int8"
        self.stored = torch.int8 if self._integer else torch.float8_e4m3fn
        self._largest = float(_INT8) if self._integer else _FP8_LARGEST

    def metadata_values(self, width: int) -> int:
        """One scale."""
        return 1

    def encode(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """No value is off by more than half a step."""
        scale = rows.abs().amax(dim=-1, keepdim=True).float().clamp_min(_LEAST_SCALE)
        scale = scale / self._largest
        return _rounded(rows.float() / scale, self._integer, self._largest).to(self.stored), scale

    def decode(self, stored: Tensor, metadata: Tensor | None) -> Tensor:
        """Value times scale."""
        assert metadata is not None
        return stored.float().mul_(metadata)


class StaticCodec(Codec):
    """int8 with a scale a channel, or fp8 with one a tensor or a head; none is stored per token.

    A scale a channel folds into q and into the output (vLLM pull requests 41954 and 46191), which
    is how a kernel reads it; the fallback multiplies.
    """

    def __init__(self, kind: Literal["int8", "fp8"], over: Literal["tensor", "head", "channel"]):
        """Scales run over the axes that ``over`` leaves."""
        self._integer = kind == "int8"
        self.stored = torch.int8 if self._integer else torch.float8_e4m3fn
        self._largest = float(_INT8) if self._integer else _FP8_LARGEST
        self._axes = {"tensor": (0, 1, 2, 3), "head": (0, 2, 3), "channel": (0, 2)}[over]
        self.scale: Tensor | None = None
        """``[1, Hkv or 1, 1, D or 1]`` once calibrated."""

    def calibrate(self, rows: Tensor) -> None:
        """The first piece decides."""
        if self.scale is None:
            largest = rows.abs().amax(dim=self._axes, keepdim=True).float()
            self.scale = (largest * HEADROOM).clamp_min(_LEAST_SCALE) / self._largest

    @property
    def statics(self) -> tuple[Tensor, ...]:
        """The scales."""
        return () if self.scale is None else (self.scale,)

    def encode(self, rows: Tensor) -> tuple[Tensor, None]:
        """Saturates beyond the headroom."""
        assert self.scale is not None, "calibrate() comes first"
        scaled = _rounded(rows.float() / self.scale, self._integer, self._largest)
        return scaled.to(self.stored), None

    def decode(self, stored: Tensor, metadata: Tensor | None) -> Tensor:
        """Value times scale."""
        assert self.scale is not None, "calibrate() comes first"
        return stored.float().mul_(self.scale)


class Int4Codec(Codec):
    """Two values a byte along D, in groups of 32 with an fp16 scale and an fp16 least value."""

    stored = torch.uint8
    metadata = torch.float16

    def values(self, width: int) -> int:
        """Half as many bytes."""
        return width // 2

    def metadata_values(self, width: int) -> int:
        """Scale and least value of each group."""
        return 2 * -(-width // INT4_GROUP)

    def encode(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Low nibbles hold the first half of the row, high nibbles the second."""
        width = rows.shape[-1]
        grouped = _groups(rows.float(), width)
        least = grouped.amin(dim=-1, keepdim=True).half()
        step = ((grouped.amax(dim=-1, keepdim=True) - least.float()) / _INT4_LEVELS).half()
        step = step.clamp_min(2.0**-24)
        levels = ((grouped - least.float()) / step.float()).round_().clamp_(0, _INT4_LEVELS)
        flat = levels.flatten(-2)[..., :width].to(torch.uint8)
        packed = flat[..., : width // 2] | (flat[..., width // 2 :] << 4)
        return packed, torch.cat((step, least), dim=-1).flatten(-2)

    def decode(self, stored: Tensor, metadata: Tensor | None) -> Tensor:
        """Level times step, plus the least value."""
        assert metadata is not None
        width = 2 * stored.shape[-1]
        levels = torch.cat((stored & 15, stored >> 4), dim=-1).float()
        pairs = metadata.unflatten(-1, (-1, 2)).float()
        grouped = _groups(levels, width)
        rows: Tensor = torch.addcmul(pairs[..., 1:], grouped, pairs[..., :1]).flatten(-2)
        return rows[..., :width]


def codec(name: str) -> Codec:
    """A fresh codec of the format called ``name``; formats with static scales keep them in it."""
    match name:
        case "int8":
            return TokenHeadCodec("int8")
        case "fp8-token-head":
            return TokenHeadCodec("fp8")
        case "int8-channel":
            return StaticCodec("int8", "channel")
        case "fp8":
            return StaticCodec("fp8", "tensor")
        case "fp8-head":
            return StaticCodec("fp8", "head")
        case "int4":
            return Int4Codec()
    raise ValueError(name)


QUANTISED: Final = ("int8", "int8-channel", "int4", "fp8", "fp8-head", "fp8-token-head")
"""Formats with a codec."""


def _rounded(scaled: Tensor, integer: bool, largest: float) -> Tensor:
    return (scaled.round_() if integer else scaled).clamp_(-largest, largest)


def _groups(rows: Tensor, width: int) -> Tensor:
    """``[..., D]`` as ``[..., groups, 32]``; a short last group repeats its last value."""
    missing = -width % INT4_GROUP
    if missing:
        rows = torch.cat((rows, rows[..., -1:].expand(*rows.shape[:-1], missing)), dim=-1)
    grouped: Tensor = rows.unflatten(-1, (-1, INT4_GROUP))
    return grouped
