"""How version 1 of vLLM counts a pool when layers differ: groups of equal pages.

Read from ``vllm/v1/core/kv_cache_utils.py`` and ``kv_cache_interface.py`` (0.10 to 0.22). Layers of
one kind form groups of one size, the last ones padded; a block serves one group, so that a token
of all groups takes as many blocks as there are groups. A request at its longest reserves whole
blocks of each group; a window reserves its own tokens, those in flight, and one block more.
"""

from dataclasses import dataclass, replace
from typing import Final

from kvtui.reconcile.case import one_token
from kvtui.sizing.rank import fullest_rank
from kvtui.spec import (
    FullAttention,
    LatentAttention,
    LayerGroup,
    NoCache,
    Scenario,
    SharedCache,
    SlidingWindow,
)

_ONE_GROUP_BELOW: Final = 1.5
"""Kinds whose layer counts differ by less than this become one group each, the smaller padded."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """The layers of one rank as vLLM groups them."""

    group_size: int
    """Layers of a group."""
    groups: tuple[int | None, ...]
    """The window of each group; None where it keeps everything."""
    token_bytes: int
    """Bytes of one token in one layer."""
    block: int

    @property
    def block_bytes(self) -> int:
        """One block of one group."""
        return self.group_size * self.token_bytes * self.block

    def tokens(self, blocks: int) -> int:
        """Tokens as versions before 0.21 print them: of all groups alike."""
        return blocks // len(self.groups) * self.block

    def blocks_per_request(self, length: int, in_flight: int) -> int:
        """Blocks that one request of ``length`` reserves with ``in_flight`` tokens scheduled."""
        return sum(
            -(-length // self.block)
            if window is None
            else -(-min(window - 1 + in_flight, length) // self.block) + 1
            for window in self.groups
        )


def grouped(question: Scenario, block: int) -> Grouped | None:
    """The groups of ``question``; None where all layers are alike, or their pages differ."""
    kinds: dict[int | None, int] = {}
    sizes: set[int] = set()
    for group in fullest_rank(question).model.groups:
        if isinstance(group, SharedCache | NoCache):
            continue
        if type(group) not in (FullAttention, SlidingWindow) and not isinstance(
            group, LatentAttention
        ):
            return None
        window = group.window if isinstance(group, SlidingWindow) else None
        kinds[window] = kinds.get(window, 0) + group.layers
        sizes.add(_token_bytes(question, group))
    if len(kinds) < 2 or len(sizes) != 1:
        return None
    least, most = min(kinds.values()), max(kinds.values())
    size = most if most < least * _ONE_GROUP_BELOW else least
    windows = [window for window, layers in kinds.items() for _ in range(-(-layers // size))]
    return Grouped(size, tuple(windows), sizes.pop(), block)


def _token_bytes(question: Scenario, group: LayerGroup) -> int:
    alone = replace(question.model, groups=(replace(group, layers=1),))
    return one_token(question, alone).bytes
