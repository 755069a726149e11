"""The fixed cases: one line each here, one function each in the modules beside."""

from collections.abc import Sequence
from typing import Final

from kvtui.bench.case import Case
from kvtui.bench.cases import controls, dense, layouts, waste
from kvtui.errors import InputError

CASES: Final = (
    Case(name="probe", shows="the read and copy limit", groups=controls.probe),
    Case(name="gqa-long", shows="bandwidth over length", groups=dense.gqa_long),
    Case(name="gqa-batch", shows="many sequences: the best ratio", groups=dense.gqa_batch),
    Case(name="mha", shows="the most bytes a FLOP", groups=dense.mha),
    Case(name="tp-slice", shows="one KV head: little to do in parallel", groups=dense.tp_slice),
    Case(name="mla", shows="latent rows: from bandwidth to compute", groups=layouts.mla),
    Case(name="cat-vs-inplace", shows="what torch.cat costs", groups=waste.cat_vs_inplace),
    Case(name="repeat-vs-fold", shows="one read of K and V, or g", groups=waste.repeat_vs_fold),
    Case(name="mask-vs-slice", shows="what a padded cache costs", groups=waste.mask_vs_slice),
    Case(name="paged", shows="what pages cost", groups=layouts.paged),
    Case(name="window", shows="flat in T", groups=layouts.window),
    Case(name="sink", shows="the same with sinks", groups=layouts.sink),
    Case(name="quant", shows="bytes saved, time saved", groups=layouts.quant),
    Case(name="kernel", shows="our CPU kernel beside SDPA", groups=dense.kernel, only="cpu"),
    Case(name="graph", shows="what launches cost", groups=controls.graph, only="cuda"),
    Case(name="l2-control", shows="that the flag works", groups=controls.l2_control),
    Case(
        name="instrumentation",
        shows="what measuring a step costs",
        groups=controls.instrumentation,
    ),
    Case(
        name="soak",
        shows="a minute: clocks, power, drift",
        groups=controls.soak,
        asked=True,
        seconds=60.0,
    ),
)
"""In the order they run; a case takes a few seconds on a CPU."""


def chosen(names: str | None) -> Sequence[Case]:
    """The cases in ``names``, in the order of the table; all but the asked-only ones when None.

    Raises:
        InputError: a name that is none.
    """
    if names is None:
        return [case for case in CASES if not case.asked]
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = [case.name for case in CASES]
    for name in wanted:
        if name not in known:
            raise InputError("cases", name, f"some of {', '.join(known)}")
    if not wanted:
        raise InputError("cases", names, f"some of {', '.join(known)}")
    return [case for case in CASES if case.name in wanted]
