"""How a failure is told: what ran out, what broke, and whether anything had begun."""

import pytest
import torch

from kvtui.worker.runner import failure


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB."),
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be"),
    ],
)
def test_memory_that_ran_out_is_oom(error: Exception) -> None:
    """A failed allocation on either device is `oom`, in one line that says what to lower."""
    reason, sentence = failure(error, started=True)
    assert reason == "oom"
    assert sentence.startswith("Out of memory: ")
    assert "Lower the context or the batch." in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize(("started", "expected"), [(False, "refused"), (True, "lost")])
def test_a_bug_is_told_with_its_type(
    started: bool, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the cache exists nothing ran; after that the run is lost. The trace is on stderr."""
    reason, sentence = failure(KeyError("x"), started=started)
    assert (reason, sentence) == (expected, "The run failed: KeyError: 'x'")
    assert "KeyError" in capsys.readouterr().err


def test_a_real_host_allocation_that_fails_is_oom() -> None:
    """What torch raises for more memory than there is addresses is recognised."""
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**60, dtype=torch.uint8)
    assert failure(raised.value, started=True)[0] == "oom"
