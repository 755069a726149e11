"""The only place where text becomes a number with a unit, and a number becomes text.

Memory is shown in GiB and MiB (2^30, 2^20), bandwidth in GB/s (10^9), exact byte counts with
thousands separators. A value nobody knows is ``None`` and prints as ``NOT_AVAILABLE``.
"""

import math
import re
from fractions import Fraction
from typing import Final

from kvtui.errors import InputError

NOT_AVAILABLE: Final = "n/a"

KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30
TIB: Final = 2**40

COUNT_MAX: Final = 2**40
"""Largest accepted count of layers, sequences, tokens, heads, widths or blocks."""

_BINARY: Final = {"kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB}
_DECIMAL: Final = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SI: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_NUMBER: Final = r"([0-9][0-9_,]*(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,2})?|\.[0-9]+)"
_SIZE_TEXT: Final = re.compile(_NUMBER + r"\s*([kmgt]i?b|b)?", re.IGNORECASE)
_RATE_TEXT: Final = re.compile(_NUMBER + r"\s*(?:([kmgt]i?b|b)/s)?", re.IGNORECASE)
_FLOPS_TEXT: Final = re.compile(_NUMBER + r"\s*([kmgtp]?)(?:flops?(?:/s)?)?", re.IGNORECASE)

_SIZE_ALLOWED: Final = "a size such as 80GiB, 75GB, 512MiB or a number of bytes"


def _number(text: str) -> Fraction:
    return Fraction(text.replace("_", "").replace(",", ""))


def count(field: str, value: object, *, low: int = 1, high: int = COUNT_MAX) -> int:
    """The whole number in ``value``, checked to lie in [low, high]."""
    shown_high = "2^40" if high == COUNT_MAX else f"{high}"
    allowed = f"a whole number from {low} to {shown_high}"
    if isinstance(value, bool):
        raise InputError(field, value, allowed)
    if isinstance(value, float):
        if not (math.isfinite(value) and value == int(value)):
            raise InputError(field, value, allowed)
        value = int(value)
    elif isinstance(value, str):
        text = value.strip().replace("_", "").replace(",", "")
        if not re.fullmatch(r"[+-]?[0-9]{1,20}", text):
            raise InputError(field, value, allowed)
        value = int(text)
    if not isinstance(value, int) or not low <= value <= high:
        raise InputError(field, value, allowed)
    return value


def parse_bytes(field: str, text: str | int, *, low: int = 0) -> int:
    """Bytes in ``text``: B, KiB..TiB (powers of 1024), KB..TB (powers of 1000) or a bare number."""
    match = _SIZE_TEXT.fullmatch(str(text).strip())
    if match is None:
        raise InputError(field, text, _SIZE_ALLOWED)
    unit = (match[2] or "b").lower()
    size = _number(match[1]) * (_BINARY.get(unit) or _DECIMAL[unit])
    if not low <= size <= 2**60:
        raise InputError(field, text, f"{_SIZE_ALLOWED}, from {format_bytes(low)} to 2^60 bytes")
    return int(size)


def parse_bytes_per_s(field: str, text: str | float) -> float:
    """Bytes per second in ``text``: 3e12, 4.8TB/s, 900GB/s."""
    match = _RATE_TEXT.fullmatch(str(text).strip())
    allowed = "a rate above 0 such as 3e12, 900GB/s or 4.8TB/s"
    if match is None:
        raise InputError(field, text, allowed)
    unit = (match[2] or "b").lower()
    rate = float(_number(match[1]) * (_BINARY.get(unit) or _DECIMAL[unit]))
    if not 0 < rate <= 1e18:
        raise InputError(field, text, allowed)
    return rate


def parse_flop_per_s(field: str, text: str | float) -> float:
    """FLOP/s in ``text``: 1e15, 989T, 989TFLOPS."""
    match = _FLOPS_TEXT.fullmatch(str(text).strip())
    allowed = "a rate above 0 such as 1e15 or 989TFLOPS"
    if match is None:
        raise InputError(field, text, allowed)
    rate = float(_number(match[1]) * _SI[match[2].lower()])
    if not 0 < rate <= 1e24:
        raise InputError(field, text, allowed)
    return rate


def parse_fraction(field: str, text: str | float, *, zero: bool = False) -> float:
    """A share in (0, 1], with ``zero`` in [0, 1]: 0.9 or 90%."""
    allowed = f"a share {'from 0 to' if zero else 'above 0 and at most'} 1, such as 0.9 or 90%"
    shown = str(text).strip()
    try:
        share = float(shown[:-1]) / 100 if shown.endswith("%") else float(shown)
    except ValueError:
        raise InputError(field, text, allowed) from None
    if not (0 < share <= 1 or (zero and share == 0)):
        raise InputError(field, text, allowed)
    return share


def format_bytes(size: float | None, *, digits: int = 3) -> str:
    """``size`` in the largest binary unit that keeps it at 1 or more, to ``digits`` figures."""
    if size is None:
        return NOT_AVAILABLE
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(size) >= unit * (1 - 0.5 * 10**-digits):
            return f"{_figures(size / unit, digits)} {name}"
    return f"{round(size)} B"


def format_gib(size: float | None, *, digits: int = 3) -> str:
    """``size`` in GiB whatever its magnitude, for columns that are compared."""
    return NOT_AVAILABLE if size is None else f"{_figures(size / GIB, digits)} GiB"


def format_exact(size: int | None) -> str:
    """Every digit of ``size`` bytes, with thousands separators."""
    return NOT_AVAILABLE if size is None else f"{size:,} B"


def format_count(value: float | str | None) -> str:
    """A count with thousands separators; text such as "unlimited" stays as it is."""
    if value is None:
        return NOT_AVAILABLE
    return value if isinstance(value, str) else f"{round(value):,}"


def format_rate(bytes_per_s: float | None, *, digits: int = 3) -> str:
    """Bandwidth in decimal GB/s."""
    if bytes_per_s is None or not math.isfinite(bytes_per_s):
        return NOT_AVAILABLE
    return f"{_figures(bytes_per_s / 1e9, digits)} GB/s"


def format_flops(flops: float | None) -> str:
    """Floating-point operations with an SI prefix."""
    if flops is None:
        return NOT_AVAILABLE
    for unit, name in ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")):
        if flops >= unit:
            return f"{_figures(flops / unit, 3)} {name}"
    return f"{flops:.0f} FLOP"


def format_ms(ms: float | None) -> str:
    """A time given in ms, in the unit that reads best."""
    if ms is None or not math.isfinite(ms):
        return NOT_AVAILABLE
    if ms >= 10_000:
        return f"{_figures(ms / 1000, 3)} s"
    return f"{_figures(ms, 3)} ms" if ms >= 0.1 else f"{_figures(ms * 1000, 3)} µs"


def format_share(share: float | None) -> str:
    """A ratio as percent, with one decimal below ten."""
    if share is None or not math.isfinite(share):
        return NOT_AVAILABLE
    percent = share * 100
    return f"{percent:.1f} %" if abs(percent) < 10 else f"{percent:.0f} %"


def format_per_s(value: float | None) -> str:
    """A rate without a unit of its own (tokens/s), to three figures or every whole digit."""
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    return f"{value:,.0f}" if value >= 100 else _figures(value, 3)


def _figures(value: float, digits: int) -> str:
    """``value`` to ``digits`` significant figures, never in exponent form."""
    if value == 0:
        return "0"
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 1
    return f"{value:,.{max(0, digits - whole)}f}"
