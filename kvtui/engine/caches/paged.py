"""A paged cache: blocks of a pool, found through a table, in any order.

K and V are pools ``[Hkv, blocks, block, D]``, so that one ``index_select`` along the blocks yields
contiguous rows for every head. torch has no decode kernel that follows a table on a CPU; attention
gathers chunks of about a thousand tokens into contiguous rows and merges them by log-sum-exp, which
keeps the copy in the processor's cache. The copy shows as lower bandwidth, never as more bytes.
"""

from typing import Final

import torch
from torch import Tensor

from kvtui.engine.attention import decode_attention, merged_attention
from kvtui.engine.caches.base import LayerCache
from kvtui.engine.pages import BlockTable

_CHUNK_TOKENS: Final = 1024


class DeviceTable:
    """The block table as an int tensor ``[B, blocks]``, renewed only when a block was added.

    Shared by all layers, so that a step touches the host's lists once a block and not once a layer.
    """

    def __init__(self, table: BlockTable, device: torch.device) -> None:
        """Follow ``table``."""
        self.table, self._device = table, device
        self._version = -1
        self._ids = torch.empty(0, dtype=torch.long)

    def ids(self) -> Tensor:
        """Block ids ``[B, most blocks of a sequence]``; short rows end in block 0."""
        if self._version != self.table.version:
            rows = [self.table.ids(sequence) for sequence in range(self.table.sequences)]
            most = max(map(len, rows), default=0)
            padded = [row + [0] * (most - len(row)) for row in rows]
            self._ids = torch.tensor(padded, dtype=torch.long, device=self._device)
            self._version = self.table.version
        return self._ids


class PagedCache(LayerCache):
    """One layer's pools; the table is shared by all layers."""

    name = "paged"

    def __init__(
        self,
        shared: DeviceTable,
        batch: int,
        kv_heads: int,
        k_width: int,
        v_width: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Allocate every block of the table."""
        super().__init__()
        table = shared.table
        self.table, self._shared, self._batch = table, shared, batch
        shape = (kv_heads, table.blocks, table.block)
        self._k = torch.empty(*shape, k_width, dtype=dtype, device=device)
        self._v = torch.empty(*shape, v_width, dtype=dtype, device=device)

    def fill(self, rows: slice, first: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write tokens from ``first`` on into the blocks of ``rows``."""
        end = first + k.shape[2]
        sequences = range(*rows.indices(self._batch))
        for index, sequence in enumerate(sequences):
            self.table.extend(sequence, end)
            blocks, slots = self._places(sequence, first, end)
            self._k[:, blocks, slots] = k[index]
            self._v[:, blocks, slots] = v[index]
        return self._gathered(sequences, 0, end)

    def append(self, k: Tensor, v: Tensor) -> None:
        """Write one token a sequence into its last block; a shared block is copied first."""
        block = self.table.block
        for sequence in range(self._batch):
            self.table.extend(sequence, self.seen + 1)
        index = self._shared.ids()[: self._batch, self.seen // block]
        slot = self.seen % block
        self._k[:, index, slot] = k[:, :, 0].transpose(0, 1)
        self._v[:, index, slot] = v[:, :, 0].transpose(0, 1)
        self.seen += 1

    def copy_block(self, source: int, target: int) -> None:
        """Copy one block within the pools, before a shared one is written."""
        self._k[:, target] = self._k[:, source]
        self._v[:, target] = self._v[:, source]

    def views(self) -> tuple[Tensor, Tensor]:
        """All tokens of all sequences, gathered: a copy, for CUDA and for tests."""
        return self._gathered(range(self._batch), 0, self.seen)

    def attend(self, q: Tensor, *, scale: float | None = None, threads: int = 1) -> Tensor:
        """Attention chunk by chunk on a CPU; over one gathered copy elsewhere."""
        if q.device.type != "cpu" or self._k.shape[3] != self._v.shape[3]:
            return decode_attention(q, *self.views(), scale=scale, threads=threads)
        step = max(1, _CHUNK_TOKENS // self.table.block) * self.table.block
        chunks = (
            self._gathered(range(self._batch), first, min(first + step, self.seen))
            for first in range(0, self.seen, step)
        )
        return merged_attention(q, chunks, scale=scale)

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """K's and V's pool."""
        return self._k, self._v

    @property
    def held_bytes(self) -> int:
        """Bytes of the filled entries, counted per token; the pools hold more."""
        return self.seen * self.entry_bytes

    @property
    def entry_bytes(self) -> int:
        """Bytes one token of all sequences takes."""
        rows = sum(t.shape[0] * t.shape[3] * t.element_size() for t in self.tensors)
        return self._batch * rows

    def _places(self, sequence: int, first: int, end: int) -> tuple[Tensor, Tensor]:
        """Block and slot of the tokens from ``first`` to ``end`` of one sequence."""
        ids = self._shared.ids()[sequence]
        positions = torch.arange(first, end, device=self._k.device)
        block = self.table.block
        return ids[positions // block], positions % block

    def _gathered(self, sequences: range, first: int, end: int) -> tuple[Tensor, Tensor]:
        """K and V of tokens ``first`` to ``end``, ``[b, Hkv, n, D]``; ``first`` begins a block."""
        block = self.table.block
        start, stop = first // block, -(-end // block)
        chosen = self._shared.ids()[sequences.start : sequences.stop, start:stop]
        index = chosen.flatten()
        found = []
        for pool in self.tensors:
            heads, _, _, width = pool.shape
            rows = pool.index_select(1, index).view(heads, len(sequences), -1, width)
            found.append(rows.transpose(0, 1)[:, :, : end - first])
        return found[0], found[1]
