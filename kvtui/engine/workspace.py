"""Scratch that a run takes beside its weights and caches, from above, before it is taken.

Prefill sets it for most shapes: its pieces are bounded in tokens, so it does not grow with the
prompt but for masks and written-out scores. Every figure is a count of the tensors that ``layers``
and ``prefill`` make; a test compares it with what torch's allocator hands out.
"""

from collections.abc import Iterator
from typing import Final

import torch

from kvtui.decode_run import MLA_HEAD_WIDTH, DecodeRun
from kvtui.engine.caches import QUANTISED
from kvtui.engine.decoder import Decoder, hidden_size
from kvtui.engine.prefill import MASK_ROWS, SCORES_BYTES
from kvtui.spec import FullAttention, LatentAttention, LayerGroup, SlidingWindow

_PIECE_TOKENS: Final = {"cuda": 4096, "cpu": 1024}
"""Tokens in flight during prefill, over all sequences of a piece.

Enough to be limited by compute; on a CPU a piece of a layer must also end before a stop feels late.
"""
INPUTS: Final = 32
"""Random hidden states that the loop cycles through instead of drawing new ones."""
_MASK_ELEMENT: Final = 20
"""Bytes of one entry of a mask while it is made: a distance (8), four booleans, the fp32 form."""
_CUBLAS: Final = 32 * 2**20
"""cuBLAS workspace on Hopper, inside the allocator (elsewhere 8.1 MiB)."""
_SMALL: Final = 4 * 2**20
"""Views, angles, the kernels' own per-thread buffers."""


def piece(run: DecodeRun, device: torch.device) -> tuple[int, int]:
    """Sequences and tokens of one piece of the prompt."""
    most = _PIECE_TOKENS[device.type]
    tokens = min(run.start, most)
    return min(run.batch, most // tokens), tokens


def prompts(run: DecodeRun, device: torch.device) -> Iterator[tuple[slice, int, int]]:
    """Sequences that are filled together, and from which to which token.

    One by one where lengths differ or a prefix is shared: then the first sequence brings it.
    """
    shared = run.whole_block_prefix
    if not shared and not run.behind:
        rows, _ = piece(run, device)
        for row in range(0, run.batch, rows):
            yield slice(row, min(run.batch, row + rows)), 0, run.start
        return
    behind = run.behind or (0,) * run.batch
    for row, less in enumerate(behind):
        yield slice(row, row + 1), shared if row else 0, run.start - less


def workspace_bytes(shape: Decoder, device: torch.device) -> int:
    """Most bytes that prefill or a step has in flight, with the loop's inputs."""
    run, element = shape.run, shape.dtype.itemsize
    inputs = run.batch * INPUTS * shape.hidden * element
    groups = [group for group in run.groups if isinstance(group, FullAttention | LatentAttention)]
    prefill = max((_prefill_bytes(group, shape, device) for group in groups), default=0)
    decode = max((_decode_bytes(run, group, element) for group in groups), default=0)
    fixed = _SMALL + (_CUBLAS if device.type == "cuda" else 0)
    return inputs + max(prefill, decode) + _copied_bytes(shape) + fixed


def _prefill_bytes(
    group: FullAttention | LatentAttention, shape: Decoder, device: torch.device
) -> int:
    run, element = shape.run, shape.dtype.itemsize
    rows, tokens = piece(run, device)
    hidden = max(hidden_size(run), shape.hidden)
    keys = run.start
    if isinstance(group, LatentAttention):
        heads = group.q_heads or 1
        k_width, v_width = group.kv_lora_rank + group.rope_dim, group.kv_lora_rank
        nope, v_head = group.nope_dim or MLA_HEAD_WIDTH, group.v_head_dim or MLA_HEAD_WIDTH
        mixed = heads * (nope + group.rope_dim) + k_width
        per_token = mixed + heads * (nope + 3 * group.rope_dim + 2 * k_width + v_width)
        per_token += 3 * k_width + heads * (v_width + 2 * v_head)
        bounded = False
    else:
        heads, kv = group.q_heads or 1, group.kv_heads
        k_width, v_width = group.k_width, group.v_width
        per_token = 4 * (heads + kv) * k_width + kv * v_width + 4 * heads * v_width
        bounded = isinstance(group, SlidingWindow)
    total = rows * tokens * per_token * element
    if isinstance(group, SlidingWindow):
        before = min(run.start, group.window + getattr(group, "sinks", 0))
        keys = min(run.start, before + tokens)
        if run.start > tokens:
            total += 4 * rows * group.kv_heads * keys * max(k_width, v_width) * element
    # The residual stream, its norm (in fp32 inside) and the sum.
    total += rows * tokens * hidden * (4 * element + 8)
    if run.work == "block":
        total = max(total, rows * tokens * hidden * (22 * element + 8))
    if bounded or run.start > tokens or k_width != v_width:
        total += min(MASK_ROWS, tokens) * keys * _MASK_ELEMENT
    if k_width != v_width:
        per_row = rows * heads * keys * 4
        block = max(1, min(MASK_ROWS, tokens, SCORES_BYTES // per_row))
        total += 3 * block * per_row + 3 * rows * heads * block * k_width * element
    return total


def _decode_bytes(run: DecodeRun, group: FullAttention | LatentAttention, element: int) -> int:
    """Scores of the matmul pair; the fused kernels keep theirs on chip."""
    heads = group.q_heads or 1
    if isinstance(group, LatentAttention):
        width = heads * (4 * (group.kv_lora_rank + group.rope_dim) + 512)
        scores = heads * run.target
    else:
        width = 6 * heads * (group.k_width + group.v_width)
        scores = heads * _attended(run, group) if group.k_width != group.v_width else 0
    return run.batch * (width * element + scores * (2 * element + 8))


def _attended(run: DecodeRun, group: LayerGroup) -> int:
    window = group.window if isinstance(group, SlidingWindow) else run.target
    return min(run.target, window + getattr(group, "sinks", 0))


def _copied_bytes(shape: Decoder) -> int:
    """``torch.cat`` has one layer's cache twice; a paged prompt sees its prefix gathered.

    A quantised prompt sees it converted to fp32, an offloaded one gathered and joined.
    """
    run = shape.run
    if run.cache in ("contiguous", "expanded") and run.dtype not in QUANTISED:
        return 0
    if run.dtype in QUANTISED:
        rows = max(
            group.kv_heads * (group.k_width + group.v_width)
            for group in run.groups
            if isinstance(group, FullAttention)
        )
        # In fp32 and, while an int4 row is unpacked, its levels and a copy beside it.
        return run.batch * run.target * rows * 4 * (3 if run.dtype == "int4" else 1)
    copies = 3 if run.cache == "offload" else 1
    return copies * max(cache.entry_bytes for cache in shape.caches) * run.target
