"""Laws of every runtime, whatever the numbers, and of every preset."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtui.cli import run
from kvtui.dtypes import FORMATS
from kvtui.runtimes import RUNTIMES, Runtime, reservation, reservations
from kvtui.runtimes.base import with_sequences
from kvtui.sizing.payload import payload
from kvtui.sources import presets
from kvtui.spec import (
    BudgetTerms,
    FullAttention,
    LatentAttention,
    LayerGroup,
    Model,
    RecurrentState,
    Scenario,
    SequenceRun,
    SinksWindow,
    SlidingWindow,
    Storage,
    Workload,
)
from tests.runtimes.asking import ask

small = st.integers(1, 24)
runtimes = st.sampled_from(sorted(RUNTIMES)).map(RUNTIMES.__getitem__)


@st.composite
def layer_groups(draw: st.DrawFn) -> LayerGroup:
    layers, heads = draw(small), draw(st.sampled_from([1, 2, 8]))
    width = draw(st.sampled_from([64, 128]))
    window = draw(st.integers(1, 2000))
    kept: Callable[..., LayerGroup]
    kept, more = draw(
        st.sampled_from(
            [
                (FullAttention, {}),
                (SlidingWindow, {"window": window}),
                (SinksWindow, {"window": window, "sinks": 4}),
            ]
        )
    )
    chosen: LayerGroup = draw(
        st.sampled_from(
            [
                kept(layers=layers, kv_heads=heads, k_width=width, v_width=width, **more),
                LatentAttention(layers=layers, kv_lora_rank=512, rope_dim=64),
                RecurrentState(layers=layers, state_heads=heads, state_rows=16, state_columns=16),
            ]
        )
    )
    return chosen


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    groups = draw(st.lists(layer_groups(), min_size=1, max_size=3))
    run = SequenceRun(draw(st.integers(1, 5000)), draw(st.integers(1, 9)))
    return Scenario(
        model=Model(name="drawn", groups=tuple(groups)),
        workload=Workload(runs=(run,), shared_prefix=draw(st.integers(0, run.tokens))),
        storage=Storage(
            kv=FORMATS[draw(st.sampled_from(["bf16", "fp8", "q8_0"]))],
            block=draw(st.sampled_from([1, 16, 64])),
        ),
        budget=BudgetTerms(kv_bytes=draw(st.integers(0, 2**36))),
    )


def longer(asked: Scenario, tokens: int, count: int) -> Scenario:
    run = asked.workload.runs[0]
    runs = (SequenceRun(run.tokens + tokens, run.count + count),)
    return replace(asked, workload=replace(asked.workload, runs=runs))


@given(runtimes, scenarios(), st.integers(1, 600))
def test_more_tokens_or_sequences_never_take_less(
    runtime: Runtime, asked: Scenario, more: int
) -> None:
    """What a runtime reserves does not fall as T or B grow."""
    now = runtime.reserved_bytes(asked)
    assert runtime.reserved_bytes(longer(asked, more, 0)) >= now
    assert runtime.reserved_bytes(longer(asked, 0, 1)) >= now


@given(runtimes, scenarios())
def test_differences_add_up(runtime: Runtime, asked: Scenario) -> None:
    """The differences that are named explain every byte between a runtime and the ideal."""
    found = runtime.reservation(asked)
    assert sum(one.bytes for one in found.differences) == found.more_bytes
    assert all(one.what and one.bytes for one in found.differences)


@settings(max_examples=200)
@given(runtimes, scenarios())
def test_what_is_promised_fits(runtime: Runtime, asked: Scenario) -> None:
    """Predicted tokens x bytes of a token never exceed the budget, nor do the sequences held."""
    found, budget = runtime.pool(asked), asked.budget.kv_bytes
    assert found.tokens is not None
    assert found.concurrency is not None
    assert budget is not None
    a_token = payload(asked.model, asked.workload, asked.storage).bytes_per_token
    assert found.tokens * a_token <= budget * (1 + 1e-9)
    few, many = (runtime.reserved_bytes(with_sequences(asked, count)) for count in (256, 512))
    pages = found.block_tokens or 1
    slack = 1 + pages / (256 * asked.workload.longest) if runtime.name == "sglang" else 1 + 1e-9
    assert found.concurrency * (many - few) / 256 <= budget * slack


@given(runtimes, scenarios())
def test_tokens_and_concurrency_agree(runtime: Runtime, asked: Scenario) -> None:
    """Concurrency x length is the tokens, within a block for each sequence."""
    found = runtime.pool(asked)
    assert found.tokens is not None
    assert found.concurrency is not None
    block = found.block_tokens or asked.storage.block
    difference = abs(found.tokens - found.concurrency * asked.workload.longest)
    assert difference <= block * (found.concurrency + 1)


@pytest.mark.parametrize("name", presets.model_names())
def test_every_preset_has_every_runtime(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``size --json`` shows each runtime for each preset, with bytes, and nothing unexplained."""
    command = f"size --model {name} --context 8192 --batch 3 --gpu h200 --tp 8 --block 16 --json"
    assert run(command.split()) == 0
    found = json.loads(capsys.readouterr().out)["reservations"]
    assert [one["runtime"] for one in found] == list(RUNTIMES)
    for one in found:
        assert one["bytes"] > 0
        assert sum(part["bytes"] for part in one["differences"]) == one["more_bytes"]
        assert one["share_of"]


def test_engines_say_where_they_were_read() -> None:
    """Every runtime but the ideal has a version and a source."""
    for one in reservations(longer_of_an_8b()):
        assert one.runtime == "ideal" or (one.version and one.source)


def test_0_9_is_not_the_same_memory() -> None:
    """The same share of the same device is another pool in each engine."""
    asked = longer_of_an_8b()
    found = {
        name: reservation(name, asked).pool.bytes for name in ("vllm", "sglang", "tensorrt-llm")
    }
    assert len(set(found.values())) == 3


def longer_of_an_8b() -> Scenario:
    return ask(model="llama-3.1-8b", context=8192, gpu="h100", utilization=0.9)


@pytest.mark.parametrize("name", sorted(RUNTIMES))
def test_tokens_are_of_one_data_parallel_group(name: str) -> None:
    """Four groups hold four times the sequences of one, and each group the same tokens.

    llama.cpp knows no such groups: its devices hold layers.
    """
    shape = {"model": "llama-3.1-8b", "context": 8192, "kv_budget": "10GiB"}
    one = reservation(name, ask(**shape, tp=1)).pool
    four = reservation(name, ask(**shape, tp=4, dp_attention=4)).pool
    assert one.concurrency is not None
    if not name.startswith("llama.cpp"):
        assert four.tokens == one.tokens
        assert four.concurrency == pytest.approx(4 * one.concurrency)
