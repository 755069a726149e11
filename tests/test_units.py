"""Text to numbers and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtui.errors import InputError
from kvtui.units import (
    COUNT_MAX,
    count,
    format_bytes,
    format_ms,
    format_rate,
    parse_bytes,
    parse_bytes_per_s,
    parse_flop_per_s,
    parse_fraction,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("80GiB", 80 * 2**30),
        ("80 GB", 80 * 10**9),
        ("1.5TiB", 3 * 2**39),
        ("512mib", 512 * 2**20),
        ("0", 0),
        ("1024", 1024),
        ("143,771MiB", 143_771 * 2**20),
        ("7B", 7),
    ],
)
def test_sizes_are_read_with_their_unit(text: str, expected: int) -> None:
    """GiB are powers of 1024, GB powers of 1000, a bare number is bytes."""
    assert parse_bytes("memory", text) == expected


@pytest.mark.parametrize("text", ["80XB", "", "GiB", "-1GiB", "nan", "inf", "1e400GiB", "1 2", "G"])
def test_other_sizes_are_refused_by_name(text: str) -> None:
    """What is no size is refused with the field's name and the value."""
    with pytest.raises(InputError, match="memory is"):
        parse_bytes("memory", text)


@given(st.integers(1, 2**59))
def test_exact_sizes_survive_a_round_trip(size: int) -> None:
    """A number of bytes written out and read back is the same number."""
    assert parse_bytes("memory", f"{size}") == size
    assert parse_bytes("memory", f"{size:,}B") == size


@given(st.integers(1, 2**50))
def test_shown_sizes_are_close(size: int) -> None:
    """A shown size is within half a percent of the size, and a byte for parsing whole ones."""
    shown = parse_bytes("memory", format_bytes(size))
    assert abs(shown - size) <= 0.005 * size + 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2**31, "2.00 GiB"),
        (524_288, "512 KiB"),
        (589_824, "576 KiB"),
        (75_497_472_000, "70.3 GiB"),
        (-12_146_704_384, "-11.3 GiB"),
        (1023, "1023 B"),
        (2**30 - 1, "1.00 GiB"),
        (None, "n/a"),
    ],
)
def test_sizes_are_shown_in_binary_units(value: int | None, shown: str) -> None:
    """Memory is shown in the largest binary unit that keeps it at one or more."""
    assert format_bytes(value) == shown


def test_rates_and_times_are_shown_in_their_units() -> None:
    """Bandwidth is decimal GB/s; times take the unit that reads best; unknown is one spelling."""
    assert format_rate(3e12) == "3,000 GB/s"
    assert format_rate(None) == format_ms(None) == format_ms(float("nan")) == "n/a"
    assert format_ms(30.53) == "30.5 ms"
    assert format_ms(0.0123) == "12.3 µs"
    assert format_ms(31_000) == "31.0 s"


@pytest.mark.parametrize(
    "value", ["0", "-1", "1.5", "", "x", "1e3", True, 2.5, 2**40 + 1, "9" * 30]
)
def test_counts_are_whole_numbers_in_range(value: object) -> None:
    """Counts are whole numbers from 1 to 2^40 and anything else names the field and the range."""
    with pytest.raises(
        InputError, match=r"layers is .*; it must be a whole number from 1 to 2\^40"
    ):
        count("layers", value)


@given(st.integers(1, COUNT_MAX))
def test_counts_are_read_as_typed(value: int) -> None:
    """Every count in range is read, with or without thousands separators."""
    assert count("layers", f"{value}") == count("layers", f"{value:,}") == value


def test_rates_are_read_with_or_without_unit() -> None:
    """4.8TB/s, 3e12, 989TFLOPS and 90 % mean what they say."""
    assert parse_bytes_per_s("bandwidth", "4.8TB/s") == 4.8e12
    assert parse_bytes_per_s("bandwidth", "3e12") == 3e12
    assert parse_flop_per_s("flops", "989TFLOPS") == 989e12
    assert parse_flop_per_s("flops", "1e15") == 1e15
    assert parse_fraction("utilization", "90%") == parse_fraction("utilization", "0.9") == 0.9


@pytest.mark.parametrize("text", ["0", "1.1", "-0.5", "nan", "x", "101%"])
def test_shares_lie_above_0_and_at_most_1(text: str) -> None:
    """A utilization outside (0, 1] is refused."""
    with pytest.raises(InputError, match="utilization"):
        parse_fraction("utilization", text)
