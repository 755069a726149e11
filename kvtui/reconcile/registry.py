"""The engines whose logs are read: one module each, and one line here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from kvtui.reconcile.case import Case
from kvtui.reconcile.engines import llama_cpp, sglang, tensorrt_llm, vllm, vllm_lines
from kvtui.reconcile.findings import Finding
from kvtui.reconcile.readings import Log, Pattern
from kvtui.sources.request import Request


@dataclass(frozen=True, slots=True)
class Engine:
    """How one engine's log is read."""

    name: str
    title: str
    patterns: tuple[Pattern, ...]
    said: Callable[[Log], Request]
    """What the log states of the question."""
    findings: Callable[[Log, Case | None], Iterator[Finding]]


ENGINES: Final = (
    Engine("vllm", "vLLM", vllm_lines.PATTERNS, vllm.said, vllm.findings),
    Engine("sglang", "SGLang", sglang.PATTERNS, sglang.said, sglang.findings),
    Engine(
        "tensorrt_llm",
        "TensorRT-LLM",
        tensorrt_llm.PATTERNS,
        tensorrt_llm.said,
        tensorrt_llm.findings,
    ),
    Engine("llama.cpp", "llama.cpp", llama_cpp.PATTERNS, llama_cpp.said, llama_cpp.findings),
)
