"""Element formats a config.json states: of activations, of recurrent state, of stored weights."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvtui.dtypes import ALIASES, FORMATS
from kvtui.sources.facts import Facts
from kvtui.spec import ParameterBlock, Role

_DEFAULT: Final = "bf16"
_WEIGHT_FORMATS: Final = {
    "fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "mxfp4": "mxfp4",
    "nvfp4": "nvfp4",
    "float-quantized": "fp8",
    "mxfp4-pack-quantized": "mxfp4",
    "nvfp4-pack-quantized": "nvfp4",
}
"""``quant_algo``, ``format`` or ``quant_method`` that is an element format of ours."""

_NEVER_QUANTISED: Final[tuple[Role, ...]] = ("embedding", "head", "norm", "router")
"""What published fp8 and 4-bit checkpoints leave in 16 bits."""


def activation_format(facts: Facts) -> str:
    """The format the model computes in: ``torch_dtype`` or ``dtype``, else bf16."""
    return _named(facts, facts.text("torch_dtype") or facts.text("dtype"), _DEFAULT)


def state_format(facts: Facts) -> str:
    """Format of recurrent state: ``mamba_ssm_dtype`` where given, else fp32.

    transformers and llama.cpp keep it in fp32 in a 16-bit model.
    """
    return _named(facts, facts.text("mamba_ssm_dtype"), "fp32")


def weights_format(facts: Facts) -> str:
    """Format of the published weights; warns where it may be taken for that of the cache."""
    known = activation_format(facts)
    quantization = facts.table("quantization_config")
    if not quantization:
        return known
    stored = _stored_format(quantization)
    method = str(quantization.get("quant_method") or "unnamed")[:40]
    facts.warn(
        f"quantization_config ({method}) is about weights; the KV cache keeps the format asked for."
    )
    if stored is None:
        facts.warn(
            f"Weights quantised with {method} are counted as {known}; "
            "--weights gives their real size."
        )
    scheme = quantization.get("kv_cache_scheme") or quantization.get("kv_cache_quant_algo")
    if scheme:
        shown = scheme if isinstance(scheme, str) else "a scheme"
        facts.warn(f"quantization_config names {shown[:40]} for the KV cache; --dtype decides.")
    return stored or known


def kept_blocks(facts: Facts, parameters: tuple[ParameterBlock, ...]) -> tuple[ParameterBlock, ...]:
    """``parameters`` with those marked that the file's quantisation leaves as they were.

    Token table, head, norms and routers always; attention and shared experts where
    ``modules_to_not_convert`` or ``ignore`` names them in every layer. Scales of blocks of
    128 x 128 fp8 weights (0.02 % more) are not counted.
    """
    quantization = facts.table("quantization_config")
    if not quantization or _stored_format(quantization) is None:
        return parameters
    named = quantization.get("modules_to_not_convert") or quantization.get("ignore") or []
    patterns = [str(one) for one in named if "*" in str(one)] if isinstance(named, list) else []
    kept = activation_format(facts)
    attention = any("self_attn" in one for one in patterns)
    shared = any("shared_expert" in one for one in patterns)
    return tuple(
        replace(block, kept_in=kept)
        if block.role in _NEVER_QUANTISED
        or (attention and block.role == "attention")
        or (shared and block.name.startswith("shared expert"))
        else block
        for block in parameters
    )


def _stored_format(quantization: Mapping[str, object]) -> str | None:
    """The element format of quantised weights, None where it is not one of ours."""
    for field in ("quant_algo", "format", "quant_method"):
        found = _WEIGHT_FORMATS.get(str(quantization.get(field)).lower())
        if found is not None:
            return found
    return None


def _named(facts: Facts, dtype: str, default: str) -> str:
    if not dtype:
        return default
    name = dtype.lower().removeprefix("torch.")
    known = ALIASES.get(name, name)
    if known in FORMATS:
        return known
    facts.warn(f"dtype {dtype[:40]!r} is not known; {default} is used.")
    return default
