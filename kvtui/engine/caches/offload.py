"""The fallback when a cache does not fit: its cold part in host memory, the recent part on device.

Every step streams the cold part over the link, so its time is the cold bytes over the link's rate:
that rate is measured and shown, and is what this layout costs. On CUDA the host part is pinned and
two device buffers take turns, so that one is copied while the other is read. On a CPU host and
device are the same memory and the copy is a copy within it.
"""

from collections.abc import Iterator
from time import perf_counter_ns
from typing import Final

import torch
from torch import Tensor

from kvtui.engine.attention import merged_attention
from kvtui.engine.caches.base import LayerCache
from kvtui.engine.compute import Compute

_CHUNK_TOKENS: Final = 4096
"""Tokens in flight: large enough for the link, small beside what it saves."""


class OffloadCache(LayerCache):
    """Tokens up to ``T - hot`` on the host, the last ``hot`` as a ring on the device.

    K and V of the host part are ``[B, Hkv, T - hot, D]``, pinned where there is a CUDA device.
    """

    name = "offload"

    def __init__(
        self,
        batch: int,
        kv_heads: int,
        capacity: int,
        k_width: int,
        v_width: int,
        *,
        hot: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Allocate ``hot`` tokens a sequence on ``device`` and the rest on the host."""
        super().__init__(batch)
        self._hot = min(hot, capacity)
        self._device = device
        cold = capacity - self._hot
        where = torch.device("meta" if device.type == "meta" else "cpu")
        chunk = min(_CHUNK_TOKENS, cold)

        def made(tokens: int, width: int, on: torch.device, *, pinned: bool = False) -> Tensor:
            shape = (batch, kv_heads, tokens, width)
            return torch.empty(shape, dtype=dtype, device=on, pin_memory=pinned)

        widths, pinned = (k_width, v_width), device.type == "cuda"
        self._recent = [made(self._hot, width, device) for width in widths]
        self._cold = [made(cold, width, where, pinned=pinned) for width in widths]
        self._scratch = [[made(chunk, width, device) for width in widths] for _ in range(2)]
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._copied_ns = 0
        self._timed: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self.link_bytes = 0
        """Bytes of cold chunks copied so far."""

    @property
    def _cold_tokens(self) -> int:
        return max(0, self.seen - self._hot)

    def fill(self, rows: slice, first: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write every token where it will lie once the prompt is in; the piece sees all of it."""
        seen = [
            torch.cat((self._before(index, rows, first), piece), dim=2)
            for index, piece in enumerate((k, v))
        ]
        end = first + k.shape[2]
        cold = max(0, end - self._hot)
        for index, held in enumerate(seen):
            self._cold[index][rows, :, :cold] = held[:, :, :cold].to(self._cold[index].device)
            slots = torch.arange(cold, end, device=self._device) % self._hot
            self._recent[index][rows, :, slots] = held[:, :, cold:]
        return seen[0], seen[1]

    def append(self, k: Tensor, v: Tensor) -> None:
        """The oldest recent token moves to the host, and the new one takes its place."""
        slot = self.seen % self._hot
        for index, token in enumerate((k, v)):
            place = self._recent[index].narrow(2, slot, 1)
            if self.seen >= self._hot:
                self._cold[index].narrow(2, self.seen - self._hot, 1).copy_(
                    place, non_blocking=True
                )
            place.copy_(token)
        self.seen += 1

    def rewind(self) -> None:
        """Take the last token back; the one it displaced returns from the host."""
        super().rewind()
        if self.seen >= self._hot:
            for recent, cold in zip(self._recent, self._cold, strict=True):
                place = recent.narrow(2, self.seen % self._hot, 1)
                place.copy_(cold.narrow(2, self.seen - self._hot, 1))

    def views(self, sequences: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """All of it on the device, in order of storage: a copy, for tests."""
        cold, hot = self._cold_tokens, min(self.seen, self._hot)
        found = [
            torch.cat((host[sequences, :, :cold].to(self._device), recent[sequences, :, :hot]), 2)
            for host, recent in zip(self._cold, self._recent, strict=True)
        ]
        return found[0], found[1]

    def attend_alike(
        self, q: Tensor, sequences: slice, scale: float | None, compute: Compute
    ) -> Tensor:
        """The recent part and each chunk of the cold one, merged as they come."""
        del sequences, compute
        return merged_attention(q, self._parts(), scale=scale)

    def link_ns(self) -> int:
        """Time cold chunks took over the link; on CUDA the device was read meanwhile.

        Waits for copies that are still going on.
        """
        for first, last in self._timed:
            last.synchronize()
            self._copied_ns += int(first.elapsed_time(last) * 1e6)
        self._timed = []
        return self._copied_ns

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The recent part on the device, then the host's part."""
        return *self._recent, *self._cold

    @property
    def entry_bytes(self) -> int:
        """Bytes one token of all sequences takes, wherever it lies."""
        return sum(t.shape[0] * t.shape[1] * t.shape[3] * t.element_size() for t in self._recent)

    @property
    def host_bytes(self) -> int:
        """Bytes of the tensors on the host."""
        return sum(t.numel() * t.element_size() for t in self._cold)

    def _parts(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The recent part first: it is there while the first cold chunk is on its way."""
        spans = [
            (first, min(first + _CHUNK_TOKENS, self._cold_tokens))
            for first in range(0, self._cold_tokens, _CHUNK_TOKENS)
        ]
        coming = self._fetch(0, *spans[0]) if spans else None
        hot = min(self.seen, self._hot)
        yield self._recent[0].narrow(2, 0, hot), self._recent[1].narrow(2, 0, hot)
        for index in range(len(spans)):
            assert coming is not None
            here = self._arrived(coming)
            if index + 1 < len(spans):
                coming = self._fetch((index + 1) % 2, *spans[index + 1])
            yield here

    def _fetch(self, buffer: int, begin: int, end: int) -> "_Coming":
        """Begin to copy cold tokens ``begin`` to ``end`` into one of the two buffers."""
        into = [one.narrow(2, 0, end - begin) for one in self._scratch[buffer]]
        source = [one.narrow(2, begin, end - begin) for one in self._cold]
        self.link_bytes += sum(one.numel() * one.element_size() for one in into)
        if self._stream is None:
            begun = perf_counter_ns()
            for target, held in zip(into, source, strict=True):
                target.copy_(held)
            self._copied_ns += perf_counter_ns() - begun
            return into, None
        # The buffer was last read by work queued on the present stream.
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self._stream):
            first.record(self._stream)
            for target, held in zip(into, source, strict=True):
                target.copy_(held, non_blocking=True)
            last.record(self._stream)
        self._timed.append((first, last))
        return into, last

    def _arrived(self, coming: "_Coming") -> tuple[Tensor, Tensor]:
        into, there = coming
        if there is not None:
            torch.cuda.current_stream(self._device).wait_event(there)
        return into[0], into[1]

    def _before(self, index: int, rows: slice, first: int) -> Tensor:
        """Tokens before ``first``, in order."""
        cold = max(0, first - self._hot)
        slots = torch.arange(cold, first, device=self._device) % self._hot
        recent = self._recent[index][rows].index_select(2, slots)
        return torch.cat((self._cold[index][rows, :, :cold].to(self._device), recent), dim=2)


_Coming = tuple[list[Tensor], "torch.cuda.Event | None"]
"""A chunk of K and V and, on CUDA, the event after its copy."""
