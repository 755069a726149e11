"""The ideal runtime: the payload in whole pages and the states, nothing else.

What a paged cache of the given block size cannot do without; the yardstick that every engine's
reservation is compared with.
"""

from kvtui.sizing.rank import fullest_rank
from kvtui.spec import Scenario

NAME = "ideal"


def reserved_bytes(scenario: Scenario) -> int:
    """Bytes of entries in whole pages and of states, on the fullest rank."""
    return fullest_rank(scenario).reserved_bytes(scenario)
