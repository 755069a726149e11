"""The lessons' table and figure, and what a comparison promises beyond them."""

import pytest

from kvtui.compare import Comparison, Row, compared, figure
from kvtui.errors import InputError
from kvtui.sources.request import Request, scenario
from kvtui.spec import FullAttention

GIB, MIB = 2**30, 2**20
TUTORIAL = Request(workload="tutorial")
DESK = Request(workload="support-desk")


def row(comparison: Comparison, name: str) -> Row:
    return next(one for one in comparison.rows if one.name == name)


def both(request: Request, **lists: list[str]) -> Comparison:
    return compared([scenario(request)], **lists)


@pytest.mark.parametrize(
    ("name", "payload", "per_token"),
    [
        # Tutorial, "MHA, GQA, MLA and quantisation": L 32, B 4, T 4096, D 128, 2 bytes.
        ("MHA", 8 * GIB, 2 * 32 * 32 * 128 * 2),
        ("GQA", 2 * GIB, 2 * 32 * 8 * 128 * 2),
        ("MQA", 256 * MIB, 2 * 32 * 1 * 128 * 2),
        ("MLA", 576 * MIB, 32 * (512 + 64) * 2),
    ],
)
def test_the_tutorials_table(name: str, payload: int, per_token: int) -> None:
    """The tutorial's table of attention kinds comes out to the byte."""
    found = row(both(TUTORIAL), name)
    assert (found.bytes, found.bytes_per_token) == (payload, per_token)


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("fp8", GIB),
        ("int8", 2 * 32 * 4 * 4096 * 8 * (128 + 4)),
        ("int4", 2 * 32 * 4 * 4096 * 8 * (128 // 2 + 128 // 32 * 4)),
        ("window", 2 * 32 * 4 * 2048 * 8 * 128 * 2),
        ("sinks", 2 * 32 * 4 * 2052 * 8 * 128 * 2),
        ("paged", 2 * GIB),
        ("prefix caching", 2 * 32 * 8 * 128 * 2 * (4 * 2048 + 2048)),
    ],
)
def test_the_other_means_of_the_lesson(name: str, payload: int) -> None:
    """Quantisation, window, eviction, pages and prefix caching are rows too, scales included."""
    assert row(both(TUTORIAL), name).bytes == payload


def test_every_means_has_its_price() -> None:
    """Each row says what it costs, in the words of the lesson's table of means."""
    rows = {one.name: one.price for one in both(DESK).rows}
    assert "expressiveness" in rows["MQA"]
    assert "expressiveness" in rows["GQA"]
    assert "precision" in rows["int8"]
    assert "precision" in rows["fp8"]
    assert "further back" in rows["window"]
    assert "complex" in rows["sinks"]
    assert "block table" in rows["paged"]
    assert "only requests that begin alike" in rows["prefix caching"]
    assert all(rows.values())


def test_the_support_desks_figures() -> None:
    """As asked it is over by 11.3125 GiB, holds 20 sessions and takes 30.5 ms a step."""
    asked = next(one for one in both(DESK).rows if one.asked)
    assert asked.name == "MHA"
    assert asked.bytes == 75_497_472_000
    assert asked.spare_bytes == -round(11.3125 * GIB)
    assert (asked.verdict, asked.max_batch) == ("over", 20)
    assert asked.step_ms == pytest.approx(30.5, abs=0.05)
    assert asked.tokens_per_s == pytest.approx(786, abs=0.5)


def test_a_quarter_of_the_heads_is_a_quarter_of_the_bytes() -> None:
    """32 heads over 8 is a quarter; twice T is twice the bytes (the lesson's testable law)."""
    rows = both(DESK, kinds=["mha", "gqa"]).rows
    assert rows[1].bytes * 4 == rows[0].bytes
    longer = both(Request(workload="support-desk", context="12000"), kinds=["mha"]).rows
    assert longer[0].bytes == 2 * rows[0].bytes


def test_the_lessons_figure() -> None:
    """Payload over T is a straight line through 0 that is 2 GiB at 4,096 (L 32, H 32, d 128)."""
    request = Request(layers="32", kv_heads="32", head_dim="128", context="4096", dtype="fp16")
    drawn = figure(both(request, dtypes=["fp16"]))
    (curve,) = drawn.curves
    assert curve.bytes[drawn.tokens.index(4096)] == 2 * GIB
    per_token = 2 * 32 * 32 * 128 * 2
    assert [per_token * tokens for tokens in drawn.tokens] == list(curve.bytes)
    assert drawn.budgets == ()


def test_the_figure_reaches_to_where_the_budget_is_met() -> None:
    """The budget's line crosses a curve inside the figure when that is not far beyond T."""
    drawn = figure(both(DESK, kinds=["gqa"]))
    (budget,) = drawn.budgets
    assert budget.bytes == 59 * GIB
    assert drawn.curves[0].bytes[-1] > budget.bytes > drawn.curves[0].bytes[0]


def test_named_lists_multiply() -> None:
    """Kinds, formats and engines combine; what is not named stays as it was asked."""
    found = both(TUTORIAL, kinds=["gqa", "mqa"], dtypes=["bf16", "fp8"], runtimes=["ideal"])
    assert [one.name for one in found.rows] == [
        "GQA bf16 ideal",
        "GQA fp8 ideal",
        "MQA bf16 ideal",
        "MQA fp8 ideal",
    ]
    assert [one.bytes for one in found.rows] == [2 * GIB, GIB, 256 * MIB, 128 * MIB]
    assert [one.asked for one in found.rows] == [True, False, False, False]


def test_engines_side_by_side() -> None:
    """Each engine's reservation stands beside the ideal, with why it differs."""
    asked = scenario(Request(model="gpt-oss-20b", context="8192", batch="4", memory="80GiB"))
    found = compared([asked], runtimes=["all"])
    rows = {one.runtime: one for one in found.rows}
    assert rows["ideal"].asked
    assert not rows["transformers"].asked
    # transformers keeps one token less of a window of 128 in 12 layers: 8 heads of 64, K and V.
    apart = rows["ideal"].reserved_bytes - rows["transformers"].reserved_bytes
    assert apart == 4 * 12 * 2 * 8 * 64 * 2
    assert "one token less" in rows["transformers"].price


def test_every_engine_keeps_within_its_own_share() -> None:
    """Each engine's largest batch fits what it leaves for the cache, and one more does not."""
    asked = scenario(Request(model="llama-3.1-8b", context="8192", batch="4", gpu="h100"))
    found = compared([asked], runtimes=["all"])
    assert {"ideal", "transformers", "vllm", "sglang", "tensorrt-llm", "llama.cpp"} <= {
        one.runtime for one in found.rows
    }
    # 131,072 B a token, 8,192 tokens: 1 GiB a sequence, beside which engines keep at most 64 MiB.
    for one in found.rows:
        assert one.available_bytes is not None
        assert isinstance(one.max_batch, int)
        assert 0 <= one.available_bytes - one.max_batch * GIB < GIB + 64 * MIB, one.runtime


def test_models_side_by_side() -> None:
    """Each model keeps its own kind: DeepSeek-V3 70,272 B a token, Llama-3.1-8B 131,072."""
    asked = [
        scenario(Request(model=name, context="1024")) for name in ("llama-3.1-8b", "deepseek-v3")
    ]
    rows = compared(asked).rows
    assert [one.bytes_per_token for one in rows] == [131_072, 70_272]
    assert [one.kind for one in rows] == ["gqa", "mla"]


def test_a_latent_model_expanded_to_heads() -> None:
    """MHA in place of DeepSeek-V3's latent is what transformers caches: 4,997,120 B a token."""
    asked = scenario(Request(model="deepseek-v3", context="1024"))
    assert compared([asked], kinds=["mha"]).rows[0].bytes_per_token == 4_997_120


def test_hybrids_keep_their_other_layers() -> None:
    """Fewer heads change the layers that have heads; recurrent state stays to the byte."""
    asked = scenario(Request(model="qwen3-next-80b-a3b", context="4096"))
    rows = compared([asked], kinds=["gqa", "mqa"]).rows
    assert rows[0].state_bytes == rows[1].state_bytes > 0
    assert rows[1].bytes_per_token < rows[0].bytes_per_token


def test_what_cannot_be_compared_is_said() -> None:
    """Without query heads MHA and GQA are left out of the usual rows, with the reason."""
    request = Request(layers="2", kv_heads="2", head_dim="64", context="100")
    found = both(request)
    assert "MHA" not in [one.name for one in found.rows]
    assert any("q heads" in sentence for sentence in found.left_out)


def test_a_model_without_heads_says_so_once() -> None:
    """Compressed attention has no other kind; its formats and pages are compared all the same."""
    found = both(Request(model="deepseek-v4-flash", context="4096"))
    assert found.left_out == ("DeepSeek-V4-Flash has no K and V to be of another kind.",)
    assert "paged" in [one.name for one in found.rows]


@pytest.mark.parametrize(
    ("lists", "named"),
    [
        ({"kinds": ["gqa", "nope"]}, "kinds is 'nope'"),
        ({"dtypes": ["bf17"]}, "dtypes is 'bf17'"),
        ({"runtimes": ["torchserve"]}, "runtimes is 'torchserve'"),
        ({"dtypes": ["bf16"] * 300}, "variants is 300"),
    ],
)
def test_bad_names_are_named(lists: dict[str, list[str]], named: str) -> None:
    """An unknown kind, format or engine is a sentence with the field, the value and the range."""
    with pytest.raises(InputError, match=named):
        both(TUTORIAL, **lists)


def test_rows_never_pass_their_budget() -> None:
    """The largest batch and context of every row fit its budget, and one more does not."""
    for one, asked in zip(both(DESK).rows, both(DESK).scenarios, strict=True):
        assert isinstance(one.max_batch, int)
        group = asked.model.groups[0]
        if isinstance(group, FullAttention) and one.name in ("MHA", "GQA", "MQA", "fp8"):
            each = one.bytes // 24
            assert each * one.max_batch <= 59 * GIB < each * (one.max_batch + 1)
