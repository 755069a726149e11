"""Which of the tutorial's five suspects makes cached decoding differ from recomputation.

The tutorial: when the error is large, look first at position id, causal mask, GQA head mapping,
append axis and dtype. Each is tried in that order, by a trial that only it can explain: what the
cached path held and gave is reproduced with that one thing wrong. A trial that reproduces nothing
accuses nothing, so the answer may be that none of the five could be told.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from kvtui.check.observed import Observed

_LOOSE: Final = 0.25
"""A row this near to another (relative to its length) is that row, rounded; random rows are not."""
_MOST_EMPTY: Final = 16
"""Zeroed slots beyond a sequence's end that a trial lets be seen: a block of pages."""
_ROUNDED: Final = (
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)
"""Formats a value may have passed through, finest first."""


class Suspect(NamedTuple):
    """A word of the tutorial's list and what was seen."""

    word: str
    told: str

    def __str__(self) -> str:
        """The word first."""
        return f"{self.word}: {self.told}"


def suspect(queries: Iterable[Observed]) -> Suspect | None:
    """The first suspect that explains the first query whose outputs differ.

    None where no query differs, or none of the five explains it.
    """
    for one in queries:
        if one.differs:
            for word, trial in TRIALS:
                told = trial(one)
                if told is not None:
                    return Suspect(word, f"{told}, at T = {one.position + 1}")
            return None
    return None


def position(one: Observed) -> str | None:
    """K, or q, is the right vector at another angle.

    Turning a pair keeps its length, so a row is found by the lengths of its pairs; an attention
    factor scales them all alike.
    """
    turned: dict[int, int | None] = {}
    scale = 1.0
    for token in one.seen.nonzero().flatten().tolist():
        for head in range(one.k.shape[0]):
            found = _turned(one, head, token)
            if found is not None:
                scale, turned[token] = found
    if turned:
        tokens, places = list(turned), [place for place in turned.values() if place is not None]
        told = []
        if len(places) < len(tokens):
            told.append("turned by the angles of no position, so by another schedule")
        elif places != tokens:
            told.append(f"turned as at position {_spans(places)}")
        if scale != 1.0:
            told.append(f"scaled by {scale:.3f}, as an attention factor does")
        return f"K of {_tokens(tokens)} is {' and '.join(told)}"
    for place in range(one.q_anywhere.shape[1]):
        if place != one.position and one.close(
            _attended(one, one.q_anywhere[:, place], one.seen), one.out
        ):
            return f"q is turned as at position {place} instead of {one.position}"
    return None


def mask(one: Observed) -> str | None:
    """The output is that of the right q, K and V over another set of tokens."""
    right = _tokens(one.seen.nonzero().flatten().tolist())
    error = float((one.out - one.expected).abs().max())
    best: tuple[float, Tensor] | None = None
    for tokens in _sets(one):
        apart = float((_attended(one, one.q, tokens) - one.out).abs().max())
        if best is None or apart < best[0]:
            best = apart, tokens
    # A set that is hardly nearer than the right one is not told apart from rounding.
    if best is not None and best[0] < error / 8:
        wrong = best[1]
        if one.close(_attended(one, one.q, wrong), one.out):
            return f"the query sees {_tokens(wrong.nonzero().flatten().tolist())}, not {right}"
    for empty in range(1, _MOST_EMPTY + 1):
        k, v = (pad(rows, (0, 0, 0, empty)) for rows in (one.k, one.v))
        if one.close(_attention(one, one.q, k, v, pad(one.seen, (0, empty), value=True)), one.out):
            return f"the query sees {empty} empty slots beside {right}"
    return None


def head_mapping(one: Observed) -> str | None:
    """Every query head's output is that of one KV head, but not of its own."""
    q_heads, kv_heads = one.q.shape[0], one.k.shape[0]
    group = q_heads // kv_heads
    found = []
    for head in range(q_heads):
        row = one.q[head : head + 1].expand(kv_heads, -1)
        outs = _attention(one, row, one.k, one.v, one.seen)
        fits = [kv for kv in range(kv_heads) if one.close(outs[kv], one.out[head])]
        if not fits:
            return None
        found.append(head // group if head // group in fits else fits[0])
    right = [head // group for head in range(q_heads)]
    if found == right:
        return None
    return f"query heads read KV heads {found}, not {right}"


def append_axis(one: Observed) -> str | None:
    """A row lies under another head, in a slot of its own kind only, or nowhere."""
    shape, right = tuple(one.held_k.shape), tuple(one.k.shape)
    if shape[0] != right[0] or shape[2] != right[2]:
        return f"the cache is [Hkv, slots, D] = {list(shape)}, which should be {list(right)}"
    for token in one.seen.nonzero().flatten().tolist():
        for head in range(one.k.shape[0]):
            slots = []
            for name, rows, held in (("K", one.k, one.held_k), ("V", one.v, one.held_v)):
                where = _lies(rows[head, token], held)
                if where is None:
                    return f"{name} of token {token}, head {head} is nowhere in the cache"
                if where[0] != head:
                    return f"{name} of token {token}, head {head} lies under head {where[0]}"
                slots.append(where[1])
            if slots[0] != slots[1]:
                return f"K of token {token} lies in slot {slots[0]}, its V in slot {slots[1]}"
    return None


def dtype(one: Observed) -> str | None:
    """Everything is in its place and only less precise than the run's format."""
    for name, rows, held in (("K", one.k, one.held_k), ("V", one.v, one.held_v)):
        worst = 0.0
        off: list[tuple[Tensor, Tensor]] = []
        for token in one.seen.nonzero().flatten().tolist():
            for head in range(rows.shape[0]):
                row = rows[head, token]
                where = _lies(row, held)
                if where is None:
                    return None
                error = float((held[where] - row).norm() / row.norm())
                worst = max(worst, error)
                if error:
                    off.append((row, held[where]))
        if worst > one.tolerance:
            for narrow in _ROUNDED:
                if all(torch.equal(row.to(narrow).float(), kept) for row, kept in off):
                    return f"{name} is held as {_short(narrow)} rounds it"
            return f"{name} is held with a relative error of {worst:.1e}"
    error = float((one.out - one.expected).abs().max() / one.expected.abs().max())
    for narrow in _ROUNDED[:2]:
        if error <= 4 * torch.finfo(narrow).eps:
            return (
                f"q, K and V are right and the output is off by {error:.1e} of its largest value, "
                f"as sums in {_short(narrow)} would be"
            )
    return None


TRIALS: Final[tuple[tuple[str, Callable[[Observed], str | None]], ...]] = (
    ("position", position),
    ("mask", mask),
    ("head mapping", head_mapping),
    ("append axis", append_axis),
    ("dtype", dtype),
)
"""In the tutorial's order."""


def _turned(one: Observed, head: int, token: int) -> tuple[float, int | None] | None:
    """Scale and position of a cached key that has the right pairs at other angles."""
    if one.held_k.shape[-1] != one.k.shape[-1] or head >= one.held_k.shape[0]:
        return None
    row = one.k[head, token, one.rotated]
    if row.numel() < 4:
        return None  # one pair has no shape to be known by
    held = one.held_k[head][:, one.rotated]
    lengths, right = _pair_lengths(held), _pair_lengths(row)
    shapes = lengths / lengths.norm(dim=-1, keepdim=True).clamp_min(1e-30)
    apart = (shapes - right / right.norm()).norm(dim=-1)
    slot = int(apart.argmin())
    if float(apart[slot]) > one.tolerance:
        return None
    scale = float(lengths[slot].norm() / right.norm())
    # Rounding moves lengths as much as angles; turning moves angles alone.
    limit = max(one.tolerance, 4 * float(apart[slot]))
    if abs(scale - 1) <= limit:
        scale = 1.0
    if scale == 1.0 and float((held[slot] - row).norm() / row.norm()) <= limit:
        return None
    rows = one.k_anywhere[head, token][:, one.rotated]
    off = (rows * scale - held[slot]).norm(dim=-1) / held[slot].norm()
    place = int(off.argmin())
    return scale, place if float(off[place]) <= limit else None


def _pair_lengths(rows: Tensor) -> Tensor:
    """Lengths of the pairs (i, i + width / 2) that RoPE turns, ``[..., width / 2]``."""
    first, second = rows.chunk(2, dim=-1)
    return torch.hypot(first, second)


def _sets(one: Observed) -> Iterable[Tensor]:
    """Other sets of tokens: every run of neighbours, with and without the sinks."""
    count = one.seen.shape[0]
    for kept in {0, one.sinks}:
        for begin in range(count):
            for end in range(begin + 1, count + 1):
                tokens = torch.zeros_like(one.seen)
                tokens[:kept] = True
                tokens[begin:end] = True
                if not torch.equal(tokens, one.seen):
                    yield tokens


def _attended(one: Observed, q: Tensor, tokens: Tensor) -> Tensor:
    """Output ``[Hq, Dv]`` of ``q`` over the recomputed K and V of ``tokens``."""
    return _attention(one, q, one.k, one.v, tokens)


def _attention(one: Observed, q: Tensor, k: Tensor, v: Tensor, tokens: Tensor) -> Tensor:
    """Softmax over ``tokens`` ``[n]``; query heads share KV heads in groups of neighbours."""
    rows = q.unflatten(0, (k.shape[0], -1)) * one.scale
    scores = (rows @ k.transpose(-2, -1)).masked_fill(~tokens, -torch.inf)
    return (torch.softmax(scores, dim=-1) @ v).flatten(0, 1)


def _lies(row: Tensor, held: Tensor) -> tuple[int, int] | None:
    """Head and slot of the row of ``held`` ``[Hkv, s, D]`` that is ``row``, rounded at most."""
    off = (held - row).norm(dim=-1) / row.norm()
    index = int(off.argmin())
    head, slot = divmod(index, held.shape[1])
    return (head, slot) if float(off.flatten()[index]) <= _LOOSE else None


def _tokens(numbers: list[int]) -> str:
    return f"{'token' if len(numbers) == 1 else 'tokens'} {_spans(numbers)}"


def _spans(numbers: list[int]) -> str:
    """``0-7, 9`` for 0 to 7 and 9."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], number]
        else:
            spans.append([number])
    return ", ".join("-".join(map(str, span)) for span in spans)


def _short(narrow: torch.dtype) -> str:
    return str(narrow).removeprefix("torch.")
