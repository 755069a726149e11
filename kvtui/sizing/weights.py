"""Weights: how many, what they take, and which of them one decode step reads.

Everything follows from ``Model.parameters``; a model without them has no weights here. Matrices
are held in the element format asked for, a row at a time, except those a quantised checkpoint
leaves in its own (``kept_in``); vectors (norms, biases) stay in 16 bits where the format packs
values in groups.
"""

from math import ceil, prod
from typing import Final

from kvtui.dtypes import FORMATS, ElementFormat
from kvtui.spec import Model, ParameterBlock

STORED_RULE: Final = "Σ rows·row bytes·copies; sharded parts / tp rounded up, others whole"
READ_RULE: Final = "as stored, without the token table (B rows) and unrouted experts"
EXPERTS_RULE: Final = "E·(1-(1-k/E)^B) experts of E, k a token, expected over B tokens"
_VECTORS: Final = FORMATS["bf16"]


def total_parameters(model: Model) -> int:
    """Every parameter once; a tied head is the token table itself."""
    return sum(prod(block.shape) * block.copies for block in model.parameters)


def active_parameters(model: Model) -> int:
    """Parameters one token passes through: k of E routed experts, everything else.

    The token table counts whole, as published "active" figures have it.
    """
    return sum(prod(block.shape) * _active_copies(block) for block in model.parameters)


def multiplied_parameters(model: Model) -> int:
    """Parameters one token is multiplied with: active ones, without tables that are looked up.

    A tied token table is the output matrix and stays in.
    """
    return sum(
        prod(block.shape) * _active_copies(block)
        for index, block in enumerate(model.parameters)
        if not _looked_up(model, index)
    )


def stored_bytes(
    model: Model, fmt: ElementFormat, tp: int = 1, *, attention_tp: int = 0, ep: int = 1
) -> int:
    """Bytes of all weights in ``fmt`` on the fullest of ``tp`` ranks.

    Args:
        model: parameter blocks.
        fmt: element format of the weights.
        tp: ranks that split matrices.
        attention_tp: ranks that split attention where data parallelism leaves fewer; 0 is tp.
        ep: ranks over which whole experts are spread; 1 splits each over tp.
    """
    return sum(
        _per_rank(
            _tensor_bytes(block, fmt) * block.copies, block, _split(block, tp, attention_tp, ep)
        )
        for block in model.parameters
    )


def read_bytes_per_step(
    model: Model,
    fmt: ElementFormat,
    batch: int,
    tp: int = 1,
    *,
    attention_tp: int = 0,
    ep: int = 1,
) -> int:
    """Bytes of weights that one decode step of ``batch`` tokens reads, on one of ``tp`` ranks.

    Routed experts are read where at least one token goes: with k of E chosen evenly,
    E·(1-(1-k/E)^B) in expectation. A lookup table gives one row a token.
    """
    total = 0
    for index, block in enumerate(model.parameters):
        size = _tensor_bytes(block, fmt)
        ranks = _split(block, tp, attention_tp, ep)
        if _looked_up(model, index):
            rows = min(batch, block.shape[0])
            total += _per_rank(ceil(size * rows / block.shape[0]) * block.copies, block, ranks)
        else:
            total += _per_rank(ceil(size * expected_copies(block, batch)), block, ranks)
    return total


def read_bytes_per_token(model: Model, fmt: ElementFormat, tp: int = 1) -> int:
    """The same for one token alone: exactly k of E experts."""
    return read_bytes_per_step(model, fmt, 1, tp)


def expected_copies(block: ParameterBlock, batch: int) -> float:
    """Copies of ``block`` that ``batch`` tokens are expected to touch between them."""
    active = _active_copies(block)
    if batch == 1 or active == block.copies:
        return active
    return block.copies * (1 - (1 - active / block.copies) ** batch)


def _active_copies(block: ParameterBlock) -> int:
    return block.copies if block.active_copies is None else block.active_copies


def _looked_up(model: Model, index: int) -> bool:
    """Whether block ``index`` is a table of which a token reads one row.

    Without an output matrix the first table is it as well, and read whole.
    """
    if model.parameters[index].role != "embedding":
        return False
    if any(block.role == "head" for block in model.parameters):
        return True
    first = next(at for at, block in enumerate(model.parameters) if block.role == "embedding")
    return index != first


def _tensor_bytes(block: ParameterBlock, fmt: ElementFormat) -> int:
    """Bytes of one tensor: whole rows, padded to what the format packs."""
    *rows, width = block.shape
    if block.kept_in is not None:
        fmt = FORMATS[block.kept_in]
    if not rows:
        return (_VECTORS if fmt.group is not None else fmt).row_bytes(width)
    return prod(rows) * fmt.row_bytes(-(-width // fmt.row_multiple) * fmt.row_multiple)


def _split(block: ParameterBlock, tp: int, attention_tp: int, ep: int) -> int:
    """Ranks over which ``block`` is divided."""
    if block.role == "attention" and attention_tp:
        return attention_tp
    return ep if block.role == "expert" and ep > 1 else tp


def _per_rank(size: int, block: ParameterBlock, tp: int) -> int:
    return -(-size // tp) if block.sharded else size
