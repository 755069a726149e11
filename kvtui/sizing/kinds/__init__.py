"""Layer kinds: importing this package registers every one of them, a line each."""

from kvtui.sizing.kinds import (
    compressed as compressed,
)
from kvtui.sizing.kinds import (
    cross as cross,
)
from kvtui.sizing.kinds import (
    full as full,
)
from kvtui.sizing.kinds import (
    latent as latent,
)
from kvtui.sizing.kinds import (
    recurrent as recurrent,
)
from kvtui.sizing.kinds import (
    window as window,
)
from kvtui.sizing.kinds.base import (
    Lengths,
    Row,
    StateTensor,
    Stream,
    Term,
    attention_flops,
    everything,
    states,
    streams,
    term,
)

__all__ = [
    "Lengths",
    "Row",
    "StateTensor",
    "Stream",
    "Term",
    "attention_flops",
    "everything",
    "states",
    "streams",
    "term",
]
