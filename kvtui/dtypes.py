"""Element formats: what one row of a cache or a weight matrix takes, scales included.

A row is one head's vector for one token (width D), the unit along which every format here
packs its values. Formats with scales say over how many values one set of scales runs; the scale
bytes are counted apart so that a quantised cache can show what its scales cost.
"""

from dataclasses import dataclass
from typing import Final

from kvtui.errors import InputError


@dataclass(frozen=True, slots=True)
class ElementFormat:
    """How values are stored."""

    name: str
    """The name users type."""
    value_bits: int
    """Bits of one value, scales excluded."""
    group: int | None
    """Values that share one set of scales; 0 means the whole row, None means no stored scales."""
    scale_bytes: int
    """Bytes of scales, minima and zero points of one group."""
    row_multiple: int
    """A row's width must be a multiple of this."""
    source: str
    """Where the layout was read."""
    tail: str = ""
    """Format of the rotary tail of a latent row, where it is kept apart."""
    arithmetic: str = ""
    """The torch dtype the engine computes with, where it runs the format at all."""

    def value_bytes(self, width: int) -> int:
        """Bytes of the values of one row of ``width``, scales excluded."""
        return -(-width * self.value_bits // 8)

    def scales_bytes(self, width: int) -> int:
        """Bytes of the scales of one row of ``width``."""
        if self.group is None:
            return 0
        groups = 1 if self.group == 0 else -(-width // self.group)
        return groups * self.scale_bytes

    def row_bytes(self, width: int) -> int:
        """Bytes of one row of ``width`` with its scales."""
        return self.value_bytes(width) + self.scales_bytes(width)

    @property
    def bits_per_value(self) -> float:
        """Average bits of a value, scales included, for long rows."""
        return self.value_bits + (8 * self.scale_bytes / self.group if self.group else 0)

    def check_width(self, field: str, width: int) -> None:
        """Refuse a row this format cannot pack."""
        if width % self.row_multiple:
            raise InputError(field, width, f"a multiple of {self.row_multiple} for {self.name}")


_IEEE: Final = "IEEE 754 and the OCP 8-bit formats: no stored scale per token"
_STATIC: Final = "static scales a layer keeps by head or channel, none a token (FlashInfer, vLLM)"
_GGML: Final = "llama.cpp ggml/src/ggml-common.h, block structures of 32 values"
_VLLM: Final = "vLLM vllm/v1/kv_cache_interface.py, per-token-head formats (fp32 scale)"


def _ggml(name: str, bits: int, block_bytes: int) -> ElementFormat:
    return ElementFormat(name, bits, 32, block_bytes - 32 * bits // 8, 32, _GGML)


FORMATS: Final = {
    known.name: known
    for known in (
        ElementFormat("fp32", 32, None, 0, 1, _IEEE, arithmetic="float32"),
        ElementFormat("bf16", 16, None, 0, 1, _IEEE, arithmetic="bfloat16"),
        ElementFormat("fp16", 16, None, 0, 1, _IEEE, arithmetic="float16"),
        ElementFormat("fp8", 8, None, 0, 1, _IEEE, arithmetic="float32"),
        ElementFormat("fp8-head", 8, None, 0, 1, _STATIC, arithmetic="float32"),
        ElementFormat("int8-channel", 8, None, 0, 1, _STATIC, arithmetic="float32"),
        ElementFormat(
            "fp8-ds-mla",
            8,
            128,
            4,
            1,
            "vLLM fp8_ds_mla: fp8 in groups of 128 with fp32 scale, the rotary tail in bf16",
            tail="bf16",
        ),
        ElementFormat("fp8-token-head", 8, 0, 4, 1, _VLLM, arithmetic="float32"),
        ElementFormat("int8", 8, 0, 4, 1, _VLLM, arithmetic="float32"),
        ElementFormat("int4-token-head", 4, 0, 4, 2, _VLLM),
        ElementFormat(
            "int4",
            4,
            32,
            4,
            2,
            "KIVI (arXiv:2402.02750): groups of 32 with fp16 scale and zero",
            arithmetic="float32",
        ),
        ElementFormat("fp4", 4, None, 0, 2, "OCP E2M1 with one scale a tensor, none stored"),
        _ggml("q8_0", 8, 34),
        _ggml("q6_0", 6, 26),
        _ggml("q5_1", 5, 24),
        _ggml("q5_0", 5, 22),
        _ggml("q4_1", 4, 20),
        _ggml("q4_0", 4, 18),
        _ggml("iq4_nl", 4, 18),
        ElementFormat(
            "nvfp4", 4, 16, 1, 16, "vLLM kv_cache_interface.py: one fp8 scale for 16 values"
        ),
        ElementFormat("mxfp8", 8, 32, 1, 32, "OCP MX v1.0: one shared exponent for 32 values"),
        ElementFormat("mxfp4", 4, 32, 1, 32, "OCP MX v1.0: one shared exponent for 32 values"),
    )
}

ALIASES: Final = {
    "f32": "fp32",
    "float32": "fp32",
    "float": "fp32",
    "f16": "fp16",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "fp8_per_token_head": "fp8-token-head",
    "fp8_ds_mla": "fp8-ds-mla",
    "int8_per_token_head": "int8",
    "int4_per_token_head": "int4-token-head",
}


def element_format(field: str, name: str) -> ElementFormat:
    """The format called ``name`` (or by a usual alias of it)."""
    text = name.strip().lower().removeprefix("torch.")
    known = FORMATS.get(ALIASES.get(text, text))
    if known is None:
        raise InputError(field, name, "one of " + ", ".join(FORMATS))
    return known
