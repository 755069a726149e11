"""One live run on its device: allocated, prefilled, warmed up, and decoded step by step.

Steps come from a generator that can be held or stopped at every boundary; warm-up and prefill are
never among them. What is checked before anything is allocated is in ``plan``.
"""

from collections import deque
from collections.abc import Iterator
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Final

import torch

from kvtui.decode_run import KERNEL_BACKEND, DecodeRun, EndReason
from kvtui.engine import memory
from kvtui.engine.attention import backend_name, backends
from kvtui.engine.caches import QUANTISED
from kvtui.engine.caches.offload import OffloadCache
from kvtui.engine.compute import Compute
from kvtui.engine.control import Control
from kvtui.engine.decoder import Decoder
from kvtui.engine.evidence import KernelEvidence, attention_kernel
from kvtui.engine.figures import StepFigures
from kvtui.engine.finite import FiniteWatch
from kvtui.engine.page_kernels import page_kernel
from kvtui.engine.plan import (
    Need,
    check_shapes,
    checked_dtype,
    engine_threads,
    kernel_suits,
    needed,
    resolved_device,
)
from kvtui.engine.timing import Timer, timer
from kvtui.engine.workspace import INPUTS, piece, prompts
from kvtui.spec import FullAttention

if TYPE_CHECKING:  # importing it imports numba
    from kvtui.engine.kernels.cpu import CpuKernel

_KERNEL_BYTES: Final = 4 * 2**20
"""A cache below this stays in a core's own cache, where prefetching gains nothing."""
_WARM_STEPS: Final = 10
_WARM_SECONDS: Final = 0.5
_WARM_AGREEMENT: Final = 0.02


class Run:
    """A checked run on its device; call ``allocate``, ``prefill``, ... in order."""

    def __init__(self, run: DecodeRun) -> None:
        """Check every field; raises ``InputError`` or ``UnavailableError``, allocates nothing."""
        self.device = resolved_device(run.device)
        self.dtype = checked_dtype(run.dtype)
        check_shapes(run)
        self.run = run
        self.threads = engine_threads(run, self.device)
        self._compute = Compute(self.threads)
        self.passed_over: tuple[str, ...] = ()
        """Kernels over pages that were tried and are not used, and why."""
        self.end: tuple[EndReason, str] = ("stopped", "Stopped before the first step.")
        self._decoder: Decoder | None = None
        self._x = torch.empty(0)

    @property
    def wants_kernel(self) -> bool:
        """Whether our CPU kernel is worth having here: it takes the shapes, and they are large."""
        if self.device.type != "cpu" or self.run.backend == "torch":
            return False
        if self.run.backend == "kernel":
            return True
        return kernel_suits(self.run) and self.need().cache_bytes >= _KERNEL_BYTES

    def use(self, kernel: "CpuKernel") -> None:
        """Attend with ``kernel`` where it takes the cache; before ``allocate``."""
        self._compute = Compute(self.threads, kernel)

    def need(self, *, available_bytes: int | None = None) -> Need:
        """What the run takes, beside what is available; allocates nothing."""
        return needed(self.run, self.dtype, self.device, available_bytes=available_bytes)

    @property
    def decoder(self) -> Decoder:
        """The allocated stack."""
        assert self._decoder is not None, "allocate() comes first"
        return self._decoder

    @property
    def backend(self) -> str:
        """What the decode step asks for."""
        kernel = self._compute.kernel
        rows = [cache.rows() for cache in self.decoder.caches] if kernel else []
        if kernel and all(one is not None and kernel.takes(one) for one in rows):
            return f"{KERNEL_BACKEND} over {self.run.dtype}"
        if self._compute.page_kernel:
            return f"{self._compute.page_kernel.name} over pages"
        quantised = self.run.dtype if self.run.dtype in QUANTISED else ""
        return backend_name(
            self.device,
            latent=self.decoder.latent,
            cache=self.run.cache,
            block=self.run.block,
            quantised=quantised,
        )

    def allocate(self) -> None:
        """Make weights, caches and inputs; every page of the cache is touched once."""
        if self.device.type == "cpu":
            torch.set_num_threads(self.threads)
        self._choose_page_kernel()
        memory.begin_peak_window(self.device)
        with torch.inference_mode():
            self._decoder = Decoder(self.run, self.dtype, self.device, compute=self._compute)
            for cache in self._decoder.caches:
                for tensor in cache.tensors:
                    tensor.zero_()
            generator = torch.Generator(device=self.device).manual_seed(self.run.seed + 1)
            self._x = self._decoder.inputs(self.run.batch, INPUTS, generator)

    def prefill(self, control: Control) -> float | None:
        """Fill the cache with ``start`` tokens per sequence; ms, None when stopped meanwhile."""
        run, decoder = self.run, self.decoder
        _, length = piece(run, self.device)
        generator = torch.Generator(device=self.device).manual_seed(run.seed + 2)
        spent = 0.0
        with torch.inference_mode(), backends(self.device):
            for chosen, begin, end in prompts(run, self.device):
                row = chosen.start
                if begin:
                    decoder.share_prefix(row)
                for first in range(begin, end, length):
                    tokens = min(length, end - first)
                    x = decoder.inputs(chosen.stop - row, tokens, generator)
                    self._synchronise()
                    begun = perf_counter()
                    for _ in decoder.fill(x, chosen, first):
                        if control.held:
                            spent += perf_counter() - begun
                            control.wait()
                            begun = perf_counter()
                        if control.stopped:
                            self.end = ("stopped", "Stopped during prefill.")
                            return None
                    self._synchronise()
                    spent += perf_counter() - begun
            decoder.filled(run.start)
        return spent * 1e3

    def warm_up(self, control: Control) -> int:
        """Step in place until two medians agree within 2 %; the number of steps taken.

        Bounded by half a second: a step that takes longer is its own warm-up.
        """
        taken, times, last = 0, [], None
        began = perf_counter()
        while perf_counter() - began < _WARM_SECONDS and not control.stopped:
            begun = perf_counter()
            self._in_place()
            self._synchronise()
            times.append(perf_counter() - begun)
            taken += 1
            if len(times) == _WARM_STEPS:
                now = median(times)
                if last is not None and abs(now - last) <= _WARM_AGREEMENT * last:
                    break
                times, last = [], now
        return taken

    def evidence(self) -> KernelEvidence:
        """The attention kernel that ran in one more step in place."""
        before = self._kernel_entries()
        found = attention_kernel(self._in_place, self.device)
        if (entered := self._kernel_entries() - before) and self._compute.kernel is not None:
            return KernelEvidence(
                self._compute.kernel.name, f"its own counter: entered {entered} times in one step"
            )
        return found

    def steps(self, control: Control) -> Iterator[StepFigures]:
        """Decode from ``start`` to ``target``; ``end`` says afterwards why it ended."""
        run, decoder, clock = self.run, self.decoder, timer(self.device)
        watch = FiniteWatch(self.device)
        weight_bytes, appended = decoder.weights_bytes, decoder.appended_bytes
        waiting: deque[StepFigures] = deque()
        self.end = ("target", f"Reached T = {run.target:,}.")
        spent, resumed = 0.0, perf_counter()
        for index, position in enumerate(range(run.start, run.target), start=1):
            if control.held:
                yield from _known(waiting, clock, wait=True)
                spent += perf_counter() - resumed
                control.wait()
                resumed = perf_counter()
                clock.resume()
            if control.stopped:
                self.end = ("stopped", "Stopped at a step boundary.")
                break
            if run.time_limit_s and spent + perf_counter() - resumed > run.time_limit_s:
                self.end = ("stopped", f"Ended by the clock after {run.time_limit_s:g} s.")
                break
            with torch.inference_mode(), backends(self.device):
                clock.begin()
                out = decoder.step(self._x.narrow(1, index % INPUTS, 1), position)
                clock.end()
                watch.look(out, index, last=position + 1 == run.target)
            moved = decoder.read_bytes + appended
            waiting.append(
                StepFigures(index, position + 1, decoder.held_bytes, 0, 0, moved, weight_bytes)
            )
            yield from _known(waiting, clock)
            if watch.seen:
                break
        yield from _known(waiting, clock, wait=True)
        if (where := watch.settled()) is not None:
            self.end = ("nan", f"The output is not finite at T = {run.start + where:,}.")

    def tensors_bytes(self) -> tuple[int, int]:
        """Bytes of all tensors the run holds, and of its cache among them; 0 once released."""
        decoder = self._decoder
        if decoder is None:
            return 0, 0
        inputs = self._x.numel() * self._x.element_size()
        cache = decoder.capacity_bytes
        return decoder.weights_bytes + cache + inputs, cache

    def link_bytes_per_s(self) -> float | None:
        """Rate at which an offloaded cache came over its link; None where none did."""
        caches = self._decoder.caches if self._decoder else []
        cold = [one for one in caches if isinstance(one, OffloadCache)]
        spent = sum(one.link_ns() for one in cold)
        return sum(one.link_bytes for one in cold) / (spent / 1e9) if spent else None

    def _choose_page_kernel(self) -> None:
        """On CUDA, for pages and ragged rows: the first kernel that answers right for the shape.

        Shapes that differ between groups are left to the gathering path.
        """
        run = self.run
        if self.device.type != "cuda" or not (run.cache == "paged" or run.behind):
            return
        shapes = {
            (group.q_heads or 0, group.kv_heads, group.k_width, group.v_width)
            for group in run.groups
            if isinstance(group, FullAttention)
        }
        if len(shapes) != 1 or run.backend == "torch" or run.dtype in QUANTISED:
            return
        q_heads, kv_heads, width, v_width = shapes.pop()
        if width != v_width:
            return
        page = run.block if run.cache == "paged" else run.target
        chosen, self.passed_over = page_kernel(
            self.device, self.dtype, page, q_heads, kv_heads, width
        )
        self._compute = Compute(self.threads, page_kernel=chosen)

    def _kernel_entries(self) -> int:
        return self._compute.kernel.entries if self._compute.kernel is not None else 0

    def release(self) -> None:
        """Free everything the run holds."""
        self._decoder, self._x = None, torch.empty(0)
        memory.release(self.device)

    def _in_place(self) -> None:
        """One step whose token is taken back, so that the next one stands where it stood."""
        with torch.inference_mode(), backends(self.device):
            self.decoder.step(self._x.narrow(1, 0, 1), self.run.start)
            self.decoder.rewind()

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _known(
    waiting: deque[StepFigures], clock: Timer, *, wait: bool = False
) -> Iterator[StepFigures]:
    """Steps whose times are known by now, in order."""
    for device_ns, wall_ns in clock.drained(wait=wait):
        one = waiting.popleft()
        yield StepFigures(
            one.index,
            one.tokens,
            one.held_bytes,
            device_ns,
            wall_ns,
            one.kv_bytes,
            one.weight_bytes,
        )
