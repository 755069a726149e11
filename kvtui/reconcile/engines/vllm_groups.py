"""How version 1 of vLLM counts a pool when layers differ, by the rule that sizing uses for vLLM.

Layers of one kind form groups of one size; a block serves one group, so that a token of all groups
takes as many blocks as there are groups. A request at its longest reserves whole blocks of each.
"""

from dataclasses import dataclass, replace

from kvtui.runtimes.vllm import Layout, Vllm
from kvtui.solve import with_groups
from kvtui.spec import LayerGroup, RecurrentState, Scenario


@dataclass(frozen=True, slots=True)
class Grouped:
    """The layers of one rank as vLLM groups them."""

    question: Scenario
    """In pages as the log has them."""
    layout: Layout

    @property
    def groups(self) -> int:
        """Groups of layers that share the pool."""
        return sum(page.groups for page in self.layout.pages)

    @property
    def block_tokens(self) -> int:
        """Tokens of the smallest page."""
        return min((page.tokens for page in self.layout.pages if page.tokens), default=1)

    def tokens(self, blocks: int) -> int:
        """Tokens as versions before 0.21 print them: of all groups alike."""
        return blocks // self.groups * self.block_tokens

    @property
    def windowed(self) -> bool:
        """Whether tokens in flight count: layers that keep a window or a chunk hold them too."""
        return any(page.layers.span in ("window", "chunk") for page in self.layout.pages)

    @property
    def state_groups(self) -> int:
        """Groups of layers with a recurrent state."""
        return sum(page.groups for page in self.layout.pages if page.layers.span == "state")

    def blocks_per_request(self, length: int, in_flight: int, *, aligned: bool) -> int:
        """Blocks that one request of ``length`` reserves.

        Args:
            length: tokens of the request.
            in_flight: tokens that may be scheduled at a time.
            aligned: prefix caching keeps a second state, at the last whole block
                (``mamba_cache_mode`` "align", ``MambaSpec`` in ``kv_cache_interface.py``).
        """
        blocks = Vllm(in_flight_tokens=in_flight).sequence_blocks(self.question, length)
        return blocks + self.state_groups * aligned


def grouped(question: Scenario, block: int) -> Grouped | None:
    """The groups of ``question`` in pages of ``block``; None where all layers are alike.

    Beside recurrent layers the log's page tells in which format their state is kept.
    """
    stored = replace(question, storage=replace(question.storage, block=block))
    found = [_grouped(stored), _grouped(_with_state(stored, "bf16"))]
    return next((one for one in found if one and one.block_tokens == block), found[0])


def _grouped(question: Scenario) -> Grouped | None:
    layout = Vllm(in_flight_tokens=1).layout(question)
    if len(layout.pages) < 2 or not layout.block_bytes:
        return None
    return Grouped(question, layout)


def _with_state(question: Scenario, fmt: str) -> Scenario:
    def kept(group: LayerGroup) -> LayerGroup:
        return replace(group, state_format=fmt) if isinstance(group, RecurrentState) else group

    return with_groups(question, kept)
