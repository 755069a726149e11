"""The transformers runtime against what transformers really caches, to the byte."""

from dataclasses import replace
from typing import Any

import pytest

from kvtui.dtypes import FORMATS
from kvtui.runtimes import ideal, reservation, transformers
from kvtui.spec import (
    Model,
    RecurrentState,
    Scenario,
    SequenceRun,
    Storage,
    Workload,
)
from tests.sources.oracle import measured, preset

UNFINISHED = {"DeepSeek-V4-Flash"}
"""Its compressors hold an unfinished block between multiples of 128 tokens; not modelled."""
ONE_BYTE = Storage(kv=FORMATS["fp8"])
"""A byte an element, so that bytes count elements."""


def scenario(model: Model, tokens: int, storage: Storage) -> Scenario:
    return Scenario(model=model, workload=Workload(runs=(SequenceRun(tokens, 2),)), storage=storage)


def in_elements(model: Model) -> Model:
    cached = transformers.cached_model(model)
    groups = tuple(
        replace(group, state_format="fp8", conv_format="fp8")
        if isinstance(group, RecurrentState)
        else group
        for group in cached.groups
    )
    return replace(model, groups=groups)


@pytest.mark.parametrize("name", measured())
def test_bytes_equal_the_oracle(name: str) -> None:
    """Two sequences take exactly the bytes that transformers' cache holds after a prefill."""
    found: dict[str, Any] = measured()[name]["at_T"]
    model = preset(name)
    assert transformers.reserved_bytes(scenario(model, found["T"], Storage())) == found["bytes"]


@pytest.mark.parametrize("name", measured())
def test_elements_equal_the_oracle(name: str) -> None:
    """Counted in elements, the cache of two sequences is the oracle's."""
    found: dict[str, Any] = measured()[name]["at_T"]
    counted = scenario(in_elements(preset(name)), found["T"], ONE_BYTE)
    assert ideal.reserved_bytes(counted) == found["elements"]


@pytest.mark.parametrize("name", sorted(set(measured()) - UNFINISHED))
def test_one_more_token_equals_the_oracle(name: str) -> None:
    """After one decoded token the bytes are again those that transformers holds."""
    model, tokens = preset(name), measured()[name]["at_T"]["T"] + 1
    expected = measured()[name]["after_one_decode"]["bytes"]
    assert transformers.reserved_bytes(scenario(model, tokens, Storage())) == expected


@pytest.mark.parametrize("name", measured())
def test_every_departure_is_named(name: str) -> None:
    """Where transformers takes other bytes than the ideal, it says why."""
    found = measured()[name]["at_T"]
    asked = scenario(preset(name), found["T"], Storage())
    least, theirs = (reservation(name, asked) for name in ("ideal", "transformers"))
    assert least.runtime == "ideal"
    assert theirs.more_bytes == theirs.bytes - least.bytes
    assert theirs.differences or not theirs.more_bytes


@pytest.mark.parametrize("name", measured())
def test_ideal_is_least_but_for_windows(name: str) -> None:
    """No runtime takes less than the ideal, except for windows that keep one token less."""
    model = preset(name)
    for tokens in (64, 4096, 40_000):
        asked = scenario(model, tokens, Storage())
        least, theirs = (reservation(name, asked) for name in ("ideal", "transformers"))
        if not any(
            "one token less" in one.what or "less one" in one.what for one in theirs.differences
        ):
            window_only = any("window-only" in one.what for one in theirs.differences)
            assert theirs.bytes >= least.bytes or window_only
