"""The commands as a script meets them: streams, statuses and JSON."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvtui.records import decode_record

GIB = 2**30


def kvtui(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kvtui", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def size(*arguments: str) -> dict[str, Any]:
    result = kvtui("size", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.count("\n") == 1
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


class TestSize:
    """The published size commands."""

    def test_tutorial_shape(self) -> None:
        """The tutorial's shape answers one object with its 2 GiB and every promised key."""
        answer = size(
            *"--layers 32 --batch 4 --context 4096 --q-heads 32 --kv-heads 8 --head-dim 128 "
            "--dtype bf16".split()
        )
        assert answer["schema"] == "kvtui.size/1"
        assert answer["payload"]["bytes"] == 2 * GIB
        promised = {
            "payload": ("bytes", "state_bytes", "bytes_per_token", "bytes_per_step"),
            "per_rank": ("kv_heads", "bytes"),
            "budget": (
                "total_bytes", "weights_bytes", "overhead_bytes", "reserve_bytes",
                "available_bytes", "spare_bytes", "verdict",
            ),
            "limits": ("max_batch", "max_context"),
            "step": (
                "kv_read_bytes", "kv_write_bytes", "weight_read_bytes", "flops",
                "attention_flops", "intensity", "attention_intensity", "floor_ms", "bound",
                "tokens_per_s", "tokens_per_s_per_sequence",
            ),
            "prefill": ("flops", "bytes", "floor_ms", "bound"),
        }  # fmt: skip
        for part, keys in promised.items():
            assert set(keys) <= set(answer[part]), part
        assert set(answer["budget"]["overhead_bytes"]) >= {"low", "expected", "high"}
        assert isinstance(answer["formula"], str)
        assert isinstance(answer["warnings"], list)

    def test_without_memory_there_is_no_verdict(self) -> None:
        """Unknown memory is null: total, spare, verdict and both limits."""
        answer = size(*"--layers 1 --kv-heads 1 --head-dim 2 --context 8".split())
        budget, limits = answer["budget"], answer["limits"]
        assert [budget[key] for key in ("total_bytes", "spare_bytes", "verdict")] == [None] * 3
        assert (limits["max_batch"], limits["max_context"]) == (None, None)

    def test_latent_shape(self) -> None:
        """The tutorial's MLA example takes 603,979,776 bytes and one latent head on each rank."""
        answer = size(
            *"--attention mla --kv-lora-rank 512 --rope-dim 64 --layers 32 --batch 4 "
            "--context 4096 --dtype bf16".split()
        )
        assert answer["payload"]["bytes"] == 603_979_776
        assert answer["per_rank"]["kv_heads"] == 1

    def test_model_on_two_ranks(self) -> None:
        """Llama-3.1-8B at tp 2 holds four KV heads and half the payload on each rank."""
        answer = size(*"--model llama-3.1-8b --gpu h200 --batch 64 --context 8192 --tp 2".split())
        assert answer["payload"]["bytes"] == 131_072 * 64 * 8192
        assert answer["per_rank"]["bytes"] == 131_072 * 64 * 8192 // 2
        assert answer["per_rank"]["kv_heads"] == 4
        assert answer["budget"]["total_bytes"] == 143_771 * 2**20

    def test_config_file_with_ragged_lengths(self, tmp_path: Path) -> None:
        """A config.json with 24 lengths of two sizes is the sum over its sequences."""
        facts = {
            "model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 8,
            "num_key_value_heads": 2, "hidden_size": 512, "vocab_size": 1000,
            "intermediate_size": 1024, "head_dim": 64,
        }  # fmt: skip
        path = tmp_path / "config.json"
        path.write_text(json.dumps(facts))
        answer = size("--model", str(path), "--lengths", "6000*20,3000*4")
        assert answer["payload"]["bytes"] == 2 * 2 * 2 * 64 * 2 * (6000 * 20 + 3000 * 4)
        assert answer["batch"] == 24

    def test_support_desk_check(self) -> None:
        """The support desk is over by 11.3 GiB: exit 4, and the sentence says what to move."""
        result = kvtui("size", "--workload", "support-desk", "--check")
        assert result.returncode == 4
        assert "Over by 11.3 GiB. Move first: T" in result.stderr

    def test_check_that_fits(self) -> None:
        """A workload that fits exits 0 under --check, and one without memory exits 2."""
        shape = "--layers 1 --kv-heads 1 --head-dim 2 --context 8 --check".split()
        room = "--memory 80GiB --weights 1GiB --activations 0 --overhead 0".split()
        assert kvtui("size", *shape, *room).returncode == 0
        assert kvtui("size", *shape).returncode == 2

    def test_a_workload_of_ones_own(self, tmp_path: Path) -> None:
        """A TOML file of workload fields is asked like a preset, and typed fields win."""
        path = tmp_path / "mine.toml"
        path.write_text('model = "qwen3-8b"\ngpu = "l40s"\nlengths = "6000*4,100*4"\n')
        assert size("--workload", str(path))["batch"] == 8
        assert size("--workload", str(path), "--batch", "2", "--context", "10")["batch"] == 2
        path.write_text('colour = "blue"\n')
        result = kvtui("size", "--workload", str(path))
        assert result.returncode == 2
        assert "colour" in result.stderr

    def test_gpu_auto_without_nvml(self) -> None:
        """--gpu auto on a machine without NVIDIA's driver is exit 3 and a sentence."""
        result = kvtui("size", *"--model llama-3.1-8b --context 8192 --gpu auto".split())
        if result.returncode == 0:
            pytest.skip("this machine has a GPU")
        assert result.returncode == 3
        assert result.stdout == ""
        assert result.stderr.count("\n") == 1

    def test_explain_opens_every_number(self) -> None:
        """--explain gives the rule, the values and the source."""
        result = kvtui("size", "--workload", "support-desk", "--explain")
        assert "2·L·B·T·Hkv·D·s = 2·32·24·6000·32·128·2 = 75,497,472,000 B" in result.stdout
        assert "source:" in result.stdout


WRONG = {
    "zero tokens": ("--layers 1 --kv-heads 1 --head-dim 2 --context 0", "context is 0"),
    "query heads that do not divide": (
        "--layers 1 --q-heads 12 --kv-heads 5 --head-dim 2 --context 8",
        "q heads is 12; it must be a multiple of the KV heads (5)",
    ),
    "negative width": ("--layers 1 --kv-heads 1 --head-dim -1 --context 8", "head dim is -1"),
    "unknown dtype": (
        "--layers 1 --kv-heads 1 --head-dim 2 --context 8 --dtype bf15",
        "dtype is 'bf15'; it must be one of fp32",
    ),
    "unknown unit": (
        "--layers 1 --kv-heads 1 --head-dim 2 --context 8 --memory 80XB",
        "memory is '80XB'",
    ),
    "too many tokens": (
        f"--layers 1 --kv-heads 1 --head-dim 2 --context {2**40 + 1}",
        "from 1 to 2^40",
    ),
    "nothing typed": ("", "layers is missing"),
    "no context": ("--layers 1 --kv-heads 1 --head-dim 2", "context is missing"),
    "unknown attention": (
        "--layers 1 --kv-heads 1 --head-dim 2 --context 8 --attention linear",
        "attention is 'linear'",
    ),
    "unknown model": ("--model lama-3.1-8b --context 8", "llama-3.1-8b"),
    "unknown flag": ("--colour blue", "--colour"),
    "mla without its rank": ("--layers 1 --attention mla --context 8", "kv lora rank is missing"),
    "lengths and batch": (
        "--layers 1 --kv-heads 1 --head-dim 2 --lengths 3*2 --batch 2",
        "batch is '2'",
    ),
    "odd lengths": ("--layers 1 --kv-heads 1 --head-dim 2 --lengths 3**2", "lengths is"),
}


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_sentence(case: str, as_json: bool) -> None:
    """Bad input exits 2 with one sentence naming field, value and range; stdout stays empty."""
    arguments, sentence = WRONG[case]
    result = kvtui("size", *arguments.split(), *(["--json"] if as_json else []))
    assert result.returncode == 2
    assert result.stdout == ""
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


CONFIGS = {
    "empty": "",
    "a list": "[]",
    "null in a required field": (
        '{"model_type": "llama", "num_hidden_layers": null, "num_attention_heads": 8, '
        '"hidden_size": 512, "vocab_size": 10, "intermediate_size": 8}'
    ),
    "a field missing": '{"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512}',
    "NaN": '{"model_type": "llama", "num_hidden_layers": NaN, "num_attention_heads": 8}',
    "negative": (
        '{"model_type": "llama", "num_hidden_layers": -4, "num_attention_heads": 8, '
        '"hidden_size": 512, "vocab_size": 10, "intermediate_size": 8}'
    ),
    "deeply nested": "[" * 100_000,
}


@pytest.mark.parametrize("case", CONFIGS)
def test_wrong_config_files_are_one_sentence(case: str, tmp_path: Path) -> None:
    """A config.json that cannot be read as one exits 2 with one sentence and no traceback."""
    path = tmp_path / "config.json"
    path.write_text(CONFIGS[case])
    result = kvtui("size", "--model", str(path), "--context", "8")
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


class TestRun:
    """The live loop headless."""

    SMALL = (
        *"run --device cpu --layers 4 --batch 1 --context 1024 --start 768 --q-heads 8 "
        "--kv-heads 2 --head-dim 64 --dtype fp32 --probe 16MiB".split(),
    )

    def test_records_and_summary(self) -> None:
        """Every line is a record, the last is the summary, and prediction equals what is held."""
        result = kvtui(*self.SMALL, "--json", timeout=120)
        assert result.returncode == 0, result.stderr
        lines = result.stdout.splitlines()
        records = [json.loads(line) for line in lines]
        assert all(decode_record(line.encode()) is not None for line in lines)
        summary = records[-1]
        assert (summary["type"], summary["schema"]) == ("summary", "kvtui.summary/1")
        assert (
            summary["predicted_kv_bytes"] == summary["held_kv_bytes"] == 2 * 4 * 1024 * 2 * 64 * 4
        )
        assert summary["capacity_kv_bytes"] == summary["held_kv_bytes"]
        assert (summary["steps"], summary["tokens"], summary["ended"]) == (256, 1024, "target")
        assert summary["prefill_ms"] > 0
        assert 0 < summary["step_ms"]["p10"] <= summary["step_ms"]["p50"]
        assert summary["step_ms"]["p50"] <= summary["step_ms"]["p90"] <= summary["step_ms"]["p99"]
        assert summary["share_of_limit"] > 0
        assert "attention" in summary["evidence"]
        assert (
            sum(
                record["last_step"] - record["first_step"] + 1
                for record in records
                if record["type"] == "steps"
            )
            == 256
        )

    def test_recording_holds_what_was_printed(self, tmp_path: Path) -> None:
        """--record leaves every record of the run in a file, the summary last."""
        path = tmp_path / "run.jsonl"
        result = kvtui(*self.SMALL, "--record", str(path), timeout=120)
        assert result.returncode == 0, result.stderr
        records = [decode_record(line) for line in path.read_bytes().splitlines()]
        assert type(records[-1]).__name__ == "Summary"
        assert "where the bytes went" in result.stdout

    def test_a_run_that_does_not_fit_is_refused(self) -> None:
        """A cache larger than memory is refused with the shortfall before anything is allocated."""
        result = kvtui(
            *"run --device cpu --layers 64 --batch 64 --context 100000 --start 8 --q-heads 64 "
            "--kv-heads 64 --head-dim 128 --dtype fp32 --probe 0 --json".split(),
            timeout=120,
        )
        assert result.returncode == 1
        summary = json.loads(result.stdout.splitlines()[-1])
        assert summary["ended"] == "refused"
        assert "short" in summary["sentence"]

    @pytest.mark.parametrize(
        ("changed", "sentence"),
        [
            (("--start", "1024"), "start is 1024"),
            (("--dtype", "q8_0"), "dtype"),
            (("--work", "everything"), "work is 'everything'"),
            (("--cache", "lru"), "cache is 'lru'"),
            (("--time-limit", "-1"), "time limit is '-1'"),
            (("--tp", "2"), "tp is 2"),
        ],
    )
    def test_wrong_runs_are_one_sentence(self, changed: tuple[str, str], sentence: str) -> None:
        """A run that cannot be is refused by name."""
        result = kvtui(*self.SMALL, *changed, timeout=120)
        assert result.returncode in (1, 2)
        assert sentence in result.stderr + result.stdout
        assert "Traceback" not in result.stderr

    def test_cuda_that_is_not_there(self) -> None:
        """--device cuda without CUDA says so and ends as refused."""
        result = kvtui(*self.SMALL, "--device", "cuda", "--json", timeout=120)
        summary = json.loads(result.stdout.splitlines()[-1])
        if summary["ended"] == "target":
            pytest.skip("this machine has CUDA")
        assert result.returncode in (1, 3)
        assert "CUDA" in summary["sentence"]


def test_the_main_job_without_a_terminal() -> None:
    """kvtui without a terminal answers all three questions, says why on stderr, and exits 0."""
    result = kvtui("--time-limit", "1", "--probe", "16MiB", timeout=120)
    assert result.returncode == 0, result.stderr
    for heading in ("WHAT WILL IT COST", "WHAT DOES IT COST", "WHERE DID THE BYTES GO"):
        assert heading in result.stdout
    assert "stdin is not a terminal" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_reader_that_leaves_is_no_error() -> None:
    """Piping into a reader that closes early ends quietly."""
    result = subprocess.run(
        f"{sys.executable} -m kvtui presets | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stdout.startswith("models")
    assert result.stderr == ""
