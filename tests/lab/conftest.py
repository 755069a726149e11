"""One thread and one round: tested is what is counted and said, not how fast it was."""

from collections.abc import Iterator

import pytest
import torch

from kvtui.lab import reference


@pytest.fixture(autouse=True)
def one_round(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(reference, "WARM_UPS", 0)
    monkeypatch.setattr(reference, "ROUNDS", 1)
    yield
    torch.set_num_threads(threads)
