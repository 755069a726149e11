"""The support desk, from sizing to decision: 24 sessions of 6,000 tokens that do not fit.

The lesson weighs fewer sessions against a shorter window, and pays for the shorter one with
rolling summaries: 300 tokens in front of the window, made every ten turns from 3,000 tokens. Every
figure is the sizing's own for the workload ``support-desk``; only the conversation's habits are
stated here.
"""

from typing import Final

import msgspec

from kvtui.session.answer import compose
from kvtui.sources.request import Request, scenario

_TURNS: Final = 30
_TOKENS: Final = 6000
"""A session: 30 turns that add up to 6,000 tokens (lesson, section 0)."""
_EVERY: Final = 10
_SUMMARISED: Final = 3000
_SUMMARY: Final = 300
"""A summary of 300 tokens every 10 turns, of 3,000 tokens (lesson, section 5.4)."""


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """The desk with one thing changed."""

    name: str
    batch: int
    context: int
    kv_bytes: int
    with_weights_bytes: int
    """What a step reads: the cache and the weights."""
    spare_bytes: int
    """Of the memory left beside the weights; below zero it is over."""
    step_ms: float | None
    attention_ms: float | None
    """What the attention of a step takes at the device's peak."""
    tokens_per_s: float | None
    tokens_per_s_per_session: float | None


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What the summaries cost."""

    prefill_tokens: int
    """Read again for one summary."""
    generated_tokens: int
    """What a session generates meanwhile, in ten turns."""
    ratio: float
    """The one over the other."""
    prefill_flops: int | None
    prefill_ms: float | None
    """One summary's prefill at the device's peak."""
    summary_ms: float | None
    """Decoding the summary itself, as one session of the batch."""
    share: float | None
    """Of the time in which all sessions generate those turns, spent on their prefills."""


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """The moves, what the chosen one costs, and why it is chosen."""

    moves: list[Move]
    summaries: Price
    chosen: str
    decision: str
    price: str


def desk() -> Desk:
    """Size every move and decide."""
    asked = _move("as asked", {})
    moves = [
        asked,
        _move("B 24 → 16", {"batch": "16"}),
        _move("T 6000 → 3000", {"context": "3000"}),
        _move("T 3000 and summaries", {"context": str(_SUMMARISED + _SUMMARY)}),
    ]
    last = moves[-1]
    price = _price(last)
    fitting = [move for move in moves if move.spare_bytes >= 0]
    # All sessions served comes first; then what remembers most.
    chosen = max(fitting, key=lambda move: (move.batch, move.context))
    fewer = next(move for move in moves if move.batch < asked.batch)
    decision = (
        f"{chosen.name}: all {chosen.batch} sessions stay, {chosen.tokens_per_s:,.0f} tokens/s "
        f"beside {fewer.tokens_per_s:,.0f} with {fewer.batch}"
    )
    told = (
        f"a prefill of {price.prefill_tokens:,} tokens every {_EVERY} turns, {price.ratio:g} times "
        "what those turns generate"
    )
    if price.share is not None:
        told += f" and {price.share:.1%} of their time"
    return Desk(moves=moves, summaries=price, chosen=chosen.name, decision=decision, price=told)


def _move(name: str, fields: dict[str, str]) -> Move:
    asked = scenario(Request(workload="support-desk", **fields))
    found = compose(asked)
    peak, flops = asked.device.flop_per_s, found.step.attention_flops
    assert found.budget.spare_bytes is not None
    return Move(
        name=name,
        batch=found.batch,
        context=found.context,
        kv_bytes=found.payload.bytes,
        with_weights_bytes=found.payload.bytes + (found.budget.weights_bytes or 0),
        spare_bytes=found.budget.spare_bytes,
        step_ms=found.step.floor_ms,
        attention_ms=flops / peak * 1e3 if flops is not None and peak is not None else None,
        tokens_per_s=found.step.tokens_per_s,
        tokens_per_s_per_session=found.step.tokens_per_s_per_sequence,
    )


def _price(chosen: Move) -> Price:
    """What ``chosen`` pays for its summaries."""
    one = Request(workload="support-desk", batch="1", context=str(_SUMMARISED))
    filling = compose(scenario(one)).prefill
    generated = _EVERY * _TOKENS // _TURNS
    share = None
    if filling.floor_ms is not None and chosen.step_ms is not None:
        share = chosen.batch * filling.floor_ms / (generated * chosen.step_ms)
    return Price(
        prefill_tokens=_SUMMARISED,
        generated_tokens=generated,
        ratio=_SUMMARISED / generated,
        prefill_flops=filling.flops,
        prefill_ms=filling.floor_ms,
        summary_ms=None if chosen.step_ms is None else _SUMMARY * chosen.step_ms,
        share=share,
    )
