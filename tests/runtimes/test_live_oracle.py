"""The oracle run live: transformers' own modelling code on tensors without storage.

A dozen small families of the stored oracle are built and run again, so that neither the stored
measurements nor the rules made of them can go stale unseen.
"""

import warnings
from typing import Any

import pytest
import torch

from kvtui.runtimes import transformers as runtime
from kvtui.sizing.weights import total_parameters
from kvtui.sources import presets
from kvtui.spec import Scenario, SequenceRun, Storage, Workload
from tests.sources.oracle import measured, preset

NOT_THE_MODELS: frozenset[str] = frozenset(
    {"name", "source", "confidence", "notes", "memory_fields", "wrapper_model_type",
     "architectures", "torch_dtype", "quantization_config"}
)  # fmt: skip
"""Fields of a preset that describe the file, not the model."""

FAMILIES = (
    "Llama-3.2-1B", "Qwen2.5-0.5B", "Qwen3-0.6B", "Gemma-3-1B", "Phi-4-mini", "GPT-2",
    "OLMo-2-7B", "Falcon-7B", "gpt-oss-20b", "DeepSeek-V2-Lite", "Gemma-2-9B", "Mistral-7B-v0.1",
)  # fmt: skip
BATCH, TOKENS = 2, 64


def built(name: str) -> Any:
    """The model of full size on the meta device."""
    transformers = pytest.importorskip("transformers")
    facts = {
        key: value for key, value in presets.model_facts(name).items() if key not in NOT_THE_MODELS
    }
    config = transformers.AutoConfig.for_model(facts.pop("model_type"), **facts)
    config._experts_implementation = "batched_mm"
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, attn_implementation="eager"
        ).eval()


def cached_bytes(cache: Any) -> int:
    """Bytes of every tensor that the layers of a cache hold, each counted once."""
    held: dict[int, torch.Tensor] = {}
    for layer in cache.layers:
        for value in vars(layer).values():
            found = value if isinstance(value, list | tuple) else [value]
            held.update(
                {id(one): one for one in found if isinstance(one, torch.Tensor) and one.ndim}
            )
    return sum(one.numel() * one.element_size() for one in held.values())


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_run_live_equals_rule_and_store(name: str) -> None:
    """Parameters and cache bytes of the live model equal kvtui's and the stored oracle's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = built(name)
        ids = torch.zeros((BATCH, TOKENS), dtype=torch.long, device="meta")
        with torch.no_grad():
            cache = model(input_ids=ids, use_cache=True).past_key_values
    parameters = sum(one.numel() for one in set(model.parameters()))
    ours = preset(name)
    assert parameters == total_parameters(ours) == measured()[name]["parameters"]["total"]
    asked = Scenario(
        model=ours, workload=Workload(runs=(SequenceRun(TOKENS, BATCH),)), storage=Storage()
    )
    assert cached_bytes(cache) == runtime.reserved_bytes(asked)
