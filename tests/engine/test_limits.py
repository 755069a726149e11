"""The read and the copy probe: how much they move, and that they move it."""

import pytest
import torch

from kvtui.engine import limits, memory

CPU = torch.device("cpu")
MIB = 2**20


@pytest.mark.parametrize(
    ("available", "cache", "expected"),
    [
        (2**40, None, 512 * MIB),
        (2**40, 32 * MIB, 512 * MIB),
        (2**40, 480 * MIB, 8 * 480 * MIB),
        (1024 * MIB, 480 * MIB, 256 * MIB),
    ],
)
def test_the_probe_is_larger_than_caches_and_smaller_than_memory(
    monkeypatch: pytest.MonkeyPatch, available: int, cache: int | None, expected: int
) -> None:
    """At least 512 MiB and 8 times the cache, at most a quarter of what is available."""
    monkeypatch.setattr(memory, "available_bytes", lambda device: available)
    assert limits.probe_bytes(CPU, cache) == expected


def test_the_probe_says_what_it_read() -> None:
    """The rate is that of a plausible memory, over the bytes asked for."""
    rate, read = limits.read_bytes_per_s(CPU, 16 * MIB)
    assert read == 16 * MIB
    assert 1e8 < rate < 1e13


def test_the_probe_stops_mapping_when_it_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where first touch is slow, the figure says the smaller size that was read."""
    monkeypatch.setattr(limits, "_TOUCH_NS", 0)
    _, read = limits.read_bytes_per_s(CPU, 256 * MIB, passes=1)
    assert read == 64 * MIB


def test_a_cpu_has_no_allocator_figures() -> None:
    """On a CPU the resident set is known and the allocator's figures are not."""
    found = memory.readout(CPU)
    assert found.resident_bytes is not None
    assert found.resident_bytes > MIB
    assert found.allocated_bytes is found.reserved_bytes is found.device_total_bytes is None


def test_a_probe_reads_and_copies_one_buffer() -> None:
    """A copy counts both directions of half the buffer, and both rates are plausible."""
    probe = limits.Probe(CPU, 16 * MIB)
    assert probe.read_bytes == probe.copy_bytes == 16 * MIB
    assert 1e8 < probe.read_bytes_per_s(passes=2) < 1e13
    assert 1e8 < probe.copy_bytes_per_s(passes=2) < 1e13


def test_a_copy_leaves_the_first_half_in_the_second() -> None:
    """What the copy probe times is a copy of every element."""
    probe = limits.Probe(CPU, MIB)
    half = probe._buffer.numel() // 2
    probe._buffer[:half] = torch.arange(half, dtype=torch.float32)
    probe.copy_ns()
    assert torch.equal(probe._buffer[:half], probe._buffer[half:])
