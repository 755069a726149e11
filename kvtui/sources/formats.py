"""Element formats a config.json states: of activations, of recurrent state, of stored weights."""

from typing import Final

from kvtui.dtypes import ALIASES, FORMATS
from kvtui.sources.facts import Facts

_DEFAULT: Final = "bf16"
_WEIGHT_FORMATS: Final = {
    "fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "mxfp4": "mxfp4",
    "nvfp4": "nvfp4",
}
"""``quant_method`` or ``quant_algo`` that is an element format of ours."""


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
    method = str(quantization.get("quant_method") or "unnamed")[:40]
    algorithm = str(quantization.get("quant_algo") or method)[:40]
    stored = _WEIGHT_FORMATS.get(algorithm.lower()) or _WEIGHT_FORMATS.get(method.lower())
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


def _named(facts: Facts, dtype: str, default: str) -> str:
    if not dtype:
        return default
    name = dtype.lower().removeprefix("torch.")
    known = ALIASES.get(name, name)
    if known in FORMATS:
        return known
    facts.warn(f"dtype {dtype[:40]!r} is not known; {default} is used.")
    return default
