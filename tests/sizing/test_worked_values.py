"""The worked values of the two lessons, to the byte."""

import pytest

from kvtui import roofline, solve
from kvtui.session.answer import Answer, compose
from kvtui.sources.request import Request, scenario

GIB, MIB = 2**30, 2**20


def answer(**fields: object) -> Answer:
    return compose(scenario(Request(**{name: str(value) for name, value in fields.items()})))


TUTORIAL = {"layers": 32, "batch": 4, "context": 4096, "head_dim": 128, "dtype": "bf16"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({**TUTORIAL, "q_heads": 32, "kv_heads": 8}, 2_147_483_648, id="tutorial-gqa"),
        pytest.param({**TUTORIAL, "q_heads": 32, "kv_heads": 32}, 8 * GIB, id="tutorial-mha"),
        pytest.param({**TUTORIAL, "q_heads": 32, "kv_heads": 1}, 256 * MIB, id="tutorial-mqa"),
        pytest.param(
            {
                "attention": "mla",
                "kv_lora_rank": 512,
                "rope_dim": 64,
                "layers": 32,
                "batch": 4,
                "context": 4096,
                "dtype": "bf16",
            },
            603_979_776,
            id="tutorial-mla",
        ),
        *(
            pytest.param(
                {
                    "layers": layers,
                    "batch": batch,
                    "kv_heads": heads,
                    "context": context,
                    "head_dim": 128,
                    "dtype": "fp16",
                },
                expected,
                id=f"lesson-L{layers}-B{batch}-H{heads}-T{context}",
            )
            for layers, batch, heads, context, expected in (
                (1, 1, 32, 4096, 64 * MIB),
                (32, 1, 32, 4096, 2 * GIB),
                (1, 1, 32, 2048, 32 * MIB),
                (32, 1, 32, 2048, 1 * GIB),
                (32, 16, 32, 2048, 16 * GIB),
                (1, 1, 8, 2048, 8 * MIB),
                (32, 1, 8, 2048, 256 * MIB),
                (1, 1, 8, 4096, 16 * MIB),
                (32, 1, 8, 4096, 512 * MIB),
                (1, 2, 32, 8192, 256 * MIB),
                (32, 2, 32, 8192, 8 * GIB),
                (1, 2, 8, 8192, 64 * MIB),
                (32, 2, 8, 8192, 2 * GIB),
            )
        ),
        pytest.param(
            {
                "layers": 1,
                "batch": 2,
                "context": 288,
                "kv_heads": 2,
                "head_dim": 64,
                "dtype": "fp32",
            },
            589_824,
            id="reference-experiment",
        ),
    ],
)
def test_payload_is_the_lessons_figure(fields: dict[str, object], expected: int) -> None:
    """Each worked payload of the lessons comes out to the byte."""
    assert answer(**fields).payload.bytes == expected


def test_tutorial_step_adds_512_kib() -> None:
    """Four sequences of the tutorial shape add 524,288 bytes per step."""
    found = answer(**TUTORIAL, kv_heads=8)
    assert found.payload.bytes_per_step == 524_288
    assert found.payload.bytes_per_token == 131_072


def test_formula_line_shows_the_substituted_values() -> None:
    """The formula of the tutorial shape reads as the tutorial writes it."""
    found = answer(**TUTORIAL, kv_heads=8)
    assert found.formula == ("2·L·B·T·Hkv·D·s = 2·32·4·4096·8·128·2 = 2,147,483,648 B")


class TestSupportDesk:
    """The second lesson's scenario from the first figure to the decision."""

    def test_capacity(self) -> None:
        """24 sessions of 6,000 tokens take 70.3125 GiB, a session 2.93 GiB."""
        found = answer(workload="support-desk")
        assert found.payload.bytes == 75_497_472_000
        assert found.payload.per_sequence_bytes / GIB == pytest.approx(2.93, abs=0.005)

    def test_budget(self) -> None:
        """The budget of 74 GiB with 15 GiB of weights is exceeded by exactly 11.3125 GiB."""
        found = answer(workload="support-desk")
        assert found.budget.available_bytes == 59 * GIB
        assert found.budget.spare_bytes == -11.3125 * GIB
        assert found.budget.verdict == "over"

    def test_first_lever_is_the_history(self) -> None:
        """What to move first is T, as the lesson decides."""
        levers = answer(workload="support-desk").levers
        assert levers[0].name == "T"
        assert levers[0].fits is True

    def test_batch_of_16(self) -> None:
        """16 sessions and the weights take 61.875 GiB; 20 sessions of 6,000 fit in 59 GiB."""
        found = answer(workload="support-desk", batch=16)
        assert found.payload.bytes + 15 * GIB == 61.875 * GIB
        assert answer(workload="support-desk").limits.max_batch == 20

    @pytest.mark.parametrize(("dtype", "sessions"), [("fp16", 29), ("fp32", 14)])
    def test_sessions_of_4096(self, dtype: str, sessions: int) -> None:
        """29 sessions of 4,096 tokens fit in fp16 and 14 in fp32."""
        found = answer(workload="support-desk", context=4096, dtype=dtype)
        assert found.limits.max_batch == sessions

    def test_step(self) -> None:
        """A step takes 30.5 ms at 3 TB/s: 786 tokens/s, 32.7 for each session."""
        step = answer(workload="support-desk").step
        assert step.floor_ms == pytest.approx(30.5, abs=0.05)
        assert step.bound == "bandwidth"
        assert step.tokens_per_s == pytest.approx(786, abs=0.5)
        assert step.tokens_per_s_per_sequence == pytest.approx(32.7, abs=0.06)

    def test_step_with_half_the_history_and_summaries(self) -> None:
        """T = 3,000 beside 300-token summaries takes 19.2 ms."""
        summaries = answer(workload="support-desk", context=300).payload.bytes
        assert summaries == pytest.approx(3.5 * GIB, rel=0.005)
        step = answer(workload="support-desk", context=3300).step
        assert step.floor_ms == pytest.approx(19.2, abs=0.05)

    def test_attention_flops(self) -> None:
        """Attention of that step is 7.55e10 FLOPs, 0.0755 ms at 1e15 FLOP/s, 1 FLOP/byte."""
        step = answer(workload="support-desk").step
        assert step.attention_flops == 4 * 6000 * 4096 * 32 * 24
        assert step.attention_flops / 1e15 * 1e3 == pytest.approx(0.0755, abs=5e-5)
        assert step.attention_intensity == 1.0

    def test_forgetting_the_layers(self) -> None:
        """Without the factor L the 70 GiB look like 2: the lesson's costly mistake."""
        found = answer(workload="support-desk", layers=1)
        assert found.payload.bytes / GIB == pytest.approx(2.197, abs=0.001)
        assert found.budget.verdict == "fits"
        assert answer(workload="support-desk").payload.bytes == 32 * found.payload.bytes


def test_a_share_instead_of_an_adjective() -> None:
    """2 GiB read 100 times a second is about 7 % of 3 TB/s, far from its limit."""
    asked = scenario(
        Request(
            layers="32", kv_heads="8", head_dim="128", batch="4", context="4096", bandwidth="3e12"
        )
    )
    share = roofline.step(asked).kv_read_bytes * 100 / 3e12
    assert share == pytest.approx(0.07, abs=0.005)


def test_projection_without_a_cache() -> None:
    """Projecting K and V anew each step costs T/2 times as much: 2,048 times at T = 4,096."""
    d = t = 4096
    without, with_cache = 2 * d * d * t * t, 4 * d * d * t
    assert without == pytest.approx(5.63e14, rel=1e-3)
    assert with_cache == pytest.approx(2.75e11, rel=1e-3)
    assert without / with_cache == 2048


def test_limits_fit_and_one_more_does_not() -> None:
    """A returned limit fits the budget and the next step does not."""
    asked = scenario(Request(workload="support-desk"))
    found = solve.limits(asked)
    assert isinstance(found.max_batch, int)
    assert isinstance(found.max_context, int)
    for fields, verdict in (
        ({"batch": found.max_batch}, "fits"),
        ({"batch": found.max_batch + 1}, "over"),
        ({"context": found.max_context}, "fits"),
        ({"context": found.max_context + 1}, "over"),
    ):
        assert answer(workload="support-desk", **fields).budget.verdict == verdict
