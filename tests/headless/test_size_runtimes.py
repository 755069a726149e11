"""``kvtui size --runtime``."""

import json

import pytest

from kvtui.cli import run

ASKED = "size --model gemma-3-27b --gpu h200 --context 32768 --batch 4 --block 16"


def printed(capsys: pytest.CaptureFixture[str], more: str = "") -> str:
    assert run(f"{ASKED} {more}".split()) == 0
    return capsys.readouterr().out


def test_all_are_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """Every engine has a line, and its differences follow with their bytes."""
    text = printed(capsys, "--runtime all")
    for name in ("ideal", "transformers", "vllm", "sglang", "tensorrt-llm", "llama.cpp"):
        assert any(line.startswith(f"{name} ") for line in text.splitlines())
    assert "8 padding layers in 7 groups of 10 (+" in text
    assert "gpu_memory_utilization 0.92 of total memory" in text
    assert "log: GPU KV cache size:" in text


def test_one_is_beside_the_ideal(capsys: pytest.CaptureFixture[str]) -> None:
    """One engine asked for is shown beside the ideal and no other, in text and in JSON."""
    text = printed(capsys, "--runtime vllm")
    assert "vllm" in text
    assert "sglang" not in text
    found = json.loads(printed(capsys, "--runtime vllm --json"))["reservations"]
    assert [one["runtime"] for one in found] == ["ideal", "vllm"]


def test_the_plain_report_names_no_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """Without the flag the report is as short as before."""
    text = printed(capsys)
    assert "vllm" not in text
    assert "as transformers" in text


def test_markdown_has_a_table_of_engines(capsys: pytest.CaptureFixture[str]) -> None:
    """Pipes in the table are as many in every line."""
    text = printed(capsys, "--runtime all --markdown")
    table = next(part for part in text.split("\n\n") if part.startswith("| runtime"))
    assert len({line.count("|") for line in table.splitlines()}) == 1


def test_an_unknown_engine_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence names the field, the value and what is known, with exit 2."""
    assert run(f"{ASKED} --runtime torchserve".split()) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "runtime is 'torchserve'; it must be one of all, ideal," in told.err


@pytest.mark.parametrize(
    ("runtime", "status"),
    [("", 0), ("--runtime all", 0), ("--runtime llama.cpp", 0), ("--runtime VLLM,llama.cpp", 4)],
)
def test_check_is_the_named_engine(
    runtime: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """20 sequences of Gemma 3 fit the ideal and llama.cpp; vLLM reserves more than it has."""
    command = "size --model gemma-3-27b --gpu h200 --context 32768 --batch 20 --check"
    assert run(f"{command} {runtime}".split()) == status
    told = capsys.readouterr().err
    assert ("vllm reserves" in told) == (status == 4)


def test_each_engine_says_whether_it_fits(capsys: pytest.CaptureFixture[str]) -> None:
    """``fits`` is the reservation against the engine's own memory."""
    found = json.loads(printed(capsys, "--json"))["reservations"]
    for one in found:
        assert one["fits"] is (one["bytes"] <= one["pool"]["bytes"])
