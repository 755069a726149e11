"""Each rule at both sides of its threshold; what is unknown flags nothing."""

import pytest

from kvtui.session import flag_rules
from kvtui.session.flag_rules import Flag


@pytest.mark.parametrize(
    ("quiet", "flagged", "name"),
    [
        (flag_rules.resident(500, 100), flag_rules.resident(499, 100), "L2-RESIDENT"),
        (flag_rules.beyond_limit(1.0), flag_rules.beyond_limit(1.01), "L2-RESIDENT"),
        (flag_rules.host_bound(1.0, 0.86), flag_rules.host_bound(1.0, 0.84), "HOST-BOUND"),
        (
            flag_rules.compute_bound(100, 206, 1),
            flag_rules.compute_bound(104, 206, 1),
            "COMPUTE-BOUND",
        ),
        (flag_rules.launch_bound(0.1, 10), flag_rules.launch_bound(0.09, 10), "HOST-BOUND"),
        (flag_rules.throttled([]), flag_rules.throttled(["power cap"]), "THROTTLED"),
        (flag_rules.drifted(100, 91), flag_rules.drifted(89, 100), "CONTENDED"),
        (flag_rules.spread(1.15), flag_rules.spread(1.16), "CONTENDED"),
        (flag_rules.waited(1.15, 1.0), flag_rules.waited(1.16, 1.0), "CONTENDED"),
        (flag_rules.other_processes(0), flag_rules.other_processes(1), "CONTENDED"),
        (flag_rules.busy(1.0, 2), flag_rules.busy(1.1, 2), "CONTENDED"),
        (flag_rules.padded(8, 8), flag_rules.padded(64, 8), "PADDED"),
        (flag_rules.expanded(None), flag_rules.expanded("It copies."), "EXPANDED"),
        (flag_rules.partial(mig=False), flag_rules.partial(mig=True), "PARTIAL-GPU"),
        (flag_rules.underfilled(132, 132), flag_rules.underfilled(8, 132), "UNDERFILLED"),
        (flag_rules.unified(shared=False), flag_rules.unified(shared=True), "UNIFIED"),
    ],
)
def test_a_rule_flags_beyond_its_threshold_only(
    quiet: Flag | None, flagged: Flag | None, name: str
) -> None:
    """At the threshold nothing is said; beyond it there is the flag and a sentence."""
    assert quiet is None
    assert flagged is not None
    assert flagged.name == name
    assert flagged.sentence.endswith(".")


def test_what_is_unknown_flags_nothing() -> None:
    """No rule guesses: without a cache size, a limit or a clock there is no flag."""
    assert flag_rules.resident(None, 100) is flag_rules.resident(1, None) is None
    assert flag_rules.beyond_limit(None) is flag_rules.spread(None) is None
    assert flag_rules.host_bound(None, 1.0) is flag_rules.host_bound(1.0, None) is None
    assert flag_rules.compute_bound(1e6, None, 1.0) is flag_rules.busy(None, 1) is None
    assert flag_rules.drifted(None, 1.0) is flag_rules.underfilled(1, None) is None
    assert flag_rules.partial(mig=None) is flag_rules.unified(shared=None) is None


def test_memory_below_its_maximum_clock_is_a_reason() -> None:
    """A card that computes at a lower memory clock than its table says so in words."""
    assert flag_rules.slow_memory(9251, 9501) == "memory at 9251 of 9501 MHz"
    assert flag_rules.slow_memory(9501, 9501) is flag_rules.slow_memory(None, 9501) is None


def test_a_limit_that_no_such_board_has_is_said() -> None:
    """Above 1.02 or below half of the tabled peak, table and device do not go together."""
    assert flag_rules.implausible(4.4e12, 4.8e12) is None
    assert "another board" in (flag_rules.implausible(5.0e12, 4.8e12) or "")
    assert "another board" in (flag_rules.implausible(1.0e12, 4.8e12) or "")
    assert flag_rules.implausible(None, 4.8e12) is None


def test_a_probe_inside_the_cache_is_said() -> None:
    """A limit read from less than five caches is partly the cache's own."""
    assert flag_rules.shallow(500, 100) is None
    assert flag_rules.shallow(500, None) is None
    assert "partly that of the cache" in (flag_rules.shallow(499, 100) or "")
