"""Whatever is given in place of a log ends in a sentence, in bounded memory and time."""

import contextlib
import io
import random
import re
import time
import tracemalloc
from collections.abc import Callable

import pytest

from kvtui.errors import InputError, SourceError
from kvtui.headless.reconcile import reconcile_text
from kvtui.reconcile import reconciled, stream
from kvtui.reconcile.registry import ENGINES
from kvtui.sources.request import Request
from tests.reconcile import start_up

MIB = 2**20


class Endless(io.RawIOBase):
    """Bytes that repeat for ever; counts what was read of them."""

    def __init__(self, unit: bytes) -> None:
        self.unit = unit * max(1, MIB // len(unit))
        self.given = 0

    def read(self, size: int = -1) -> bytes:
        self.given += size
        return self.unit[:size]


def sentence(file: io.BytesIO | Endless) -> str:
    with pytest.raises(SourceError) as caught:
        reconciled(file, "here", Request())  # type: ignore[arg-type]  # RawIOBase reads bytes too
    return str(caught.value)


def test_an_empty_log() -> None:
    """An empty log is said to be empty, with what is wanted instead."""
    assert "here is empty" in sentence(io.BytesIO(b""))


def test_another_programs_log() -> None:
    """A log of another program is named as holding nothing to explain."""
    text = "2026-01-01 nginx: start worker process 31\n" * 1000
    assert "no start-up lines of vLLM, SGLang, TensorRT-LLM or llama.cpp" in sentence(
        io.BytesIO(text.encode())
    )


def test_one_quoted_line_is_no_log() -> None:
    """A single engine's line in another text does not make it that engine's log."""
    text = "he wrote: Available KV cache memory: 3.00 GiB, what is that?\n"
    assert "no start-up lines" in sentence(io.BytesIO(text.encode()))


def test_binary_rubbish() -> None:
    """Random bytes end in the same sentence."""
    rubbish = random.Random(7).randbytes(3 * MIB)
    assert "no start-up lines" in sentence(io.BytesIO(rubbish))


def test_a_packed_log() -> None:
    """A gzip file is told to be unpacked."""
    assert "compressed" in sentence(io.BytesIO(b"\x1f\x8b\x08" + bytes(range(256))))


@pytest.mark.parametrize("unit", [b"x", b"\0", b"GET /v1/models 200\n", b"\x1b[31m\r"])
def test_endless_input_is_left_in_time(monkeypatch: pytest.MonkeyPatch, unit: bytes) -> None:
    """What never ends is read for a bounded length and with bounded memory, then named."""
    monkeypatch.setattr(stream, "QUIET_MAX_BYTES", MIB)
    file = Endless(unit)
    tracemalloc.start()
    assert "in its first" in sentence(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert file.given <= 2 * MIB
    assert peak < 8 * MIB


def test_a_page_of_start_up_before_a_flood() -> None:
    """The start-up is found though megabytes of requests follow it."""
    flood = b'INFO:     127.0.0.1:4 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n' * 30_000
    found = reconciled(io.BytesIO(start_up.vllm_v1().encode() + b"\n" + flood), "here", Request())
    assert found.unexplained == ()


def test_very_long_lines_keep_their_head() -> None:
    """A line of megabytes is bounded, and the lines around it are read."""
    text = start_up.vllm_v1().replace("\n", "\n" + "z" * MIB + "\n", 1)
    found = reconciled(io.BytesIO(text.encode()), "here", Request())
    assert found.unexplained == ()
    line = next(one.line for one in found.findings if one.figure == "GPU KV cache size")
    assert line == 8


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig"])
def test_encodings_of_other_shells(encoding: str) -> None:
    """A log that a shell wrote in two bytes a character reads the same."""
    found = reconciled(io.BytesIO(start_up.vllm_v1().encode(encoding)), "here", Request())
    assert found.unexplained == ()


@pytest.mark.parametrize("ending", ["\r\n", "\r\n\r\n"])
def test_line_ends_of_other_systems(ending: str) -> None:
    """Line ends of any system part lines."""
    text = start_up.sglang().replace("\n", ending)
    found = reconciled(io.BytesIO(text.encode()), "here", Request())
    assert found.unexplained == ()


def test_colours_and_prefixes_are_no_obstacle() -> None:
    """Colour codes, container time stamps and process names before a line change nothing."""
    text = "\n".join(
        f"2025-11-02T09:14:07.123456789Z \x1b[0;36m(head, ip=10.0.0.1)\x1b[0m {line}"
        for line in start_up.tensorrt_llm().splitlines()
    )
    request = Request(model="llama-3.1-8b", dtype="fp8")
    assert reconciled(io.BytesIO(text.encode()), "here", request).unexplained == ()


@pytest.mark.parametrize("figure", ["0", "-3", "0.00", "99999999999999", "9" * 400])
@pytest.mark.parametrize(
    "log",
    [start_up.vllm_v1, start_up.sglang, start_up.tensorrt_llm_torch, start_up.llama_cpp_windows],
)
def test_absurd_figures_do_no_harm(log: Callable[[], str], figure: str) -> None:
    """Any figure of a log may be nonsense: the others are read, or a sentence says why not."""
    text = log()
    for number in re.finditer(r"[0-9][0-9,.]*", text):
        broken = text[: number.start()] + figure + text[number.end() :]
        with contextlib.suppress(SourceError):
            found = reconciled(io.BytesIO(broken.encode()), "here", Request())
            assert reconcile_text(found)


def test_no_pattern_repeats_without_a_bound() -> None:
    """Every repeat in every pattern has a bound, so that no line can make a search take minutes."""
    for engine in ENGINES:
        for one in engine.patterns:
            assert not re.search(r"(?<!\\)[*+]", one.regex.pattern), one.regex.pattern


@pytest.mark.parametrize("run", ["1", "1.", "1,", " ", "x", "llama_", "'"])
def test_hostile_lines_are_searched_in_time(run: str) -> None:
    """A line as long as is kept, with every anchor and one run of anything, is read at once."""
    anchors = " ".join(one.anchor for engine in ENGINES for one in engine.patterns)
    line = anchors + run * ((stream.LINE_MAX_BYTES - len(anchors)) // len(run))
    started = time.process_time()
    sentence(io.BytesIO(line.encode()))
    assert time.process_time() - started < 5


def test_a_settings_line_that_lies() -> None:
    """Settings that no model can have leave the model unknown rather than fail."""
    text = start_up.vllm_v1().replace("tensor_parallel_size=2", "tensor_parallel_size=99999999")
    assert reconciled(io.BytesIO(text.encode()), "here", Request()).model is None


def test_a_bad_typed_field_is_named() -> None:
    """A typed field that cannot be used is a sentence of its own, log or no log."""
    with pytest.raises(InputError, match="tp is 'x'"):
        reconciled(
            io.BytesIO(start_up.vllm_v1().encode()), "here", Request(model="qwen3-8b", tp="x")
        )
