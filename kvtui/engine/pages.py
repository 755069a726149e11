"""Which sequence owns which block: a table, a free list and reference counts.

No tensors: layers hold the pools, this says where in them a token lies. Blocks are handed out in
shuffled order, so that nothing works by luck of adjacency. Forked sequences share blocks; a shared
block is copied before it is written (the PagedAttention paper's copy-on-write of the last, partly
filled block, arXiv:2309.06180), so no sequence ever reads a token that is not its own or shared.
"""

import random
from dataclasses import dataclass

from kvtui.errors import RefusedError


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """How well the blocks in use are filled."""

    blocks: int
    """All there are."""
    used: int
    shared: int
    """Blocks that more than one sequence reads."""
    empty_slots: int
    """Slots of blocks in use that hold no token."""


class BlockTable:
    """The block table of all sequences; every layer's pool is laid out by it."""

    def __init__(self, sequences: int, blocks: int, block: int, *, seed: int = 0) -> None:
        """``blocks`` of ``block`` tokens each, all free, for ``sequences`` empty sequences."""
        self.block = block
        self.blocks = blocks
        self._free = list(range(blocks))
        random.Random(seed).shuffle(self._free)  # noqa: S311  # an order, not a secret
        self._references = [0] * blocks
        self._owned: list[list[int]] = [[] for _ in range(sequences)]
        self._tokens = [0] * sequences
        self.version = 0
        """Changes whenever some sequence's blocks do."""

    @property
    def sequences(self) -> int:
        """Sequences the table is for."""
        return len(self._owned)

    def ids(self, sequence: int) -> list[int]:
        """Blocks of ``sequence``, in order of its tokens."""
        return self._owned[sequence]

    def tokens(self, sequence: int) -> int:
        """Tokens that ``sequence`` has room for, as asked last."""
        return self._tokens[sequence]

    def extend(self, sequence: int, tokens: int) -> None:
        """Give ``sequence`` blocks for ``tokens`` tokens; asking again for no more does nothing.

        Raises ``RefusedError`` when no block is free.
        """
        owned = self._owned[sequence]
        while len(owned) * self.block < tokens:
            owned.append(self._take())
            self.version += 1
        self._tokens[sequence] = max(self._tokens[sequence], tokens)

    def fork(self, source: int, target: int, tokens: int) -> None:
        """Let empty ``target`` share the first ``tokens`` tokens of ``source``."""
        if self._owned[target]:
            raise ValueError(f"sequence {target} is not empty")
        if not 0 <= tokens <= self._tokens[source]:
            raise ValueError(f"sequence {source} holds {self._tokens[source]} tokens")
        shared = self._owned[source][: -(-tokens // self.block)]
        for one in shared:
            self._references[one] += 1
        self._owned[target] = list(shared)
        self.version += 1
        self._tokens[target] = tokens

    def writable(self, sequence: int, position: int) -> tuple[int, int] | None:
        """Make the block that holds ``position`` the sequence's own.

        Returns the blocks (from, to) whose contents every layer must copy first; None where the
        block is already owned by this sequence alone.
        """
        index = position // self.block
        old = self._owned[sequence][index]
        if self._references[old] == 1:
            return None
        new = self._take()
        self._references[old] -= 1
        self._owned[sequence][index] = new
        self.version += 1
        return old, new

    def free(self, sequence: int) -> None:
        """Give the blocks of ``sequence`` back; shared ones stay with the others."""
        for one in reversed(self._owned[sequence]):
            self._references[one] -= 1
            if not self._references[one]:
                self._free.append(one)
        self._owned[sequence], self._tokens[sequence] = [], 0
        self.version += 1

    def fragmentation(self) -> Fragmentation:
        """How the pool is filled now."""
        used = self.blocks - len(self._free)
        filled: dict[int, int] = {}
        for sequence, owned in enumerate(self._owned):
            for index, one in enumerate(owned):
                here = min(self.block, max(0, self._tokens[sequence] - index * self.block))
                filled[one] = max(filled.get(one, 0), here)
        return Fragmentation(
            blocks=self.blocks,
            used=used,
            shared=sum(count > 1 for count in self._references),
            empty_slots=used * self.block - sum(filled.values()),
        )

    def _take(self) -> int:
        if not self._free:
            raise RefusedError(
                f"All {self.blocks} blocks of the pool are in use.",
                need_bytes=0,
                available_bytes=0,
            )
        one = self._free.pop()
        self._references[one] = 1
        return one
