"""What a prefix cache and eviction save, and when they save nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtui.cli import run
from kvtui.levers import levers
from kvtui.prefix_caching import PrefixCaching, prefix_caching
from kvtui.runtimes import ideal
from kvtui.sources.request import Request, scenario
from kvtui.spec import Scenario

TOKEN = 131_072
"""Bytes of a token of Llama-3.1-8B in bf16."""


def ask(**fields: object) -> Scenario:
    given = {"model": "llama-3.1-8b", "context": 4096, "batch": 16, "block": 16, **fields}
    return scenario(Request(**{name: str(value) for name, value in given.items()}))


def saved(**fields: object) -> PrefixCaching:
    found = prefix_caching(ask(**fields))
    assert found is not None
    return found


def test_hits_save_copies_and_prefill() -> None:
    """12 of 16 sequences that find 1,000 tokens save 12 copies of 62 whole blocks."""
    found = saved(shared_prefix=1000, hit_rate=0.75)
    assert (found.cached_tokens, found.hits) == (992, 12)
    assert found.saves_bytes == 12 * 992 * TOKEN
    assert found.saves_blocks == 12 * 62
    assert found.missed_bytes == 3 * 992 * TOKEN


def test_prefill_is_saved_for_every_hit() -> None:
    """FLOPs saved are at least 2 for each of 6.98e9 multiplied weights and each token found.

    Weights of the layers: 32 x (2 x 4096^2 + 2 x 4096 x 1024 + 3 x 4096 x 14336).
    """
    layers = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14_336)
    found = saved(shared_prefix=992, hit_rate=0.75)
    assert found.saves_prefill_flops is not None
    least = 12 * 992 * 2 * layers
    assert least < found.saves_prefill_flops < 1.2 * least


def test_all_hit_where_the_prefix_was_there_before() -> None:
    """At a hit rate of 1 every sequence skips the prefill; one copy is held all the same."""
    found = saved(shared_prefix=1024, hit_rate=1)
    assert found.hits == 16
    assert found.saves_bytes == 15 * 1024 * TOKEN
    assert found.missed_bytes == 0


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"shared_prefix": 15}, "shorter than a block of 16"),
        ({"shared_prefix": 1024, "hit_rate": 0}, "the hit rate is 0"),
        ({"hit_rate": 0.9}, "no tokens are shared"),
        ({"shared_prefix": 1024, "batch": 1}, "one sequence"),
        ({"shared_prefix": 1024, "hit_rate": "1%"}, "no whole sequence of 16"),
    ],
)
def test_nothing_is_saved_and_why(fields: dict[str, object], reason: str) -> None:
    """Where nothing is saved every figure is 0 and the sentence says why."""
    found = saved(**fields)
    assert found.sentence.startswith("Saves nothing")
    assert reason in found.sentence
    assert (found.saves_bytes, found.saves_blocks, found.saves_prefill_flops) == (0, 0, 0)


def test_windows_keep_no_early_prefix() -> None:
    """A prefix that every window has passed saves prefill and no bytes, and that is said."""
    found = saved(shared_prefix=1024, attention="window", window=256)
    assert found.saves_bytes == 0
    assert "no layer keeps so early a token" in found.sentence
    assert found.saves_prefill_flops


def test_states_need_a_state_at_the_end() -> None:
    """For recurrent layers a hit needs a state at the prefix's end, and that is said."""
    found = saved(model="qwen3-next-80b-a3b", shared_prefix=1024)
    assert "a state at the prefix's end" in found.sentence


def test_free_memory_keeps_further_prefixes() -> None:
    """1 GiB that the workload leaves free keeps eight prefixes of 1,024 tokens, 128 MiB each."""
    fields = {"shared_prefix": 1024, "batch": 2, "context": 2048}
    held = ideal.reserved_bytes(ask(**fields))
    assert saved(**fields, kv_budget=held + 2**30).room_prefixes == 8


@given(st.integers(1, 4096), st.floats(0, 1), st.integers(1, 20))
def test_savings_and_misses_are_all_copies(prefix: int, rate: float, batch: int) -> None:
    """Copies saved and copies missed are together all but the one that stays."""
    found = saved(shared_prefix=prefix, hit_rate=rate, batch=batch)
    whole = prefix // 16 * 16 * TOKEN
    assert found.saves_bytes + found.missed_bytes == (batch - 1) * whole


def test_no_question_no_answer() -> None:
    """Without a prefix and a hit rate nothing is said."""
    assert prefix_caching(ask()) is None


def test_json_and_text_tell_it(capsys: pytest.CaptureFixture[str]) -> None:
    """``size`` gives the saving in both forms."""
    command = (
        "size --model llama-3.1-8b --context 4096 --batch 16 --block 16 --shared-prefix 1000 "
        "--hit-rate 75%"
    ).split()
    assert run([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["prefix_caching"]
    assert found["saves_bytes"] == 12 * 992 * TOKEN
    assert run(command) == 0
    assert found["sentence"] in capsys.readouterr().out


@pytest.mark.parametrize("rate", ["1.5", "-0.1", "nan", "often"])
def test_a_bad_hit_rate_is_a_sentence(rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A hit rate outside 0 to 1 names field, value and range, with exit 2."""
    assert run(["size", "--model", "llama-3.1-8b", "--context", "9", f"--hit-rate={rate}"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"hit rate is '{rate}'; it must be a share from 0 to 1" in told.err


@pytest.mark.parametrize("memory", ["24GiB", "200GiB"])
def test_eviction_is_a_move(memory: str) -> None:
    """Eviction saves what its typed fields save, and fits where it says so."""
    asked = ask(context=32_768, memory=memory)
    move = next(one for one in levers(asked) if one.name == "evict")
    moved = ask(context=32_768, memory=memory, **dict(move.fields))
    assert ideal.reserved_bytes(asked) - ideal.reserved_bytes(moved) == move.saves_bytes > 0
    assert move.fits
