"""A paged cache: blocks of a pool, found through a table, in any order.

K and V are pools ``[Hkv, blocks, block, D]``, so that one ``index_select`` along the blocks yields
contiguous rows for every head. torch has no decode kernel that follows a table on a CPU; attention
takes long blocks one by one where they lie, gathers short ones into contiguous rows, about a
thousand tokens at a time so that the copy stays in the processor's cache, and merges all by
log-sum-exp; our own kernel follows the table itself. The copy shows as
lower bandwidth, never as more bytes.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

from kvtui.decode_run import IN_PLACE_TOKENS
from kvtui.engine.attention import decode_attention, merged_attention
from kvtui.engine.caches.base import LayerCache
from kvtui.engine.compute import Compute
from kvtui.engine.kernels.rows import Rows
from kvtui.engine.page_kernels import Pages
from kvtui.engine.pages import BlockTable

_CHUNK_TOKENS: Final = 1024


class DeviceTable:
    """The block table as an int32 tensor ``[B, blocks]``, renewed only when a block was added.

    Shared by all layers, so that a step touches the host's lists once a block and not once a layer.
    """

    def __init__(self, table: BlockTable, device: torch.device) -> None:
        """Follow ``table``."""
        self.table, self._device = table, device
        self._version = -1
        self._ids = torch.empty(0, dtype=torch.int32)

    def ids(self) -> Tensor:
        """Block ids ``[B, most blocks of a sequence]``; short rows end in block 0, never read."""
        if self._version != self.table.version:
            rows = [self.table.ids(sequence) for sequence in range(self.table.sequences)]
            most = max(map(len, rows), default=0)
            padded = [row + [0] * (most - len(row)) for row in rows]
            self._ids = torch.tensor(padded, dtype=torch.int32, device=self._device)
            self._version = self.table.version
        return self._ids


class PagedCache(LayerCache):
    """One layer's pools; the table is shared by all layers."""

    name = "paged"
    ragged = True

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
        behind: Sequence[int] = (),
        prefix: int = 0,
    ) -> None:
        """Allocate every block of the table; ``prefix`` tokens are shared by all sequences."""
        super().__init__(batch, behind)
        table = shared.table
        self.table, self._shared, self._prefix = table, shared, prefix
        shape = (kv_heads, table.blocks, table.block)
        self._k = torch.empty(*shape, k_width, dtype=dtype, device=device)
        self._v = torch.empty(*shape, v_width, dtype=dtype, device=device)
        self._each = torch.arange(batch, device=device)
        self._behind = self.behind.to(device)

    def fill(self, rows: slice, first: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write tokens from ``first`` on into the blocks of ``rows``, which are theirs alone."""
        end = first + k.shape[2]
        for index, sequence in enumerate(range(*rows.indices(self.batch))):
            self.table.extend(sequence, end)
            blocks, slots = self._places(sequence, first, end)
            self._k[:, blocks, slots] = k[index]
            self._v[:, blocks, slots] = v[index]
        return self._gathered(rows, 0, end)

    def append(self, k: Tensor, v: Tensor) -> None:
        """Write one token a sequence into its last block; a shared block is copied first."""
        block = self.table.block
        for sequence, behind in enumerate(self.behind.tolist()):
            self.table.extend(sequence, self.seen - behind + 1)
        ids = self._shared.ids()
        if self.even:
            index, slot = ids[:, self.seen // block], self.seen % block
            self._k[:, index, slot] = k[:, :, 0].transpose(0, 1)
            self._v[:, index, slot] = v[:, :, 0].transpose(0, 1)
        else:
            places = self.seen - self._behind
            index, slots = ids[self._each, places // block], places % block
            self._k[:, index, slots] = k[:, :, 0].transpose(0, 1)
            self._v[:, index, slots] = v[:, :, 0].transpose(0, 1)
        self.seen += 1

    def copy_block(self, source: int, target: int) -> None:
        """Copy one block within the pools, before a shared one is written."""
        self._k[:, target] = self._k[:, source]
        self._v[:, target] = self._v[:, source]

    def views(self, sequences: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """All tokens of ``sequences``, gathered: a copy, for CUDA and for tests."""
        return self._gathered(sequences, 0, self.seen - int(self.behind[sequences][0]))

    def rows(self) -> Rows:
        """Pages of the pools."""
        heads, blocks, block, _ = self._k.shape
        return Rows(
            k=self._k,
            v=self._v,
            kv_heads=heads,
            lengths=self.lengths,
            table=self._shared.ids(),
            block=block,
            sequence_rows=0,
            head_rows=blocks * block,
        )

    def pages(self) -> Pages:
        """The pools as they lie: heads are an inner axis for kernels, an outer one here."""
        return Pages(
            k=self._k.permute(1, 2, 0, 3),
            v=self._v.permute(1, 2, 0, 3),
            table=self._shared.ids(),
            lengths=(self.seen - self._behind).to(torch.int32),
            longest=self.seen,
        )

    def attend_alike(
        self, q: Tensor, sequences: slice, scale: float | None, compute: Compute
    ) -> Tensor:
        """On a CPU long blocks where they lie, short ones gathered in chunks; else one copy."""
        if q.device.type != "cpu" or self._k.shape[3] != self._v.shape[3]:
            seen = self.views(sequences)
            return decode_attention(q, *seen, scale=scale, threads=compute.threads)
        if self.table.block >= IN_PLACE_TOKENS:
            rows = range(*sequences.indices(self.batch))
            each = [
                merged_attention(q[at : at + 1], self._blocks(row), scale=scale)
                for at, row in enumerate(rows)
            ]
            return torch.cat(each)
        step = max(1, _CHUNK_TOKENS // self.table.block) * self.table.block
        filled = self.seen - int(self.behind[sequences][0])
        chunks = (
            self._gathered(sequences, first, min(first + step, filled))
            for first in range(0, filled, step)
        )
        return merged_attention(q, chunks, scale=scale)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """K's and V's pool."""
        return self._k, self._v

    @property
    def held_bytes(self) -> int:
        """Bytes of the filled entries, a shared prefix once; the pools hold more."""
        shared = self._prefix * (self.batch - 1)
        return (int(self.lengths.sum()) - shared) * (self.entry_bytes // self.batch)

    @property
    def read_bytes(self) -> int:
        """Every sequence reads the shared prefix: no kernel here reads it once for all."""
        return int(self.lengths.sum()) * (self.entry_bytes // self.batch)

    @property
    def entry_bytes(self) -> int:
        """Bytes one token of all sequences takes."""
        rows = sum(t.shape[0] * t.shape[3] * t.element_size() for t in self.tensors)
        return self.batch * rows

    def _places(self, sequence: int, first: int, end: int) -> tuple[Tensor, Tensor]:
        """Block and slot of the tokens from ``first`` to ``end`` of one sequence."""
        ids = self._shared.ids()[sequence]
        positions = torch.arange(first, end, device=self._k.device)
        block = self.table.block
        return ids[positions // block], positions % block

    def _blocks(self, sequence: int) -> Iterator[tuple[Tensor, Tensor]]:
        """K and V of one sequence block by block, ``[1, Hkv, n, D]``: views of the pools."""
        left = self.seen - int(self.behind[sequence])
        for block in self.table.ids(sequence):
            if left <= 0:
                return
            filled = min(left, self.table.block)
            yield self._k[None, :, block, :filled], self._v[None, :, block, :filled]
            left -= filled

    def _gathered(self, sequences: slice, first: int, end: int) -> tuple[Tensor, Tensor]:
        """K and V of tokens ``first`` to ``end``, ``[b, Hkv, n, D]``; ``first`` begins a block."""
        block = self.table.block
        start, stop = first // block, -(-end // block)
        chosen = self._shared.ids()[sequences, start:stop]
        index = chosen.flatten()
        found = []
        for pool in self.tensors:
            heads, _, _, width = pool.shape
            rows = pool.index_select(1, index).view(heads, len(chosen), -1, width)
            found.append(rows.transpose(0, 1)[:, :, : end - first])
        return found[0], found[1]
