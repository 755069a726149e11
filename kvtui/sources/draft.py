"""A model being put together layer by layer: what each caches, and which weights it has.

Families add layers and weights in the order of the architecture; equal ones are counted
together. Weight shapes are ``(rows, row width)``: a row is what one output is computed from.
"""

from dataclasses import replace

from kvtui.sources.facts import Facts
from kvtui.spec import LayerGroup, ParameterBlock, Role

_Key = tuple[str, Role, tuple[int, ...], bool]


class Draft:
    """Layer groups and parameter blocks of one model."""

    def __init__(self, facts: Facts) -> None:
        """Start empty; ``facts`` are what families read."""
        self.facts = facts
        self.weights_known = True
        self._layers: dict[LayerGroup, int] = {}
        self._copies: dict[_Key, int] = {}
        self._active: dict[_Key, int] = {}

    @property
    def groups(self) -> tuple[LayerGroup, ...]:
        """Equal layers counted together, in the order they first appear."""
        return tuple(replace(group, layers=count) for group, count in self._layers.items())

    @property
    def parameters(self) -> tuple[ParameterBlock, ...]:
        """Equal blocks counted together; empty where the weights are not known."""
        if not self.weights_known or self.facts.missing_for_weights:
            return ()
        return tuple(
            ParameterBlock(
                name,
                role,
                shape,
                copies,
                self._active[key] if self._active[key] != copies else None,
                sharded,
            )
            for key, copies in self._copies.items()
            for name, role, shape, sharded in (key,)
        )

    def cache(self, layer: LayerGroup) -> None:
        """Add one layer that caches like ``layer`` (whose own count is one)."""
        self._layers[layer] = self._layers.get(layer, 0) + 1

    def weight(
        self,
        name: str,
        role: Role,
        *shape: int,
        copies: int = 1,
        active: int | None = None,
        sharded: bool = True,
    ) -> None:
        """Add ``copies`` tensors, ``active`` of which a token passes through (None: all)."""
        if not copies or 0 in shape:
            return
        key = (name, role, shape, sharded)
        self._copies[key] = self._copies.get(key, 0) + copies
        self._active[key] = self._active.get(key, 0) + (copies if active is None else active)

    def linear(
        self,
        name: str,
        role: Role,
        outputs: int,
        inputs: int,
        *,
        bias: bool = False,
        sharded: bool = True,
    ) -> None:
        """Add a matrix ``[outputs, inputs]`` and, with ``bias``, a vector ``[outputs]``."""
        self.weight(name, role, outputs, inputs, sharded=sharded)
        if bias:
            self.weight(f"{name} bias", role, outputs, sharded=sharded)

    def norm(self, name: str, *shape: int, copies: int = 1, bias: bool = False) -> None:
        """Add norm weights of ``shape`` (and biases), whole on every rank."""
        self.weight(name, "norm", *shape, copies=copies * (2 if bias else 1), sharded=False)

    def embedding(self, *, rows: int | None = None, width: int | None = None) -> None:
        """Add the token table ``[vocabulary, hidden]``."""
        facts = self.facts
        self.weight("token embedding", "embedding", rows or facts.vocabulary, width or facts.hidden)

    def head(self, *, tied: bool, rows: int | None = None, width: int | None = None) -> None:
        """Add the output matrix, unless it is the token table itself.

        ``tied`` is the class default where the file does not say.
        """
        facts = self.facts
        if not facts.flag("tie_word_embeddings", default=tied):
            self.weight("head", "head", rows or facts.vocabulary, width or facts.hidden)

    def mlp(
        self,
        inner: int,
        *,
        gated: bool = True,
        bias: bool = False,
        name: str = "mlp",
        hidden: int | None = None,
    ) -> None:
        """Add a dense MLP: up (and gate) ``[inner, hidden]``, down ``[hidden, inner]``."""
        width = hidden or self.facts.hidden
        for part in ("gate", "up") if gated else ("up",):
            self.linear(f"{name} {part}", "mlp", inner, width, bias=bias)
        self.linear(f"{name} down", "mlp", width, inner, bias=bias)

    def experts(
        self,
        number: int,
        active: int,
        inner: int,
        *,
        gated: bool = True,
        bias: bool = False,
        router_bias: bool = False,
        hidden: int | None = None,
    ) -> None:
        """Add ``number`` routed experts, ``active`` of them a token, and their router."""
        width = hidden or self.facts.hidden
        active = min(active, number)
        ways = 2 if gated else 1
        for name, *shape in (
            ("expert up", inner, width),
            *((("expert up bias", inner),) if bias else ()),
        ):
            self.weight(name, "expert", *shape, copies=ways * number, active=ways * active)
        for name, *shape in (
            ("expert down", width, inner),
            *((("expert down bias", width),) if bias else ()),
        ):
            self.weight(name, "expert", *shape, copies=number, active=active)
        self.linear("router", "router", number, self.facts.hidden, bias=router_bias, sharded=False)
