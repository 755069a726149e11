"""The input fields: which there are, when they matter, and how they become a request.

A value that was typed wins; a field left alone shows what the preset or model gives. No widget
here and no number computed: placeholders are read off the scenario that was answered.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Final

from kvtui.dtypes import FORMATS
from kvtui.errors import InputError
from kvtui.sources.request import Request
from kvtui.spec import (
    ATTENTION_KINDS,
    FullAttention,
    LatentAttention,
    Scenario,
    SinksWindow,
    SlidingWindow,
)
from kvtui.units import COUNT_MAX, format_bytes, format_rate, parse_bytes


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name in a ``Request`` and how it is shown."""

    name: str
    label: str
    row: int
    """Fields with one row number share a line."""
    help: str
    choices: tuple[str, ...] = ()
    """Left and right walk these; typing still works."""
    picker: str = ""
    """Enter opens this list instead of editing."""
    number: bool = False
    size: bool = False
    kinds: tuple[str, ...] = ()
    """Attention kinds for which the field matters; empty means all."""


FIELDS: Final = (
    Field("model", "model", 0, "Model preset or path of a config.json", picker="models"),
    Field("attention", "attention", 1, "Attention kind", choices=ATTENTION_KINDS),
    Field("layers", "L", 2, "Layers", number=True),
    Field("batch", "B", 2, "Sequences at a time", number=True),
    Field("context", "T", 2, "Tokens per sequence", number=True),
    Field("q_heads", "Hq", 3, "Query heads", number=True),
    Field("kv_heads", "Hkv", 3, "KV heads", number=True,
          kinds=("mha", "gqa", "mqa", "window", "sinks")),
    Field("head_dim", "D", 3, "Width of a head", number=True,
          kinds=("mha", "gqa", "mqa", "window", "sinks")),
    Field("kv_lora_rank", "d_c", 4, "MLA latent width", number=True, kinds=("mla",)),
    Field("rope_dim", "d_rope", 4, "MLA rotary width", number=True, kinds=("mla",)),
    Field("window", "window", 4, "Tokens of the window", number=True, kinds=("window", "sinks")),
    Field("sinks", "sinks", 4, "First tokens that stay", number=True, kinds=("sinks",)),
    Field("dtype", "dtype", 5, "Element format of the cache", choices=tuple(FORMATS)),
    Field("block", "block", 5, "Tokens per page", number=True),
    Field("tp", "tp", 5, "Tensor-parallel ranks", number=True),
    Field("gpu", "gpu", 6, "Device preset, auto, or host", picker="devices"),
    Field("memory", "memory", 7, "Memory of one device", size=True),
    Field("reserve", "reserve", 7, "Memory kept free", size=True),
    Field("weights", "weights", 8, "Weights of the whole model", size=True),
    Field("bandwidth", "BW", 8, "Memory bandwidth"),
)  # fmt: skip

_MLA_DEFAULTS: Final = {"kv_lora_rank": "512", "rope_dim": "64"}
"""DeepSeek-V2 and V3, shown when the kind is chosen and no model brings its own."""


@dataclass(slots=True)
class Form:
    """What was typed, over the preset it started from."""

    base: Request = field(default_factory=Request)
    """Given from outside: flags, the demonstration preset."""
    typed: dict[str, str] = field(default_factory=dict)

    def request(self) -> Request:
        """The request as it stands."""
        return replace(self.base, **self.typed)

    def set(self, name: str, text: str) -> None:
        """Type ``text`` into ``name``; empty text gives the field back to the preset."""
        if text.strip():
            self.typed[name] = text.strip()
        else:
            self.typed.pop(name, None)
            if getattr(self.base, name) is not None:
                self.base = replace(self.base, **{name: None})
        if name in ("batch", "context") and text.strip():
            self.base = replace(self.base, lengths=None)

    def choose_model(self, name: str, scenario: Scenario | None) -> None:
        """Take a model preset: its shape replaces what was typed, the workload stays."""
        kept = {}
        if scenario is not None and scenario.workload.uniform:
            kept = {
                "batch": f"{scenario.workload.batch}",
                "context": f"{scenario.workload.longest}",
            }
        machine = {
            one: value
            for one, value in self.request().given().items()
            if one in ("gpu", "memory", "bandwidth", "flops", "tp", "reserve")
        }
        self.base = Request(**kept, **machine)
        self.typed = {"model": name}

    def choose_device(self, name: str) -> None:
        """Take a device preset: its memory and speed replace what was typed."""
        for one in ("memory", "bandwidth", "flops"):
            self.set(one, "")
        self.typed["gpu"] = name

    def choose_attention(self, kind: str, scenario: Scenario | None) -> None:
        """Switch the attention kind, with the fields that the new kind cannot do without."""
        self.typed["attention"] = kind
        shown = placeholders(scenario)
        if kind in ("mha", "mqa"):
            self.set("kv_heads", "")
        if kind == "mla":
            for name, value in _MLA_DEFAULTS.items():
                self.typed.setdefault(name, value)
        else:
            for name in _MLA_DEFAULTS:
                self.set(name, "")
        if kind in ("window", "sinks") and not self.request().window:
            tokens = scenario.workload.longest if scenario else 4096
            self.typed["window"] = f"{max(1, tokens // 4)}"
        if kind not in ("window", "sinks"):
            self.set("window", "")
            self.set("sinks", "")
        if kind == "gqa" and "kv_heads" not in self.request().given() and scenario is not None:
            heads = shown.get("q_heads", "")
            if heads.isdigit() and self.request().model is None:
                self.typed["kv_heads"] = f"{max(1, int(heads) // 4)}"


def attention_kind(scenario: Scenario | None) -> str:
    """The kind of the answered model, in the words of the attention field."""
    if scenario is None:
        return "gqa"
    for group in scenario.model.groups:
        if isinstance(group, LatentAttention):
            return "mla"
        if isinstance(group, SinksWindow):
            return "sinks"
        if isinstance(group, SlidingWindow) and len(scenario.model.groups) == 1:
            return "window"
        if isinstance(group, FullAttention):
            if group.q_heads == group.kv_heads:
                return "mha"
            return "mqa" if group.kv_heads == 1 else "gqa"
    return "gqa"


def visible_fields(kind: str) -> tuple[Field, ...]:
    """The fields that matter for an attention kind."""
    return tuple(one for one in FIELDS if not one.kinds or kind in one.kinds)


def placeholders(scenario: Scenario | None) -> dict[str, str]:
    """What each field stands at when nobody typed it, read off the answered scenario."""
    if scenario is None:
        return {}
    model, workload, device = scenario.model, scenario.workload, scenario.device
    heads = [one for one in model.groups if isinstance(one, FullAttention)]
    latent = [one for one in model.groups if isinstance(one, LatentAttention)]
    windows = [one for one in model.groups if isinstance(one, SlidingWindow)]
    return {
        "model": model.name,
        "attention": attention_kind(scenario),
        "layers": f"{model.layers}",
        "batch": f"{workload.batch}",
        "context": f"{workload.longest}" if workload.uniform else "ragged",
        "q_heads": _common([*(one.q_heads for one in heads), *(one.q_heads for one in latent)]),
        "kv_heads": _common([one.kv_heads for one in heads]),
        "head_dim": _common([one.k_width for one in heads]),
        "kv_lora_rank": _common([one.kv_lora_rank for one in latent]),
        "rope_dim": _common([one.rope_dim for one in latent]),
        "window": _common([one.window for one in windows]),
        "sinks": _common([one.sinks for one in windows if isinstance(one, SinksWindow)]),
        "dtype": scenario.storage.kv.name,
        "block": f"{scenario.storage.block}",
        "tp": f"{scenario.parallel.tp}",
        "gpu": device.name,
        "memory": format_bytes(device.memory_bytes),
        "reserve": format_bytes(scenario.budget.reserve_bytes),
        "bandwidth": format_rate(device.bandwidth_bytes_per_s),
    }


def _common(values: list[int | None]) -> str:
    known = {value for value in values if value is not None}
    if not known:
        return "-"
    return f"{known.pop()}" if len(known) == 1 else "mixed"


def adjusted(one: Field, text: str, change: Callable[[int], int]) -> str | None:
    """``text`` of a number or size field after ``change``; None where it is no number."""
    try:
        if one.size:
            moved = change(parse_bytes(one.label, text))
            return f"{max(0, moved)}"
        if one.number and text.replace(",", "").isdigit():
            return f"{min(COUNT_MAX, max(1, change(int(text.replace(',', '')))))}"
    except InputError:
        return None
    return None


REQUEST_NAMES: Final = tuple(one.name for one in fields(Request))
