"""The logical payload of a cache, to the byte: what is stored, and what one step reads and writes.

Stored and read bytes are different functions of the same streams. Payload counts tokens' K/V,
scales, index keys and compressed entries; recurrent state and cross-attention entries are
counted apart as constant state, since they do not grow. With ``block`` above 1 the same count
gives a paged reservation. All figures are of the whole model (tp 1) or of the fullest of ``tp``
ranks.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from kvtui.dtypes import FORMATS, element_format
from kvtui.sizing.formula import Formula
from kvtui.sizing.kinds import Lengths, Row, Stream, states, streams, term
from kvtui.spec import LayerGroup, Model, Storage, Workload

_streams = lru_cache(maxsize=4096)(streams)
"""Groups are immutable and searches ask for the same ones hundreds of times."""
SEED = "KV cache tutorial, capacity formula: one K and one V per token, KV head and layer"


@dataclass(frozen=True, slots=True)
class GroupPayload:
    """One layer group's part."""

    kind: str
    layers: int
    bytes: int
    state_bytes: int
    bytes_per_token: int


@dataclass(frozen=True, slots=True)
class Payload:
    """What the cache of a workload holds, bytes."""

    bytes: int
    """Growing entries of all sequences, scales included, state excluded."""
    state_bytes: int
    """Recurrent and convolution state and cross-attention entries of all sequences."""
    k_bytes: int
    v_bytes: int
    latent_bytes: int
    index_bytes: int
    scale_bytes: int
    """Part of ``bytes``: scales, minima and zero points."""
    bytes_per_token: int
    """One more token of the longest sequence; saturated windows add 0."""
    bytes_per_step: int
    """One more token of every sequence."""
    per_sequence_bytes: int
    """The longest sequence alone, its state included."""
    groups: tuple[GroupPayload, ...]

    @property
    def total_bytes(self) -> int:
        """Entries and state together: what a device must hold."""
        return self.bytes + self.state_bytes


def payload(
    model: Model,
    workload: Workload,
    storage: Storage,
    *,
    tp: int = 1,
    block: int = 1,
    dcp: int = 1,
) -> Payload:
    """The payload of ``workload`` under ``model``, of the fullest rank when ``tp`` is above 1.

    Args:
        model: layer groups.
        workload: sequence lengths; a shared prefix is stored once.
        storage: element format of the cache. Its block size is not used here.
        tp: tensor-parallel ranks; heads are split, latent and index rows are not.
        block: tokens per page; sequences are rounded up to whole pages.
        dcp: context-parallel ranks over which tokens of full layers are split.
    """
    longest = workload.longest
    parts = dict.fromkeys(("k", "v", "latent", "index"), 0)
    scales = state_total = per_sequence = per_token = per_step = 0
    groups = []
    for group in model.groups:
        group_bytes = group_state = group_token = 0
        for stream in _streams(group):
            values, metadata = _row_set_bytes(stream.rows, storage, tp)
            entry_bytes = (values + metadata) * group.layers
            if stream.constant:
                held = stream.entries(longest) * entry_bytes
                group_state += held * workload.batch
                per_sequence += held
                continue
            entries = stored_entries(stream, workload, block, dcp)
            group_bytes += entries * entry_bytes
            scales += entries * metadata * group.layers
            for row in stream.rows:
                parts[row.part] += entries * group.layers * sum(_row_bytes(row, storage, tp))
            per_sequence += _rounded(stream, longest, block, dcp) * entry_bytes
            group_token += int(_growth(stream, longest) * entry_bytes)
            per_step += sum(
                int(_growth(stream, run.tokens) * entry_bytes) * run.count for run in workload.runs
            )
        state = group.layers * state_bytes(group, tp)
        group_state += state * workload.batch
        per_sequence += state
        state_total += group_state
        per_token += group_token
        groups.append(GroupPayload(group.kind, group.layers, group_bytes, group_state, group_token))
    return Payload(
        bytes=sum(part.bytes for part in groups),
        state_bytes=state_total,
        k_bytes=parts["k"],
        v_bytes=parts["v"],
        latent_bytes=parts["latent"],
        index_bytes=parts["index"],
        scale_bytes=scales,
        bytes_per_token=per_token,
        bytes_per_step=per_step,
        per_sequence_bytes=per_sequence,
        groups=tuple(groups),
    )


def held_bytes(
    model: Model,
    workload: Workload,
    storage: Storage,
    *,
    tp: int = 1,
    block: int = 1,
    dcp: int = 1,
) -> int:
    """Entries and state of ``payload`` alone, for searches that need nothing else."""
    total = 0
    for group in model.groups:
        for stream in _streams(group):
            values, metadata = _row_set_bytes(stream.rows, storage, tp)
            entries = (
                stream.entries(workload.longest) * workload.batch
                if stream.constant
                else stored_entries(stream, workload, block, dcp)
            )
            total += entries * (values + metadata) * group.layers
        total += group.layers * state_bytes(group, tp) * workload.batch
    return total


def read_bytes_per_step(
    model: Model, workload: Workload, storage: Storage, *, tp: int = 1, dcp: int = 1
) -> int:
    """Cache bytes one decode step must read once, state included.

    Shared prefixes are read once per sequence (only a cascade kernel would read them once).
    """
    total = 0
    for group in model.groups:
        for stream in _streams(group):
            values, metadata = _row_set_bytes(stream.rows, storage, tp)
            entries = sum(
                _share(stream, stream.read(run.tokens), dcp) * run.count for run in workload.runs
            )
            total += entries * (values + metadata) * group.layers
        total += group.layers * state_bytes(group, tp) * workload.batch
    return total


def write_bytes_per_step(model: Model, workload: Workload, storage: Storage, *, tp: int = 1) -> int:
    """Cache bytes one decode step writes: one entry a sequence and layer, and updated state.

    A saturated window still writes its entry (over the oldest), so this is not the growth.
    """
    total = 0
    for group in model.groups:
        for stream in _streams(group):
            if stream.constant or not stream.entries(workload.longest):
                continue
            values, metadata = _row_set_bytes(stream.rows, storage, tp)
            per_token = Fraction(values + metadata, stream.tokens_per_entry)
            total += int(per_token * group.layers * workload.batch)
        total += group.layers * state_bytes(group, tp) * workload.batch
    return total


def payload_formula(model: Model, workload: Workload, storage: Storage, result: int) -> Formula:
    """How ``result`` bytes of payload come about, one term per layer group that grows."""
    lengths = Lengths(workload.runs)
    terms = [term(group, lengths) for group in model.groups]
    terms = [one for one in terms if one.rule]
    kv = storage.kv
    size = "s" if kv.group is None else f"s({kv.name})"
    factor = (
        f"{kv.value_bits // 8}"
        if kv.group is None and kv.value_bits % 8 == 0
        else f"{kv.bits_per_value:g}/8"
        if kv.group
        else f"{kv.value_bits}/8 + {kv.scale_bytes} B a row"
    )
    rules = list(dict.fromkeys(f"{one.rule}·{size}" for one in terms))
    values = " + ".join(f"{one.values}·{factor}" for one in terms)
    if workload.shared_prefix:
        values += f" - {workload.batch - 1}·{workload.shared_prefix} shared tokens"
    return Formula(
        "payload.bytes",
        " + ".join(rules) or "0",
        f"{values or '0'} = {result:,} B",
        SEED,
    )


def stored_entries(stream: Stream, workload: Workload, block: int = 1, dcp: int = 1) -> int:
    """Entries of all sequences, a shared prefix counted once, each part in whole blocks."""
    if not workload.shared_prefix:
        return sum(_rounded(stream, run.tokens, block, dcp) * run.count for run in workload.runs)
    prefix = workload.shared_prefix // block * block
    own = 0
    shared: list[tuple[int, int]] = []
    for run in workload.runs:
        kept = stream.kept(run.tokens)
        beyond = sum(len(range(max(part.start, prefix), part.stop)) for part in kept)
        mine = _share(stream, beyond // stream.tokens_per_entry, dcp)
        own += _in_blocks(mine, block) * run.count
        shared += [(part.start, min(part.stop, prefix)) for part in kept if part.start < prefix]
    common = _share(stream, _union_length(shared) // stream.tokens_per_entry, dcp)
    return own + _in_blocks(common, block)


def _union_length(spans: list[tuple[int, int]]) -> int:
    """Positions covered by at least one of ``spans`` (start, stop)."""
    covered = reached = 0
    for start, stop in sorted(spans):
        covered += max(0, stop - max(start, reached))
        reached = max(reached, stop)
    return covered


def _rounded(stream: Stream, tokens: int, block: int, dcp: int) -> int:
    return _in_blocks(_share(stream, stream.entries(tokens), dcp), block)


def _share(stream: Stream, entries: int, dcp: int) -> int:
    """Entries of the fullest context-parallel rank."""
    return -(-entries // dcp) if stream.splits else entries


def _in_blocks(entries: int, block: int) -> int:
    return -(-entries // block) * block


def _growth(stream: Stream, tokens: int) -> Fraction:
    """Entries that one more token adds at this length, averaged over a compressed entry."""
    before = sum(len(part) for part in stream.kept(tokens))
    after = sum(len(part) for part in stream.kept(tokens + 1))
    return Fraction(after - before, stream.tokens_per_entry)


def _row_bytes(row: Row, storage: Storage, tp: int) -> tuple[int, int]:
    """Bytes of values and of scales of ``row``'s heads on one rank."""
    kv = storage.v if row.part == "v" and storage.v is not None else storage.kv
    tail = FORMATS[kv.tail] if kv.tail and row.tail else None
    width = row.width - (row.tail if tail else 0)
    kv.check_width("head width", width)
    heads = row.heads_per_rank(tp)
    apart = tail.row_bytes(row.tail) if tail else 0
    return heads * (kv.value_bytes(width) + apart), heads * kv.scales_bytes(width)


def entry_bytes(rows: tuple[Row, ...], storage: Storage, tp: int) -> int:
    """Bytes of one entry of ``rows`` in one layer on one of ``tp`` ranks, scales included."""
    return sum(_row_set_bytes(rows, storage, tp))


@lru_cache(maxsize=4096)
def _row_set_bytes(rows: tuple[Row, ...], storage: Storage, tp: int) -> tuple[int, int]:
    """Bytes of values and of scales of one entry in one layer."""
    values = scales = 0
    for row in rows:
        of_values, of_scales = _row_bytes(row, storage, tp)
        values += of_values
        scales += of_scales
    return values, scales


@lru_cache(maxsize=4096)
def state_bytes(group: LayerGroup, tp: int) -> int:
    """Bytes of one sequence's state in one layer of ``group``, on one of ``tp`` ranks."""
    return sum(
        element_format("state format", tensor.element_format).row_bytes(
            tensor.heads_per_rank(tp) * tensor.elements_per_head
        )
        for tensor in states(group)
    )
