"""The decode kernel of the CPU: one token's attention at the speed memory is read.

Why it exists: torch's CPU attention reads K and V in an order that hardware prefetchers do not
always follow; what share of the read limit either reaches depends on the processor, and
``kvtui bench --cases kernel`` measures both. This loop asks for the next rows while it computes
with the present ones. It works on chunks of keys: scores, a pass of maxima, one of exponentials,
then the weighted rows of V; while key t is scored its row of V is prefetched, and while row t of V
is weighted key t of the next chunk is. Query heads of a group share each read, four at a time.

It is long because it is one loop written out: every register has its name, and each of its two
forms (four query heads, one query head) says which it keeps.

Numba only (``pip install 'kvtui[cpu]'``); ``kernels`` decides whether it is used. Correct to fp32
rounding: products and sums are fp32 whatever the cache stores.
"""

from typing import Any, Final

import numpy as np
from numba import njit

from kvtui.engine.kernels.vectors import (
    any_greater,
    eight_sums,
    exponential,
    fused,
    larger,
    load,
    load_repeated,
    minus,
    plus,
    prefetch_near,
    prefetch_once,
    prefetch_second,
    splat,
    spread,
    store,
    times,
)

CHUNK: Final = 64
"""Keys scored before their values are weighted: their scores stay in the first-level cache."""
_PAD: Final = 16
"""Keys that the score passes take at once; the last chunk is padded to it."""
_FOUR: Final = 4
_LINE_BYTES: Final = 64
_NOTHING: Final = np.float32(-1.0e38)
"""A maximum before any score, and the score of padding; finite, so that differences are."""


@njit(nogil=True, inline="always")
def _prefetch_row(array: Any, index: int, width: int, hint: int) -> None:
    step = _LINE_BYTES // array.itemsize
    if hint == 1:
        for one in range(0, width, step):
            prefetch_near(array, index + one)
    elif hint == 2:
        for one in range(0, width, step):
            prefetch_second(array, index + one)
    elif hint == 3:
        for one in range(0, width, step):
            prefetch_once(array, index + one)


@njit(nogil=True, inline="always")
def _places(rows: Any, table: Any, block: int, base: int, first: int, last: int) -> None:
    """Row numbers of tokens ``first`` to ``last``, the last repeated up to a multiple of 16."""
    count, index, slot = last - first, first // block, first % block
    start = base + table[index] * block
    for one in range(count):
        if slot == block:
            index, slot = index + 1, 0
            start = base + table[index] * block
        rows[one] = start + slot
        slot += 1
    for one in range(count, -(-count // _PAD) * _PAD):
        rows[one] = rows[count - 1]


@njit(nogil=True, inline="always")
def _score_four(
    q: Any,
    at: int,
    k: Any,
    v: Any,
    rows: Any,
    count: int,
    width: int,
    scores: Any,
    hint: int,
    lanes: Any,
) -> None:
    """Scores of four query heads, two keys at a time, ``[key, head]``; rows of V are prefetched."""
    step = len(lanes)
    for key in range(0, count, 2):
        here, there = rows[key] * width, rows[key + 1] * width
        _prefetch_row(v, here, width, hint)
        _prefetch_row(v, there, width, hint)
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = splat(0.0, lanes)
        for d in range(0, width, step):
            x, y = load(k, here + d, lanes), load(k, there + d, lanes)
            q0 = load(q, at + d, lanes)
            q1 = load(q, at + width + d, lanes)
            q2 = load(q, at + 2 * width + d, lanes)
            q3 = load(q, at + 3 * width + d, lanes)
            a0, a1, a2, a3 = fused(x, q0, a0), fused(x, q1, a1), fused(x, q2, a2), fused(x, q3, a3)
            b0, b1, b2, b3 = fused(y, q0, b0), fused(y, q1, b1), fused(y, q2, b2), fused(y, q3, b3)
        store(scores, key * _FOUR, eight_sums(a0, a1, a2, a3, b0, b1, b2, b3))


@njit(nogil=True, inline="always")
def _score_one(
    q: Any,
    at: int,
    k: Any,
    v: Any,
    rows: Any,
    count: int,
    width: int,
    scores: Any,
    hint: int,
    lanes: Any,
) -> None:
    """Scores of one query head, eight keys at a time; rows of V are prefetched."""
    step = len(lanes)
    for key in range(0, count, 8):
        k0, k1 = rows[key] * width, rows[key + 1] * width
        k2, k3 = rows[key + 2] * width, rows[key + 3] * width
        k4, k5 = rows[key + 4] * width, rows[key + 5] * width
        k6, k7 = rows[key + 6] * width, rows[key + 7] * width
        for one in range(8):
            _prefetch_row(v, rows[key + one] * width, width, hint)
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = splat(0.0, lanes)
        for d in range(0, width, step):
            x = load(q, at + d, lanes)
            s0 = fused(load(k, k0 + d, lanes), x, s0)
            s1 = fused(load(k, k1 + d, lanes), x, s1)
            s2 = fused(load(k, k2 + d, lanes), x, s2)
            s3 = fused(load(k, k3 + d, lanes), x, s3)
            s4 = fused(load(k, k4 + d, lanes), x, s4)
            s5 = fused(load(k, k5 + d, lanes), x, s5)
            s6 = fused(load(k, k6 + d, lanes), x, s6)
            s7 = fused(load(k, k7 + d, lanes), x, s7)
        store(scores, key, eight_sums(s0, s1, s2, s3, s4, s5, s6, s7))


@njit(nogil=True, inline="always")
def _softmax(
    scores: Any,
    count: int,
    real: int,
    heads: int,
    k_factor: Any,
    v_factor: Any,
    state: Any,
    at: int,
    lanes: Any,
) -> bool:
    """Scores to weights in place; the running maximum and sum in ``state``; the correction.

    ``heads`` scores of a key stand side by side, so lanes ``heads`` apart belong together.
    """
    step = len(lanes)
    for one in range(real * heads, count * heads):
        scores[one] = _NOTHING
    old = load(state, at, lanes)
    most = old
    for one in range(0, count * heads, step):
        score = load(scores, one, lanes)
        if k_factor is not None:
            if heads == 1:
                score = times(score, load(k_factor, one, lanes))
            else:
                score = times(score, load_repeated(k_factor, one // _FOUR, lanes, 4))
            store(scores, one, score)
        most = larger(most, score)
    most = spread(most, 1, False) if heads == 1 else spread(most, 4, False)
    total = splat(0.0, lanes)
    for one in range(0, count * heads, step):
        weight = exponential(minus(load(scores, one, lanes), most))
        total = plus(total, weight)
        if v_factor is not None:
            if heads == 1:
                weight = times(weight, load(v_factor, one, lanes))
            else:
                weight = times(weight, load_repeated(v_factor, one // _FOUR, lanes, 4))
        store(scores, one, weight)
    grown = any_greater(most, old)
    factor = exponential(minus(old, most))
    store(state, at, most)
    store(state, at + step, fused(load(state, at + step, lanes), factor, total))
    store(state, at + 2 * step, factor)
    return grown


@njit(nogil=True, inline="always")
def _weigh_four(
    v: Any,
    rows: Any,
    following: Any,
    count: int,
    width: int,
    scores: Any,
    k: Any,
    out: Any,
    at: int,
    grown: bool,
    state: Any,
    where: int,
    hint: int,
    lanes: Any,
) -> None:
    """Add the weighted rows of V to four heads, two vectors of each at a time."""
    step = len(lanes)
    factors = where + 2 * step
    f0, f1 = state[factors], state[factors + 1]
    f2, f3 = state[factors + 2], state[factors + 3]
    o0, o1, o2, o3 = at, at + width, at + 2 * width, at + 3 * width
    d = 0
    while d + 2 * step <= width:
        a0, b0 = load(out, o0 + d, lanes), load(out, o0 + d + step, lanes)
        a1, b1 = load(out, o1 + d, lanes), load(out, o1 + d + step, lanes)
        a2, b2 = load(out, o2 + d, lanes), load(out, o2 + d + step, lanes)
        a3, b3 = load(out, o3 + d, lanes), load(out, o3 + d + step, lanes)
        if grown:
            c0, c1 = splat(f0, lanes), splat(f1, lanes)
            c2, c3 = splat(f2, lanes), splat(f3, lanes)
            a0, b0, a1, b1 = times(a0, c0), times(b0, c0), times(a1, c1), times(b1, c1)
            a2, b2, a3, b3 = times(a2, c2), times(b2, c2), times(a3, c3), times(b3, c3)
        for key in range(count):
            if d == 0:
                _prefetch_row(k, following[key] * width, width, hint)
            place = rows[key] * width + d
            x, y = load(v, place, lanes), load(v, place + step, lanes)
            w0, w1 = splat(scores[key * 4], lanes), splat(scores[key * 4 + 1], lanes)
            w2, w3 = splat(scores[key * 4 + 2], lanes), splat(scores[key * 4 + 3], lanes)
            a0, b0 = fused(x, w0, a0), fused(y, w0, b0)
            a1, b1 = fused(x, w1, a1), fused(y, w1, b1)
            a2, b2 = fused(x, w2, a2), fused(y, w2, b2)
            a3, b3 = fused(x, w3, a3), fused(y, w3, b3)
        store(out, o0 + d, a0)
        store(out, o0 + d + step, b0)
        store(out, o1 + d, a1)
        store(out, o1 + d + step, b1)
        store(out, o2 + d, a2)
        store(out, o2 + d + step, b2)
        store(out, o3 + d, a3)
        store(out, o3 + d + step, b3)
        d += 2 * step
    if d < width:
        a0, a1 = load(out, o0 + d, lanes), load(out, o1 + d, lanes)
        a2, a3 = load(out, o2 + d, lanes), load(out, o3 + d, lanes)
        if grown:
            a0, a1 = times(a0, splat(f0, lanes)), times(a1, splat(f1, lanes))
            a2, a3 = times(a2, splat(f2, lanes)), times(a3, splat(f3, lanes))
        for key in range(count):
            x = load(v, rows[key] * width + d, lanes)
            a0 = fused(x, splat(scores[key * 4], lanes), a0)
            a1 = fused(x, splat(scores[key * 4 + 1], lanes), a1)
            a2 = fused(x, splat(scores[key * 4 + 2], lanes), a2)
            a3 = fused(x, splat(scores[key * 4 + 3], lanes), a3)
        store(out, o0 + d, a0)
        store(out, o1 + d, a1)
        store(out, o2 + d, a2)
        store(out, o3 + d, a3)


@njit(nogil=True, inline="always")
def _weigh_one(
    v: Any,
    rows: Any,
    following: Any,
    count: int,
    width: int,
    scores: Any,
    k: Any,
    out: Any,
    at: int,
    grown: bool,
    state: Any,
    where: int,
    hint: int,
    lanes: Any,
) -> None:
    """Add the weighted rows of V to one head, eight vectors at a time."""
    step = len(lanes)
    factor = splat(state[where + 2 * step], lanes)
    d = 0
    while d + 8 * step <= width:
        a0, a1 = load(out, at + d, lanes), load(out, at + d + step, lanes)
        a2, a3 = load(out, at + d + 2 * step, lanes), load(out, at + d + 3 * step, lanes)
        a4, a5 = load(out, at + d + 4 * step, lanes), load(out, at + d + 5 * step, lanes)
        a6, a7 = load(out, at + d + 6 * step, lanes), load(out, at + d + 7 * step, lanes)
        if grown:
            a0, a1, a2, a3 = (
                times(a0, factor),
                times(a1, factor),
                times(a2, factor),
                times(a3, factor),
            )
            a4, a5, a6, a7 = (
                times(a4, factor),
                times(a5, factor),
                times(a6, factor),
                times(a7, factor),
            )
        for key in range(count):
            if d == 0:
                _prefetch_row(k, following[key] * width, width, hint)
            place = rows[key] * width + d
            w = splat(scores[key], lanes)
            a0 = fused(load(v, place, lanes), w, a0)
            a1 = fused(load(v, place + step, lanes), w, a1)
            a2 = fused(load(v, place + 2 * step, lanes), w, a2)
            a3 = fused(load(v, place + 3 * step, lanes), w, a3)
            a4 = fused(load(v, place + 4 * step, lanes), w, a4)
            a5 = fused(load(v, place + 5 * step, lanes), w, a5)
            a6 = fused(load(v, place + 6 * step, lanes), w, a6)
            a7 = fused(load(v, place + 7 * step, lanes), w, a7)
        store(out, at + d, a0)
        store(out, at + d + step, a1)
        store(out, at + d + 2 * step, a2)
        store(out, at + d + 3 * step, a3)
        store(out, at + d + 4 * step, a4)
        store(out, at + d + 5 * step, a5)
        store(out, at + d + 6 * step, a6)
        store(out, at + d + 7 * step, a7)
        d += 8 * step
    while d < width:
        a0 = load(out, at + d, lanes)
        if grown:
            a0 = times(a0, factor)
        for key in range(count):
            if d == 0:
                _prefetch_row(k, following[key] * width, width, hint)
            a0 = fused(load(v, rows[key] * width + d, lanes), splat(scores[key], lanes), a0)
        store(out, at + d, a0)
        d += step


@njit(nogil=True, cache=True, boundscheck=False)
def attend_tasks(
    q: Any,
    k: Any,
    v: Any,
    k_scale: Any,
    v_scale: Any,
    table: Any,
    lengths: Any,
    block: int,
    heads: int,
    sequence_rows: int,
    head_rows: int,
    width: int,
    group: int,
    parts: int,
    first_task: int,
    last_task: int,
    out: Any,
    most: Any,
    total: Any,
    hint: int,
    lanes: Any,
) -> None:
    """Attention of tasks ``first_task`` to ``last_task``: one KV head and a part of its keys each.

    Args:
        q: flat ``[B, Hkv, g, D]``, fp32, already scaled.
        k: flat storage of rows ``D`` wide; bf16 comes as uint16.
        v: the same.
        k_scale: flat fp32, one a row, or None.
        v_scale: the same.
        table: ``[B, blocks]``: number of each block of a sequence.
        lengths: ``[B]`` tokens to attend to.
        block: tokens of a block.
        heads: Hkv.
        sequence_rows: rows from a sequence's storage to the next one's; 0 in a common pool.
        head_rows: rows from a head's storage to the next one's.
        width: D, a multiple of the lanes.
        group: g, query heads of a KV head.
        parts: parts that the keys of each head are cut into.
        first_task: tasks are numbered ``(b * Hkv + h) * parts + part``.
        last_task: one past the last.
        out: flat ``[B, Hkv, parts, g, D]``, zeros; left unnormalised where there are parts.
        most: flat ``[B, Hkv, parts, g]``, the largest score.
        total: flat ``[B, Hkv, parts, g]``, the sum of the exponentials beside it.
        hint: prefetch hint; 0 none, 1 T0, 2 T1, 3 NTA.
        lanes: a tuple as long as a vector has lanes; its values mean nothing.
    """
    step = len(lanes)
    rows = np.empty(CHUNK, np.int64)
    following = np.empty(CHUNK, np.int64)
    scores = np.empty(CHUNK * _FOUR, np.float32)
    k_factor = np.empty(CHUNK, np.float32)
    v_factor = np.empty(CHUNK, np.float32)
    state = np.empty(group * 3 * step, np.float32)
    for task in range(first_task, last_task):
        row, part = task // parts, task % parts
        sequence, base = row // heads, row // heads * sequence_rows + row % heads * head_rows
        share = -(-lengths[sequence] // parts)
        first, end = part * share, min(lengths[sequence], (part + 1) * share)
        for head in range(group):
            store(state, head * 3 * step, splat(_NOTHING, lanes))
            store(state, (head * 3 + 1) * step, splat(0.0, lanes))
        if first < end:
            _places(following, table[sequence], block, base, first, min(first + CHUNK, end))
        for begin in range(first, end, CHUNK):
            real = min(CHUNK, end - begin)
            count = -(-real // _PAD) * _PAD
            rows, following = following, rows
            later = min(end, begin + CHUNK)
            if later < end:
                _places(following, table[sequence], block, base, later, min(later + CHUNK, end))
            else:
                for one in range(count):
                    following[one] = rows[one]
            if k_scale is not None:
                for one in range(count):
                    k_factor[one] = k_scale[rows[one]]
                    v_factor[one] = v_scale[rows[one]]
            head = 0
            while head < group:
                query, target = (row * group + head) * width, (task * group + head) * width
                ahead = hint if head == 0 else 0
                where = head * 3 * step
                if head + _FOUR <= group:
                    _score_four(q, query, k, v, rows, count, width, scores, ahead, lanes)
                    if k_scale is not None:
                        grown = _softmax(
                            scores, count, real, 4, k_factor, v_factor, state, where, lanes
                        )
                    else:
                        grown = _softmax(scores, count, real, 4, None, None, state, where, lanes)
                    _weigh_four(
                        v,
                        rows,
                        following,
                        real,
                        width,
                        scores,
                        k,
                        out,
                        target,
                        grown,
                        state,
                        where,
                        ahead,
                        lanes,
                    )
                    head += _FOUR
                else:
                    _score_one(q, query, k, v, rows, count, width, scores, ahead, lanes)
                    if k_scale is not None:
                        grown = _softmax(
                            scores, count, real, 1, k_factor, v_factor, state, where, lanes
                        )
                    else:
                        grown = _softmax(scores, count, real, 1, None, None, state, where, lanes)
                    _weigh_one(
                        v,
                        rows,
                        following,
                        real,
                        width,
                        scores,
                        k,
                        out,
                        target,
                        grown,
                        state,
                        where,
                        ahead,
                        lanes,
                    )
                    head += 1
        _finish(task, parts, group, width, state, out, most, total, lanes)


@njit(nogil=True, inline="always")
def _finish(
    task: int,
    parts: int,
    group: int,
    width: int,
    state: Any,
    out: Any,
    most: Any,
    total: Any,
    lanes: Any,
) -> None:
    """Sums over the lanes; a whole row is divided by its sum here."""
    step = len(lanes)
    head = 0
    while head < group:
        heads = _FOUR if head + _FOUR <= group else 1
        where = head * 3 * step
        sums = load(state, where + step, lanes)
        if heads == _FOUR:
            store(state, where + step, spread(sums, 4, True))
        else:
            store(state, where + step, spread(sums, 1, True))
        for one in range(heads):
            index = task * group + head + one
            most[index], total[index] = state[where + one], state[where + step + one]
            if parts == 1 and total[index] > 0:
                share = splat(1.0 / total[index], lanes)
                for d in range(index * width, (index + 1) * width, step):
                    store(out, d, times(load(out, d, lanes), share))
        head += heads
