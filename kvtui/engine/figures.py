"""What is known of one decode step. No torch here: whoever publishes steps needs none."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepFigures:
    """One measured step."""

    index: int
    """Counted from 1."""
    tokens: int
    """Cache length per sequence after it."""
    held_bytes: int
    """Bytes of the filled cache entries after it."""
    device_ns: int
    wall_ns: int
    kv_bytes: int
    """Cache bytes read once, plus those appended."""
    weight_bytes: int
