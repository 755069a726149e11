"""Live trouble as users of other tools reported it: what must be right is the case's."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from kvtui.decode_run import DecodeRun
from kvtui.engine.attention import decode_attention, dense_attention
from kvtui.engine.control import Control
from kvtui.engine.decoder import Decoder
from kvtui.engine.plan import needed
from kvtui.engine.run import Run
from kvtui.errors import InputError
from kvtui.history import LogHistogram
from kvtui.session.answer import compose
from kvtui.session.flag_rules import beyond_limit, resident
from kvtui.session.live import Live
from kvtui.sources.request import Request, scenario
from kvtui.spec import FullAttention
from kvtui.units import MIB, format_rate
from kvtui.worker.runner import failure

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in json.loads((Path(__file__).parents[1] / "data" / "handed.json").read_text())
    if case["kind"] == "live"
}
HERE = {"LV-01", "LV-04", "LV-05", "LV-06", "LV-07", "LV-10", "LV-12", "LV-13", "LV-16"}
CPU = torch.device("cpu")


def given(case: str) -> Any:
    return CASES[case]["input"]


def right(case: str) -> Any:
    return CASES[case]["right"]


def test_every_case_has_its_place() -> None:
    """Each case of this kind is tested below."""
    assert set(CASES) == HERE


def test_heads_that_do_not_divide_are_refused() -> None:
    """LV-01: of the pairs only 32 query heads over 8 KV heads run."""
    for (q_heads, kv_heads), valid in zip(
        given("LV-01")["pairs"], right("LV-01")["valid"], strict=True
    ):
        group = FullAttention(layers=1, q_heads=q_heads, kv_heads=kv_heads, k_width=8, v_width=8)
        run = DecodeRun(groups=(group,), batch=1, start=1, target=2, device="cpu")
        if valid:
            Run(run)
            continue
        with pytest.raises(InputError, match="q heads"):
            Run(run)


def test_a_row_without_keys_is_zeros() -> None:
    """LV-04: nothing cached gives zeros and no NaN, in the loop and in the reference."""
    tokens = given("LV-04")["cached_tokens"]
    q, nothing = torch.randn(1, 1, 1, 2), torch.empty(1, 1, tokens, 2)
    for out in (decode_attention(q, nothing, nothing), dense_attention(q, nothing, nothing)):
        assert out.flatten().tolist() == right("LV-04")["output"]


def test_more_than_the_peak_is_marked() -> None:
    """LV-05, LV-06: 150 % and 336 % of the peak are shown as they are, with a mark."""
    case, wanted = given("LV-05"), right("LV-05")
    achieved = case["bytes"] / case["seconds"]
    assert achieved / 1e9 == pytest.approx(wanted["gb_s"], abs=0.5)
    share = achieved / (case["peak_gb_s"] * 1e9)
    assert share * 100 == pytest.approx(wanted["percent"], abs=0.1)
    assert beyond_limit(share) is not None
    flag = resident(case["bytes"], case["l2_mib"] * MIB)
    assert flag is not None
    assert "8.00 MiB" in flag.sentence
    small = given("LV-06")
    share = small["achieved_gb_s"] / small["peak_gb_s"]
    assert share * 100 == pytest.approx(right("LV-06")["percent"], abs=0.1)
    assert (beyond_limit(share) is not None) is right("LV-06")["flag"]


def test_rates_are_decimal() -> None:
    """LV-07: 4 MiB in 8.192 us are 512 GB/s, which is 488,281 MiB/s and not 512,000."""
    case = given("LV-07")
    moved = case["pages"] * case["page_bytes"]
    rate = moved / (case["elapsed_us"] * 1e-6)
    assert moved == right("LV-07")["bytes"]
    assert rate / 1e6 == pytest.approx(right("LV-07")["mb_s"])
    assert rate / MIB == pytest.approx(right("LV-07")["mib_s"])
    assert format_rate(rate) == "512 GB/s"


def test_weights_and_cache_are_streams_of_their_own() -> None:
    """LV-10: at 100 tokens/s 14 GB of weights are 1,400 GB/s and 4 GiB of cache 429.5 beside."""
    case, wanted = given("LV-10"), right("LV-10")
    live = Live(steps=1)
    live.kv_bytes = case["kv_bytes_read_per_step"]
    live.weight_bytes = int(case["params_b"] * 1e9 * case["bytes_per_param"])
    live.device_ns = LogHistogram()
    live.device_ns.add(1e9 / case["tokens_per_s"])
    kv, weights = live.achieved_bytes_per_s, live.weight_bytes_per_s
    assert kv is not None
    assert weights is not None
    assert weights / 1e9 == pytest.approx(wanted["weights_gb_s"], rel=0.02)
    assert kv / 1e9 == pytest.approx(wanted["kv_gb_s"], rel=0.02)
    assert (kv + weights) / 1e9 == pytest.approx(wanted["total_gb_s"], rel=0.02)


def test_out_of_memory_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """LV-12: every step before the failing one is kept, the shortage said, the next run runs."""
    case, wanted = given("LV-12"), right("LV-12")
    group = FullAttention(layers=1, q_heads=1, kv_heads=1, k_width=2, v_width=2)
    asked = DecodeRun(groups=(group,), batch=1, start=1, target=1900, device="cpu", threads=1)
    said = (
        f"CUDA out of memory. Tried to allocate {case['requested'] / MIB:.2f} MiB. GPU 0 has a "
        f"total capacity of {case['total'] / 2**30:.2f} GiB of which {case['free'] / MIB:.2f} MiB "
        "is free."
    )
    step, count = Decoder.step, 0

    def failing(self: Decoder, x: torch.Tensor, position: int) -> torch.Tensor:
        nonlocal count
        count += 1
        if count == case["at_step"]:
            raise torch.OutOfMemoryError(said)
        return step(self, x, position)

    monkeypatch.setattr(Decoder, "step", failing)
    run, kept = Run(asked), [0]
    run.allocate()
    control = Control(lambda paused: None)
    assert run.prefill(control) is not None

    def keep() -> None:
        for one in run.steps(control):
            kept[0] = one.index

    with pytest.raises(torch.OutOfMemoryError) as raised:
        keep()
    reason, sentence = failure(raised.value, started=True)
    assert reason == "oom"
    assert f"{wanted['missing_mib']:.0f} MiB short" in sentence
    run.release()
    assert run.tensors_bytes() == (0, 0)
    assert kept[-1] == wanted["samples_kept"]
    monkeypatch.setattr(Decoder, "step", step)
    again = Run(DecodeRun(groups=(group,), batch=1, start=1, target=9, device="cpu", threads=1))
    again.allocate()
    again.prefill(control)
    assert len(list(again.steps(control))) == 8


def test_growing_by_concatenation_holds_a_layer_twice() -> None:
    """LV-13: preallocated takes the cache and no more; concat up to a whole layer on top."""
    case, wanted = given("LV-13"), right("LV-13")
    group = FullAttention(
        layers=case["layers"], q_heads=32, kv_heads=case["kv_heads"], k_width=case["head_dim"],
        v_width=case["head_dim"],
    )  # fmt: skip
    needs = {}
    for cache in ("contiguous", "concat"):
        run = DecodeRun(
            groups=(group,), batch=1, start=8000, target=case["tokens"], dtype=case["kv_dtype"],
            device="cpu", cache=cache,
        )  # fmt: skip
        needs[cache] = needed(run, torch.bfloat16, CPU, available_bytes=0)
    assert needs["contiguous"].cache_bytes == needs["concat"].cache_bytes == wanted["cache_bytes"]
    on_top = needs["concat"].workspace_bytes - needs["contiguous"].workspace_bytes
    one_layer = wanted["peak_cache_bytes"][1] - wanted["cache_bytes"]
    assert one_layer / 2 <= on_top <= one_layer


def test_a_pool_that_is_too_small_names_the_shortage() -> None:
    """LV-16: 36,544 tokens of room for 112,000 lack 75,456, which are 1,179 blocks of 64."""
    case, wanted = given("LV-16"), right("LV-16")
    found = compose(
        scenario(
            Request(
                layers="1", kv_heads="1", q_heads="1", head_dim="8", batch="1", weights="0",
                context=f"{case['requested_tokens']}", block=f"{case['block_size']}",
                kv_blocks=f"{case['remaining_tokens'] // case['block_size']}",
            )
        )
    )  # fmt: skip
    assert found.budget.verdict == "over"
    assert found.budget.spare_bytes is not None
    missing = -found.budget.spare_bytes // found.payload.bytes_per_token
    assert (missing, missing // case["block_size"]) == (
        wanted["missing_tokens"],
        wanted["missing_blocks"],
    )
