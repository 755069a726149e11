"""Laws that payload, limits and formats obey whatever the numbers."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtui.dtypes import FORMATS
from kvtui.levers import levers
from kvtui.runtimes import ideal
from kvtui.sizing.payload import held_bytes, payload, read_bytes_per_step
from kvtui.solve import limits
from kvtui.spec import (
    BudgetTerms,
    Device,
    FullAttention,
    LatentAttention,
    LayerGroup,
    Model,
    Parallel,
    RecurrentState,
    Scenario,
    SequenceRun,
    SinksWindow,
    SlidingWindow,
    Storage,
    Workload,
)

small = st.integers(1, 64)
lengths = st.integers(1, 5000)
formats = st.sampled_from([FORMATS[name] for name in ("fp32", "bf16", "fp8", "int8", "q8_0")])


@st.composite
def groups(draw: st.DrawFn) -> LayerGroup:
    layers, heads = draw(small), draw(st.sampled_from([1, 2, 4, 8, 32]))
    width = draw(st.sampled_from([32, 64, 128]))
    window = draw(st.integers(1, 2000))
    return draw(
        st.sampled_from(
            [
                FullAttention(layers=layers, kv_heads=heads, k_width=width, v_width=width * 2),
                SlidingWindow(
                    layers=layers, kv_heads=heads, k_width=width, v_width=width, window=window
                ),
                SinksWindow(
                    layers=layers,
                    kv_heads=heads,
                    k_width=width,
                    v_width=width,
                    window=window,
                    sinks=4,
                ),
                LatentAttention(layers=layers, kv_lora_rank=512, rope_dim=64),
                RecurrentState(layers=layers, state_heads=heads, state_rows=16, state_columns=16),
            ]
        )
    )


models = st.lists(groups(), min_size=1, max_size=4).map(
    lambda found: Model(name="drawn", groups=tuple(found))
)
workloads = st.lists(
    st.builds(SequenceRun, lengths, st.integers(1, 20)), min_size=1, max_size=4
).map(lambda runs: Workload(runs=tuple(runs)))


@given(models, workloads, formats)
def test_payload_is_additive_over_sequences_and_groups(
    model: Model, workload: Workload, kv: object
) -> None:
    """The payload of a batch is the sum over its sequences, and of a model over its groups."""
    storage = Storage(kv=kv)  # type: ignore[arg-type]
    whole = held_bytes(model, workload, storage)
    assert whole == sum(held_bytes(model, Workload(runs=(run,)), storage) for run in workload.runs)
    assert whole == sum(
        held_bytes(replace(model, groups=(group,)), workload, storage) for group in model.groups
    )
    assert whole == payload(model, workload, storage).total_bytes


@given(models, lengths, st.integers(1, 20), formats)
def test_payload_grows_with_tokens_and_sequences(
    model: Model, tokens: int, batch: int, kv: object
) -> None:
    """One more token or one more sequence never takes less."""
    storage = Storage(kv=kv)  # type: ignore[arg-type]

    def held(length: int, count: int) -> int:
        return held_bytes(model, Workload(runs=(SequenceRun(length, count),)), storage)

    now = held(tokens, batch)
    assert held(tokens + 1, batch) >= now
    assert held(tokens, batch + 1) > now
    grown = payload(model, Workload(runs=(SequenceRun(tokens, batch),)), storage)
    assert held(tokens + 1, batch) - now == grown.bytes_per_step


@given(models, workloads, st.sampled_from([2, 4, 8, 16]))
def test_ranks_together_hold_at_least_the_whole(model: Model, workload: Workload, tp: int) -> None:
    """tp times the fullest rank covers the whole cache, and no rank holds more than the whole."""
    storage = Storage()
    rank, whole = held_bytes(model, workload, storage, tp=tp), held_bytes(model, workload, storage)
    assert rank <= whole <= rank * tp


@given(models, workloads, st.sampled_from([1, 16, 256]))
def test_blocks_only_round_up(model: Model, workload: Workload, block: int) -> None:
    """A paged reservation holds the payload, by less than one block more a sequence and stream."""
    storage = Storage(block=block)
    scenario = Scenario(model=model, workload=workload, storage=storage)
    exact, paged = held_bytes(model, workload, storage), ideal.reserved_bytes(scenario)
    assert paged >= exact
    if block == 1:
        assert paged == exact


@given(models, lengths, st.integers(2, 9), st.data())
def test_a_shared_prefix_is_stored_once(
    model: Model, tokens: int, batch: int, data: st.DataObject
) -> None:
    """Sharing never takes more than not sharing, and never less than one sequence alone."""
    prefix = data.draw(st.integers(0, tokens))
    storage = Storage()
    alone = held_bytes(model, Workload(runs=(SequenceRun(tokens, 1),)), storage)
    apart = held_bytes(model, Workload(runs=(SequenceRun(tokens, batch),)), storage)
    shared = held_bytes(
        model, Workload(runs=(SequenceRun(tokens, batch),), shared_prefix=prefix), storage
    )
    assert alone <= shared <= apart


def test_a_shared_prefix_of_full_layers_saves_exactly_its_copies() -> None:
    """Sixteen sequences that share 1,000 of 4,096 tokens store those 1,000 once."""
    model = Model(name="m", groups=(FullAttention(layers=1, kv_heads=1, k_width=1, v_width=1),))
    workload = Workload(runs=(SequenceRun(4096, 16),), shared_prefix=1000)
    assert held_bytes(model, workload, Storage()) == 2 * 2 * (1000 + 16 * 3096)


@given(models, workloads)
def test_a_step_never_reads_more_than_is_held(model: Model, workload: Workload) -> None:
    """Without sharing, what a step reads is at most what the cache holds."""
    storage = Storage()
    assert read_bytes_per_step(model, workload, storage) <= held_bytes(model, workload, storage)


@settings(max_examples=50)
@given(models, workloads, st.integers(2**20, 2**40))
def test_limits_fit_and_one_more_does_not(model: Model, workload: Workload, memory: int) -> None:
    """A limit that is found fits the budget; the next larger one does not."""
    scenario = Scenario(
        model=model,
        workload=workload,
        device=Device(name="drawn", memory_bytes=memory),
        budget=BudgetTerms(weights_bytes=0),
    )
    found = limits(scenario)

    def held(tokens: int, count: int) -> int:
        runs = (SequenceRun(tokens, count),)
        return ideal.reserved_bytes(replace(scenario, workload=Workload(runs=runs)))

    batch, context = found.max_batch, found.max_context
    if isinstance(batch, int):
        assert batch == 0 or held(workload.longest, batch) <= memory
        assert held(workload.longest, batch + 1) > memory
    if isinstance(context, int):
        assert context == 0 or held(context, workload.batch) <= memory
        assert held(context + 1, workload.batch) > memory


@settings(max_examples=50)
@given(models, workloads, st.integers(2**20, 2**36))
def test_levers_that_fit_do_save(model: Model, workload: Workload, memory: int) -> None:
    """Every lever that is offered as fitting saves bytes or splits the model, and none is empty."""
    scenario = Scenario(
        model=model,
        workload=workload,
        device=Device(name="drawn", memory_bytes=memory),
        budget=BudgetTerms(weights_bytes=0),
    )
    for lever in levers(scenario):
        assert lever.change
        assert lever.fields
        if lever.name != "tp":
            assert lever.saves_bytes > 0


@pytest.mark.parametrize(
    ("name", "width", "expected"),
    [
        ("fp32", 128, 512),
        ("bf16", 128, 256),
        ("fp8", 128, 128),
        ("int8", 128, 132),
        ("int4", 128, 80),
        ("q8_0", 128, 136),
        ("q5_0", 128, 88),
        ("q4_0", 128, 72),
        ("q6_0", 32, 26),
        ("iq4_nl", 32, 18),
        ("nvfp4", 128, 72),
    ],
)
def test_a_row_takes_its_format_with_scales(name: str, width: int, expected: int) -> None:
    """Rows take the bytes that ggml, vLLM and KIVI lay down, scales included."""
    assert FORMATS[name].row_bytes(width) == expected


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("bf16", 131_072),
        ("fp8", 65_536),
        ("int8", 67_584),
        ("nvfp4", 36_864),
        ("q8_0", 69_632),
        ("q4_0", 36_864),
    ],
)
def test_llama_8b_per_token(dtype: str, expected: int) -> None:
    """Llama-3.1-8B takes the bytes per token that the engines' own formats give."""
    model = Model(
        name="m", groups=(FullAttention(layers=32, kv_heads=8, k_width=128, v_width=128),)
    )
    workload = Workload(runs=(SequenceRun(1, 1),))
    assert payload(model, workload, Storage(kv=FORMATS[dtype])).bytes == expected


def test_replication_under_tensor_parallelism() -> None:
    """Llama-3.1-8B stores twice the whole over 16 ranks and four times over 32."""
    model = Model(
        name="m", groups=(FullAttention(layers=32, kv_heads=8, k_width=128, v_width=128),)
    )
    scenario = Scenario(model=model, workload=Workload(runs=(SequenceRun(4096, 1),)))
    whole = ideal.reserved_bytes(scenario)
    for tp, copies in ((8, 1), (16, 2), (32, 4)):
        rank = ideal.reserved_bytes(replace(scenario, parallel=Parallel(tp=tp)))
        assert rank * tp == copies * whole
