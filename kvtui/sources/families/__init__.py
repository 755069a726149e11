"""Architecture families: for each ``model_type`` the function that lays out its layers.

A family reads fields (``Facts``) and adds layers and weights (``Draft``). Its tensors and their
shapes are those of transformers 5.24's modelling code; its cache is the architecture's minimum,
not what one runtime keeps. Adding a family is a function here or in a new file and one line in
the table. Modules are imported when one of their types is asked for.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Final

from kvtui.sources.draft import Draft

Family = Callable[[Draft], None]

_FAMILIES: Final = {
    "llama": "dense.llama",
    "mistral": "dense.mistral",
    "ministral": "dense.mistral",
    "ministral3": "dense.mistral",
    "qwen2": "dense.qwen2",
    "qwen2_vl": "dense.qwen2",
    "qwen2_vl_text": "dense.qwen2",
    "qwen2_5_vl": "dense.qwen2",
    "qwen2_5_vl_text": "dense.qwen2",
    "qwen3": "dense.qwen3",
    "qwen3_vl_text": "dense.qwen3",
    "phi3": "dense.phi3",
    "olmo2": "dense.olmo2",
    "olmo3": "dense.olmo3",
    "cohere": "dense.cohere",
    "cohere2": "dense.cohere2",
    "gemma": "gemma.gemma",
    "gemma2": "gemma.gemma2",
    "gemma3": "gemma.gemma3",
    "gemma3_text": "gemma.gemma3",
    "gemma3n": "gemma3n.gemma3n",
    "gemma3n_text": "gemma3n.gemma3n",
    "gemma4": "gemma4.gemma4",
    "gemma4_text": "gemma4.gemma4",
    "mixtral": "moe.mixtral",
    "qwen2_moe": "moe.qwen2_moe",
    "qwen3_moe": "moe.qwen3_moe",
    "qwen3_vl_moe_text": "moe.qwen3_moe",
    "glm4_moe": "moe.glm4_moe",
    "minimax_m2": "moe.minimax_m2",
    "gpt_oss": "moe.gpt_oss",
    "mimo_v2_flash": "moe.mimo_v2_flash",
    "llama4": "llama4.llama4",
    "llama4_text": "llama4.llama4",
    "mllama": "mllama.mllama",
    "mllama_text_model": "mllama.mllama",
    "deepseek_v2": "deepseek.deepseek",
    "deepseek_v3": "deepseek.deepseek",
    "kimi_k2": "deepseek.deepseek",
    "deepseek_v32": "deepseek.deepseek",
    "glm_moe_dsa": "deepseek.deepseek",
    "deepseek_v4": "deepseek_v4.deepseek_v4",
    "kimi_linear": "kimi_linear.kimi_linear",
    "qwen3_next": "qwen3_next.qwen3_next",
    "qwen3_5": "qwen3_next.qwen3_5",
    "qwen3_5_text": "qwen3_next.qwen3_5",
    "qwen3_5_moe": "qwen3_next.qwen3_5",
    "qwen3_5_moe_text": "qwen3_next.qwen3_5",
    "minimax": "minimax.minimax",
    "minimax_m1": "minimax.minimax",
    "minimax_text_01": "minimax.minimax",
    "jamba": "jamba.jamba",
    "granitemoehybrid": "mamba2.granite_hybrid",
    "nemotron_h": "mamba2.nemotron_h",
    "gpt2": "gpt2.gpt2",
    "gpt_bigcode": "gpt2.gpt_bigcode",
    "opt": "gpt2.opt",
    "bloom": "gpt2.bloom",
    "falcon": "gpt2.falcon",
}

_STATEFUL: Final = (
    "hybrid_override_pattern",
    "attn_layer_period",
    "linear_attn_config",
    "linear_num_value_heads",
    "mamba_d_state",
    "ssm_state_size",
    "state_size",
    "attn_type_list",
)
"""Fields that only models with recurrent layers have; none of them may be taken for attention."""


def known_types() -> list[str]:
    """Every ``model_type`` that has a family."""
    return sorted(_FAMILIES)


def family(model_type: str) -> Family | None:
    """The family of ``model_type``, None where it has none."""
    entry = _FAMILIES.get(model_type)
    if entry is None:
        return None
    module, name = entry.split(".")
    found: Family = getattr(import_module(f"{__name__}.{module}"), name)
    return found


def stateful_field(draft: Draft) -> str | None:
    """A field that says the model has recurrent layers, None where there is none."""
    return next((name for name in _STATEFUL if draft.facts.has(name)), None)
