"""Questions to the runtimes, typed as a user types them."""

from kvtui.sources.request import Request, scenario
from kvtui.spec import Scenario


def ask(**fields: object) -> Scenario:
    """The scenario of the typed ``fields``."""
    return scenario(Request(**{name: str(value) for name, value in fields.items()}))
