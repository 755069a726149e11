"""The vocabulary: what is described, never what it costs.

A model is a list of layer groups, each of one kind; hybrids are lists, not flags. A workload is
sequence lengths with multiplicities. Storage, parallelism, device and budget complete a
``Scenario``, the one question kvtui answers. No byte formula lives here, so that the engine may
use these types and still count its own bytes. Standard library only.

Axis names used throughout: ``L`` layers, ``B`` sequences, ``T`` cached tokens per sequence,
``Hq`` query heads, ``Hkv`` KV heads, ``D`` head width.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from kvtui.dtypes import FORMATS, ElementFormat
from kvtui.errors import InputError


@dataclass(frozen=True, kw_only=True)
class LayerGroup:
    """Layers that cache the same thing in the same way."""

    kind: ClassVar[str] = ""
    layers: int
    """How many layers of the model are like this."""


@dataclass(frozen=True, kw_only=True)
class FullAttention(LayerGroup):
    """Every past token is kept: K ``[B, Hkv, T, k_width]`` and V ``[B, Hkv, T, v_width]``."""

    kind: ClassVar[str] = "full"
    kv_heads: int
    k_width: int
    v_width: int
    q_heads: int | None = None
    """Query heads; None where only bytes are asked for."""


@dataclass(frozen=True, kw_only=True)
class SlidingWindow(FullAttention):
    """The last ``window`` tokens are kept and seen."""

    kind: ClassVar[str] = "window"
    window: int


@dataclass(frozen=True, kw_only=True)
class SinksWindow(SlidingWindow):
    """The first ``sinks`` tokens and the last ``window`` are kept (StreamingLLM)."""

    kind: ClassVar[str] = "sinks"
    sinks: int


@dataclass(frozen=True, kw_only=True)
class LatentAttention(LayerGroup):
    """MLA: one latent row of ``kv_lora_rank`` and one RoPE row of ``rope_dim`` per token.

    Both serve all query heads; there is one copy and no separate V (DeepSeek-V2,
    arXiv:2405.04434).
    """

    kind: ClassVar[str] = "mla"
    kv_lora_rank: int
    rope_dim: int
    q_heads: int | None = None
    nope_dim: int | None = None
    """Width of the part of a query head that is not rotated; sets the softmax scale."""
    v_head_dim: int | None = None
    """Width of one head's output after the latent is expanded."""


@dataclass(frozen=True, kw_only=True)
class ChunkedAttention(FullAttention):
    """Tokens see their own chunk of ``chunk`` tokens (Llama 4 local layers)."""

    kind: ClassVar[str] = "chunked"
    chunk: int


@dataclass(frozen=True, kw_only=True)
class IndexedLatent(LatentAttention):
    """MLA beside a sparse indexer: one index key per token, ``index_topk`` tokens attended.

    DeepSeek-V3.2 and relatives.
    """

    kind: ClassVar[str] = "indexed"
    index_width: int
    index_heads: int | None = None
    index_topk: int | None = None


@dataclass(frozen=True, kw_only=True)
class CompressedAttention(LayerGroup):
    """A window of recent tokens beside one compressed entry per ``ratio`` tokens (DeepSeek-V4).

    Entries are one shared K = V row of ``width``; with ``index_width`` an index key is kept for
    each compressed entry.
    """

    kind: ClassVar[str] = "compressed"
    width: int
    window: int
    ratio: int
    """Tokens that one compressed entry stands for; 0 means a window only."""
    index_width: int = 0
    index_topk: int | None = None
    q_heads: int | None = None


@dataclass(frozen=True, kw_only=True)
class RecurrentState(LayerGroup):
    """Constant state instead of a growing cache (Mamba 1 and 2, gated delta net, linear attention).

    A convolution state ``[conv_channels, conv_kernel - 1]`` and a recurrent state
    ``[state_heads, state_rows, state_columns]`` per sequence, each with its own element format.
    """

    kind: ClassVar[str] = "recurrent"
    state_heads: int
    state_rows: int
    state_columns: int
    conv_channels: int = 0
    conv_kernel: int = 1
    state_format: str = "fp32"
    conv_format: str = "bf16"


@dataclass(frozen=True, kw_only=True)
class CrossAttention(FullAttention):
    """K/V of ``source_tokens`` encoder or vision tokens: constant in T."""

    kind: ClassVar[str] = "cross"
    source_tokens: int


@dataclass(frozen=True, kw_only=True)
class SharedCache(FullAttention):
    """Layers that read the cache of an earlier layer and store none of their own (Gemma 3n, 4)."""

    kind: ClassVar[str] = "shared"
    window: int | None = None
    """Window of the layer whose cache is read; None where it keeps everything."""


@dataclass(frozen=True, kw_only=True)
class NoCache(LayerGroup):
    """Layers that keep nothing between steps (MLP-only layers)."""

    kind: ClassVar[str] = "none"


AttentionKind = Literal["mha", "gqa", "mqa", "mla", "window", "sinks"]
ATTENTION_KINDS: tuple[AttentionKind, ...] = ("mha", "gqa", "mqa", "mla", "window", "sinks")


Role = Literal["embedding", "attention", "mlp", "router", "expert", "norm", "head"]


@dataclass(frozen=True)
class ParameterBlock:
    """Weights of one shape: ``copies`` tensors of ``shape`` that play one ``role``."""

    name: str
    role: Role
    shape: tuple[int, ...]
    copies: int
    active_copies: int | None = None
    """Copies one token passes through (routed experts); None means all of them."""
    sharded: bool = True
    """Split over tensor-parallel ranks (norms and routers are held whole by each)."""
    kept_in: str | None = None
    """Element format a quantised checkpoint leaves the block in; None follows the model's."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """What a cache and a step depend on, of one model."""

    name: str
    groups: tuple[LayerGroup, ...]
    family: str = ""
    """``model_type`` of a config.json; empty for a typed shape."""
    hidden_size: int | None = None
    """Width of the residual stream; None when only a shape was typed."""
    trained_context: int | None = None
    parameters: tuple[ParameterBlock, ...] = ()
    """Empty when the weights are unknown."""
    weights_format: str = "bf16"
    """Element format the checkpoint is published in."""
    stored_weights_bytes: int | None = None
    """Exact bytes of all weights as a file's headers state them; None where no file was read."""
    source: str = "typed"
    confidence: str = "typed"
    warnings: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        """Layers of all groups."""
        return sum(group.layers for group in self.groups)


@dataclass(frozen=True)
class SequenceRun:
    """``count`` sequences of ``tokens`` cached tokens each."""

    tokens: int
    count: int


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Active sequences; the first ``shared_prefix`` tokens of each are the same, stored once."""

    runs: tuple[SequenceRun, ...]
    shared_prefix: int = 0
    lookahead: int = 0
    """Slots each sequence reserves for speculated tokens."""
    in_flight: int = 0
    """Tokens of prompts being prefilled beside the sequences; they hold K/V as well."""
    hit_rate: float | None = None
    """Share of the sequences that find the prefix in a cache; None is not given."""
    name: str = "typed"

    def __post_init__(self) -> None:
        """A prefix is part of every sequence, so it cannot be longer than the shortest."""
        shortest = min(run.tokens for run in self.runs)
        if not 0 <= self.shared_prefix <= shortest:
            raise InputError(
                "shared prefix", self.shared_prefix, f"0 to {shortest}, the shortest sequence"
            )

    @property
    def batch(self) -> int:
        """Number of sequences, B."""
        return sum(run.count for run in self.runs)

    @property
    def tokens(self) -> int:
        """Tokens of all sequences, the shared prefix counted in each."""
        return sum(run.tokens * run.count for run in self.runs)

    @property
    def longest(self) -> int:
        """Length of the longest sequence."""
        return max(run.tokens for run in self.runs)

    @property
    def uniform(self) -> bool:
        """All sequences have one length."""
        return len({run.tokens for run in self.runs}) == 1


def uniform_workload(batch: int, context: int, *, shared_prefix: int = 0) -> Workload:
    """``batch`` sequences of ``context`` tokens."""
    return Workload(runs=(SequenceRun(context, batch),), shared_prefix=shared_prefix)


@dataclass(frozen=True, kw_only=True)
class Storage:
    """How cached values are laid down."""

    kv: ElementFormat = FORMATS["bf16"]
    v: ElementFormat | None = None
    """Format of V where it differs from K's."""
    block: int = 1
    """Tokens of one page; 1 means no rounding."""


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """How a model is spread over ranks.

    Attention data parallelism splits the tp ranks into ``dp_attention`` groups that each hold
    whole sequences; decode context parallelism splits the tokens of full-attention layers.
    """

    tp: int = 1
    pp: int = 1
    """Pipeline stages."""
    stage_layers: tuple[int, ...] = ()
    """Layers of each stage; empty splits them evenly."""
    dp_attention: int = 1
    """Groups of tp ranks that attend to different sequences; divides tp."""
    dcp: int = 1
    """Ranks over which cached tokens of full-attention layers are split."""
    ep: int = 1
    """Ranks over which whole routed experts are spread; 1 splits each expert over tp."""

    @property
    def attention_tp(self) -> int:
        """Ranks over which one sequence's heads are split."""
        return self.tp // self.dp_attention

    @property
    def ranks(self) -> int:
        """Devices in all."""
        return self.tp * self.pp


@dataclass(frozen=True, kw_only=True)
class Device:
    """What one accelerator (or this machine) offers; None is unknown."""

    name: str
    memory_bytes: int | None = None
    bandwidth_bytes_per_s: float | None = None
    flop_per_s: float | None = None
    """Dense 16-bit FLOP/s."""
    source: str = "typed"
    host: bool = False
    """The memory is the machine's own, shared with everything that runs on it."""


@dataclass(frozen=True)
class Band:
    """A quantity known only within limits, in bytes."""

    low: int
    expected: int
    high: int
    source: str

    def __add__(self, other: "Band") -> "Band":
        """Both together, end by end."""
        return Band(
            self.low + other.low,
            self.expected + other.expected,
            self.high + other.high,
            f"{self.source}; {other.source}",
        )


@dataclass(frozen=True, kw_only=True)
class BudgetTerms:
    """What memory is taken by, and what is kept free, per rank."""

    utilization: float = 1.0
    """Share of the device's memory that may be used at all."""
    weights_bytes: int | None = None
    """Typed weights of the whole model; None takes them from the architecture."""
    weights_format: ElementFormat | None = None
    activations: Band = Band(0, 0, 0, "typed")
    overhead: Band = Band(0, 0, 0, "typed")
    """Graphs, context, communication buffers."""
    reserve_bytes: int = 0
    kv_bytes: int | None = None
    """Memory for the cache given directly, per rank (an engine's log says it)."""
    kv_blocks: int | None = None
    """The same as a number of blocks."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One whole question: this model, this workload, stored so, on that."""

    model: Model
    workload: Workload
    storage: Storage = field(default_factory=Storage)
    parallel: Parallel = field(default_factory=Parallel)
    device: Device = Device(name="none given")
    budget: BudgetTerms = field(default_factory=BudgetTerms)
    draft: Model | None = None
    """Speculative draft model, resident beside the target: its own cache and weights."""
    step_tokens: int | None = None
    """Tokens an engine schedules in one step, of all sequences; None takes its own default."""
    warnings: tuple[str, ...] = ()
