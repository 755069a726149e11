"""Cases about measuring itself: the limit, launches, a step inside the cache, clocks, drift."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from kvtui.bench.case import Candidate, Check, Group, Setup
from kvtui.bench.cases.dense import GQA, full_caches, sized
from kvtui.bench.steps import held, stepped
from kvtui.bench.tensors import fill_random, full_group, queries, token_bytes
from kvtui.decode_run import DecodeRun
from kvtui.engine.control import Control
from kvtui.engine.run import Run

_INSTRUMENTED_BYTES: Final = 256 * 2**20
"""Large enough for steps of 10 ms and more, small enough for many pairs."""
_PAIRS: Final = 15
_STEPS: Final = 1024
"""Room of one run; the next begins where it began."""
_CAPTURED_WARM_UPS: Final = 3


def probe(setup: Setup) -> Iterator[Group]:
    """The two limits as rows like all others."""
    source = setup.probe
    yield Group(
        (
            Candidate(
                name="read",
                shape=None,
                dtype="fp32",
                sweep=source.read,
                bytes=source.read_bytes,
                work=1.0,
            ),
            Candidate(
                name="copy",
                shape=None,
                dtype="fp32",
                sweep=source.copy,
                bytes=source.copy_bytes,
                work=1.0,
            ),
        )
    )


def l2_control(setup: Setup) -> Iterator[Group]:
    """One layer of 1,024 tokens again and again: it stays on the chip and must be flagged."""
    shape = sized(setup, replace(GQA, layers=1, tokens=1024), setup.dtype)
    caches = full_caches(setup, shape, setup.dtype)
    yield Group((stepped(setup, "contiguous", shape, caches, dtype=setup.dtype),))


def soak(setup: Setup) -> Iterator[Group]:
    """One sequence of 32 thousand tokens for a minute."""
    shape = sized(setup, replace(GQA, tokens=32_768), setup.dtype)
    caches = full_caches(setup, shape, setup.dtype)
    one = stepped(setup, "contiguous", shape, caches, dtype=setup.dtype)
    yield Group((replace(one, over_time=True),))


def graph(setup: Setup) -> Iterator[Group]:
    """Short contexts on a GPU: every operator launched by the host, or one graph."""
    shape = sized(setup, replace(GQA, tokens=512), setup.dtype, caches=2)
    eager = stepped(
        setup, "eager", shape, full_caches(setup, shape, setup.dtype), dtype=setup.dtype
    )
    caches = full_caches(setup, shape, setup.dtype)
    whole = stepped(setup, "graph", shape, caches, dtype=setup.dtype, against=("eager",))
    replay, out = _captured(whole.sweep, setup.device)
    assert whole.check is not None

    def replayed() -> Tensor:
        replay()
        return out

    def truth() -> tuple[Tensor, Tensor]:
        k, v = caches[-1].tensors
        return k[:, :, : shape.tokens], v[:, :, : shape.tokens]

    check = replace(whole.check, output=replayed, truth=truth)
    yield Group((eager, replace(whole, sweep=replay, check=check, graph=True)))


def instrumentation(setup: Setup) -> Iterator[Group]:
    """A run's own timed steps, and its decoder called without timer, figures or controls.

    The same tensors, at the same length, in turn.
    """
    dtype = setup.dtype
    shape = GQA.fitted(token_bytes(GQA, dtype), min(setup.sweep_bytes, _INSTRUMENTED_BYTES))
    run = Run(
        DecodeRun(
            groups=(full_group(shape),),
            batch=1,
            start=shape.tokens,
            target=shape.tokens + _STEPS,
            dtype=dtype,
            device=str(setup.device),
            threads=setup.threads if setup.device.type == "cpu" else None,
            work="attention",
        )
    )
    run.allocate()
    decoder = run.decoder
    for cache in decoder.caches:
        for index, tensor in enumerate(cache.tensors):
            fill_random(tensor, index)
    decoder.filled(shape.tokens)
    generator = torch.Generator(device=setup.device).manual_seed(1)
    x = decoder.inputs(1, 1, generator)
    first, steps = decoder.caches[0], run.steps(Control())
    taken = bare_taken = 0

    def step() -> None:
        nonlocal steps, taken
        if next(steps, None) is None:
            taken += first.seen - shape.tokens
            decoder.filled(shape.tokens)
            steps = run.steps(Control())
            next(steps)

    def without() -> None:
        nonlocal bare_taken
        full = first.seen == run.run.target
        if full:  # the run has taken its last step; this one takes its place
            decoder.rewind()
        decoder.step(x, first.seen)
        if not full:
            decoder.rewind()
        bare_taken += 1

    q = queries(setup, shape, dtype)
    moved = decoder.held_bytes + 2 * shape.layers * first.entry_bytes
    yield Group(
        (
            Candidate(
                name="timed",
                shape=shape,
                dtype=dtype,
                sweep=step,
                bytes=moved,
                check=Check(
                    output=lambda: first.attend(q, compute=decoder.compute),
                    q=q,
                    truth=lambda: held(first),
                ),
                against=("bare",),
                done=lambda: taken + first.seen,
            ),
            Candidate(
                name="bare",
                shape=shape,
                dtype=dtype,
                sweep=without,
                bytes=moved,
                done=lambda: bare_taken,
            ),
        ),
        least_rounds=_PAIRS,
    )


def _captured(
    sweep: Callable[[], object], device: torch.device
) -> tuple[Callable[[], object], Tensor]:
    """``sweep`` as a CUDA graph and where its output lies; tensors and length stay as they are."""
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(_CAPTURED_WARM_UPS):
            sweep()
    torch.cuda.current_stream(device).wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        out = sweep()
    assert isinstance(out, Tensor)
    return captured.replay, out
