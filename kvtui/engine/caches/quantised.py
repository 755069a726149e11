"""A cache in fewer bits: preallocated like the contiguous one, each row as its codec stores it.

torch has no attention over such rows. On a CPU chunks of 512 tokens are converted into fp32 that
stays in the processor's cache, and merged by log-sum-exp (our kernel converts int8 as it reads);
elsewhere all of it is converted once a step. What is saved is memory; the conversion is paid in
time and shown as such.
"""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from kvtui.engine.attention import decode_attention, merged_attention
from kvtui.engine.caches.base import LayerCache
from kvtui.engine.caches.codecs import StaticCodec, codec
from kvtui.engine.compute import ONE_THREAD, Compute
from kvtui.engine.kernels.rows import Rows, contiguous_rows

_CHUNK_TOKENS: Final = 512


class QuantisedCache(LayerCache):
    """K and V as ``[B, Hkv, T, stored]``, each with ``[B, Hkv, T, metadata]``; computes in fp32."""

    name = "quantised"
    ragged = True

    def __init__(
        self,
        batch: int,
        kv_heads: int,
        capacity: int,
        k_width: int,
        v_width: int,
        *,
        dtype: str,
        device: torch.device,
        behind: Sequence[int] = (),
    ) -> None:
        """Allocate ``capacity`` tokens for each of ``batch`` sequences."""
        super().__init__(batch, behind)
        self._codecs = codec(dtype), codec(dtype)
        self._widths = k_width, v_width
        room = (batch, kv_heads, capacity)

        def made(values: int, kind: torch.dtype) -> Tensor | None:
            return torch.empty(*room, values, dtype=kind, device=device) if values else None

        each = list(zip(self._codecs, self._widths, strict=True))
        self._stored = [
            torch.empty(*room, one.values(width), dtype=one.stored, device=device)
            for one, width in each
        ]
        self._metadata = [made(one.metadata_values(width), one.metadata) for one, width in each]
        self._each = torch.arange(batch, device=device)
        self._behind = self.behind.to(device)

    def fill(self, rows: slice, first: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Quantise tokens from ``first`` on; they see what was stored, themselves included."""
        end = first + k.shape[2]
        for index, piece in enumerate((k, v)):
            self._codecs[index].calibrate(piece)
            values, metadata = self._codecs[index].encode(piece)
            self._stored[index][rows, :, first:end] = values
            self._describe(index, metadata, (rows, slice(None), slice(first, end)))
        seen = self._converted(rows, 0, end)
        return seen[0].to(k.dtype), seen[1].to(v.dtype)

    def append(self, k: Tensor, v: Tensor) -> None:
        """Quantise one token behind the last of each sequence."""
        places = self.seen - self._behind
        for index, token in enumerate((k, v)):
            values, metadata = self._codecs[index].encode(token)
            if self.even:
                self._stored[index].narrow(2, self.seen, 1).copy_(values)
                self._describe(index, metadata, (..., slice(self.seen, self.seen + 1), slice(None)))
            else:
                self._stored[index][self._each, :, places] = values[:, :, 0]
                described = None if metadata is None else metadata[:, :, 0]
                self._describe(index, described, (self._each, slice(None), places))
        self.seen += 1

    def views(self, sequences: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """All of it converted: a copy, for CUDA and for tests."""
        return self._converted(sequences, 0, self.seen - int(self.behind[sequences][0]))

    def rows(self) -> Rows | None:
        """int8 with a scale a row as a kernel reads it."""
        if self._stored[0].dtype != torch.int8:
            return None
        k, v = self._stored
        return contiguous_rows(k, v, self.lengths, self._metadata[0], self._metadata[1])

    def attend(
        self, q: Tensor, *, scale: float | None = None, compute: Compute = ONE_THREAD
    ) -> Tensor:
        """Static scales fold into q and into the output, where a kernel reads bare int8."""
        k_codec, v_codec = self._codecs
        rows = self.rows() if compute.kernel is not None else None
        if (
            rows is not None
            and compute.kernel is not None
            and isinstance(k_codec, StaticCodec)
            and isinstance(v_codec, StaticCodec)
            and compute.kernel.takes(rows)
        ):
            assert k_codec.scale is not None
            assert v_codec.scale is not None
            folded = _grouped(q, rows.kv_heads) * k_codec.scale
            out = compute.kernel.attend(folded.view_as(q), rows, scale=scale)
            return (_grouped(out, rows.kv_heads) * v_codec.scale).view_as(q).to(q.dtype)
        return super().attend(q, scale=scale, compute=compute)

    def attend_alike(
        self, q: Tensor, sequences: slice, scale: float | None, compute: Compute
    ) -> Tensor:
        """Attention chunk by chunk on a CPU; over one converted copy elsewhere."""
        if q.device.type != "cpu" or self._widths[0] != self._widths[1]:
            seen = self.views(sequences)
            return decode_attention(q.float(), *seen, scale=scale, threads=compute.threads).to(
                q.dtype
            )
        filled = self.seen - int(self.behind[sequences][0])
        chunks = (
            self._converted(sequences, first, min(first + _CHUNK_TOKENS, filled))
            for first in range(0, filled, _CHUNK_TOKENS)
        )
        return merged_attention(q.float(), chunks, scale=scale).to(q.dtype)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Values and metadata of K and V; static scales are the layer's and not a token's."""
        return (*self._stored, *(one for one in self._metadata if one is not None))

    def _describe(self, index: int, metadata: Tensor | None, where: tuple[object, ...]) -> None:
        """Write metadata beside the values."""
        kept = self._metadata[index]
        if kept is not None and metadata is not None:
            kept[where] = metadata  # type: ignore[index]  # slices and index tensors

    def _converted(self, sequences: slice, first: int, end: int) -> tuple[Tensor, Tensor]:
        """K and V of tokens ``first`` to ``end`` in fp32."""
        found = []
        for one, stored, metadata in zip(self._codecs, self._stored, self._metadata, strict=True):
            part = None if metadata is None else metadata[sequences, :, first:end]
            found.append(one.decode(stored[sequences, :, first:end], part))
        return found[0], found[1]


def _grouped(heads: Tensor, kv_heads: int) -> Tensor:
    """``[B, Hq, 1, D]`` as ``[B, Hkv, g, D]``."""
    return heads.reshape(heads.shape[0], kv_heads, -1, heads.shape[3])
