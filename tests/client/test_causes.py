"""The sentences that name why a helper is gone."""

import signal

import pytest

from kvtui.client.causes import last_words, why_gone, why_not_started

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "<frozen runpy>", line 198, in _run_module_as_main',
    "    import torch",
    "    ^^^^^^^^^^^^",
    "ModuleNotFoundError: No module named 'torch'",
    "  warnings.warn(",
]


@pytest.mark.parametrize(
    ("status", "words", "sentence"),
    [
        (
            -signal.SIGKILL,
            "",
            "The worker was killed by SIGKILL; often the kernel's out-of-memory killer.",
        ),
        (-signal.SIGABRT, "what(): bad_alloc", "SIGABRT; native code gave up: what(): bad_alloc."),
        (143, "", "The worker was killed by SIGTERM."),
        (-64, "", "killed by "),
        (-99, "", "The worker was killed by signal 99."),
        (0, "", "The worker ended with status 0."),
        (2, "Stop!", "The worker ended with status 2: Stop!"),
        (1, last_words(TRACEBACK), "has no module torch; install torch there."),
        (1, "ImportError: No module named pynvml", "install nvidia-ml-py there."),
        (
            1,
            "ImportError: libcudart.so.12: cannot open shared object file",
            "status 1: ImportError: libcudart.so.12: cannot open shared object file.",
        ),
        (None, "", "does not end, even when it is killed"),
    ],
)
def test_every_end_has_its_sentence(status: int | None, words: str, sentence: str) -> None:
    """Status, signal and last words make one sentence that names the cause."""
    found = why_gone("worker", status, words)
    assert sentence in found
    assert found.endswith((".", "!"))


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (TRACEBACK, "ModuleNotFoundError: No module named 'torch'"),
        (["x.py:3: UserWarning: CUDA is old", "  warnings.warn("], "warnings.warn("),
        (["loading", "a.py:1: FutureWarning: pynvml is deprecated"], "loading"),
        (
            ["terminate called", "torch.cuda.OutOfMemoryError: 2 GiB", "bye"],
            "torch.cuda.OutOfMemoryError: 2 GiB",
        ),
        (["", "   "], ""),
        ([], ""),
    ],
)
def test_the_line_that_says_most_is_quoted(lines: list[str], words: str) -> None:
    """An exception is quoted rather than its surroundings; a warning is not the cause."""
    assert last_words(lines) == words


def test_what_cannot_be_started_is_named() -> None:
    """The operating system's reason, and of which program."""
    error = FileNotFoundError(2, "No such file or directory")
    assert why_not_started("monitor", ["ssh"], error) == (
        "The monitor cannot be started: ssh: No such file or directory."
    )
