"""A number's own account of itself: the rule, the rule with values, and where it was read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Formula:
    """What stands behind one number of an answer."""

    name: str
    """Key of the number in ``size --json``, such as ``payload.bytes``."""
    rule: str
    values: str
    """The rule with this scenario's values substituted, and its result."""
    source: str

    def __str__(self) -> str:
        """One line: rule = values."""
        return f"{self.rule} = {self.values}" if self.rule else self.values
