"""What sizing says of a run at a length: the figures that stand beside what the engine counts."""

from collections import Counter

from kvtui.decode_run import DecodeRun
from kvtui.dtypes import element_format
from kvtui.sizing.payload import held_bytes, read_bytes_per_step, write_bytes_per_step
from kvtui.spec import Model, SequenceRun, Storage, Workload


def predicted_kv_bytes(run: DecodeRun, tokens: int) -> int:
    """What sizing says ``run`` holds at ``tokens`` per sequence: filled entries, whole model."""
    if not tokens:
        return 0
    return held_bytes(_model(run), _workload(run, tokens), _storage(run))


def step_kv_bytes(run: DecodeRun, tokens: int) -> int:
    """What sizing says one step of ``run`` moves at ``tokens``: read once, one entry written."""
    model, workload, storage = _model(run), _workload(run, tokens), _storage(run)
    return read_bytes_per_step(model, workload, storage) + write_bytes_per_step(
        model, workload, storage
    )


def _model(run: DecodeRun) -> Model:
    return Model(name="run", groups=run.stored_groups)


def _workload(run: DecodeRun, tokens: int) -> Workload:
    """The sequences of ``run`` when the longest has ``tokens``."""
    behind = Counter(run.behind) or {0: run.batch}
    runs = tuple(SequenceRun(tokens - less, count) for less, count in behind.items())
    return Workload(runs=runs, shared_prefix=run.whole_block_prefix)


def _storage(run: DecodeRun) -> Storage:
    return Storage(kv=element_format("dtype", run.dtype))
