"""The fullest rank: which layers, sequences and heads one device holds.

Tensor parallelism splits heads (at least one each), pipeline stages split layers and each hold
them for every sequence in flight, attention data parallelism splits sequences, decode context
parallelism splits the tokens of full-attention layers. Latent and index rows are split by none but
the last (as vLLM and SGLang spread them).
"""

from dataclasses import dataclass, replace

from kvtui.sizing.kinds import streams
from kvtui.sizing.payload import held_bytes, payload
from kvtui.spec import Model, Scenario, SequenceRun, Workload


@dataclass(frozen=True, slots=True)
class Rank:
    """What one device answers for."""

    model: Model
    """The layers of its stage."""
    workload: Workload
    """The sequences it holds."""
    tp: int
    """Ranks that share the heads of one sequence."""
    dcp: int
    draft: Model | None = None
    """A draft model is held whole by every stage that speculates."""

    def reserved_bytes(self, scenario: Scenario) -> int:
        """Entries in whole blocks and states, on this rank.

        With speculation each sequence reserves its lookahead slots, and a draft model keeps a
        cache of its own; prompts in flight hold their tokens too.
        """
        workload = reserving(self.workload)
        return sum(
            held_bytes(
                model,
                workload,
                scenario.storage,
                tp=self.tp,
                block=scenario.storage.block,
                dcp=self.dcp,
            )
            for model in (self.model, self.draft)
            if model is not None
        )


def fullest_rank(scenario: Scenario) -> Rank:
    """The rank that holds most: longest stage, first of the data-parallel groups."""
    parallel = scenario.parallel
    return Rank(
        stage_model(scenario.model, max(stage_layers(scenario), default=0)),
        _share_of(scenario.workload, parallel.dp_attention),
        parallel.attention_tp,
        parallel.dcp,
        scenario.draft,
    )


def block_bytes(scenario: Scenario) -> int | None:
    """Bytes of one block of tokens in all layers of the fullest rank.

    None where layers do not all keep every token: then a block is not one size.
    """
    rank = fullest_rank(scenario)
    kept = [
        stream for group in rank.model.groups for stream in streams(group) if not stream.constant
    ]
    if not kept or not all(stream.splits for stream in kept):
        return None
    block = scenario.storage.block
    one = replace(rank.workload, runs=(SequenceRun(block * rank.dcp, 1),), shared_prefix=0)
    entries = payload(rank.model, one, scenario.storage, tp=rank.tp, dcp=rank.dcp)
    return entries.bytes


def stage_layers(scenario: Scenario) -> tuple[int, ...]:
    """Layers of each pipeline stage: as typed, else evenly, the first stages one longer."""
    parallel, layers = scenario.parallel, scenario.model.layers
    if parallel.stage_layers:
        return parallel.stage_layers
    least, longer = divmod(layers, parallel.pp)
    return tuple(least + (stage < longer) for stage in range(parallel.pp))


def stage_model(model: Model, layers: int) -> Model:
    """``model`` with ``layers`` of its layers, each group by its share, rounded up.

    The order of layers within a hybrid is not kept, so a stage is taken to hold its share of
    every kind.
    """
    if layers >= model.layers:
        return model
    groups = tuple(
        replace(group, layers=-(-group.layers * layers // model.layers)) for group in model.groups
    )
    return replace(model, groups=groups)


def reserving(workload: Workload) -> Workload:
    """``workload`` with its lookahead slots and the prompts in flight as sequences."""
    if not workload.lookahead and not workload.in_flight:
        return workload
    runs = [SequenceRun(run.tokens + workload.lookahead, run.count) for run in workload.runs]
    prefix = workload.shared_prefix
    if workload.in_flight:
        runs.append(SequenceRun(workload.in_flight, 1))
        prefix = min(prefix, workload.in_flight)
    return replace(workload, runs=tuple(runs), shared_prefix=prefix)


def _share_of(workload: Workload, ranks: int) -> Workload:
    """Sequences of the first of ``ranks``, dealt out longest first."""
    if ranks == 1:
        return workload
    runs, seen = [], 0
    for run in sorted(workload.runs, key=lambda one: -one.tokens):
        # Of positions seen .. seen+count-1 every ranks-th, counted from 0, is ours.
        ours = -(-(seen + run.count) // ranks) - -(-seen // ranks)
        seen += run.count
        if ours:
            runs.append(SequenceRun(run.tokens, ours))
    return replace(workload, runs=tuple(runs))
