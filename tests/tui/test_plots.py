"""Drawing objects, without a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from kvtui.history import Extent
from kvtui.tui.palette import ASCII, UNICODE
from kvtui.tui.plots import Curve, Part, line_plot, row_of, stacked_bar, strip


@given(
    st.lists(st.floats(0, 1e12), min_size=1, max_size=5),
    st.floats(1, 1e12),
    st.integers(3, 200),
)
def test_a_bar_is_as_wide_as_asked(values: list[float], total: float, width: int) -> None:
    """Whatever its parts, a stacked bar fills exactly its width."""
    parts = [Part(value, "#", "") for value in values]
    assert stacked_bar(parts, total, width, ASCII).cell_len == width


def test_a_bar_shows_every_part_and_says_when_it_is_over() -> None:
    """A tiny part still gets a cell, and parts beyond the total end in an arrow."""
    bar = stacked_bar([Part(1, "a", ""), Part(1e9, "b", "")], 2e9, 42, ASCII).plain
    assert bar.count("a") == 1
    assert 18 <= bar.count("b") <= 21
    assert stacked_bar([Part(3, "a", "")], 2, 10, ASCII).plain == "[aaaaaaaa>"


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=80),
    st.integers(1, 40),
    st.integers(1, 12),
    st.sampled_from([ASCII, UNICODE]),
)
def test_a_plot_is_as_large_as_asked(
    values: list[float], width: int, height: int, glyphs: object
) -> None:
    """A line plot fills its cells and never fails, whatever the values."""
    curve = Curve([Extent(value, value) for value in values], "")
    lines = line_plot([curve], width, height, 0.0, 100.0, glyphs)  # type: ignore[arg-type]
    assert len(lines) == height
    assert all(line.cell_len == width for line in lines)


def test_a_rising_line_rises() -> None:
    """The first column of a rising curve is dotted at the bottom, the last at the top."""
    rising = Curve([Extent(float(x), float(x)) for x in range(10)], "")
    lines = [line.plain for line in line_plot([rising], 10, 10, 0.0, 9.0, ASCII)]
    assert lines[0][-1] == "*"
    assert lines[-1][0] == "*"
    assert [line.index("*") for line in reversed(lines)] == sorted(
        line.index("*") for line in lines
    )


def test_gaps_stay_gaps() -> None:
    """Columns without a value draw nothing."""
    gap = Curve([Extent(1.0, 1.0), Extent(None, None), Extent(1.0, 1.0)], "")
    assert line_plot([gap], 3, 1, 0.0, 1.0, ASCII)[0].plain == "* *"


def test_a_strip_is_empty_where_nothing_was_measured() -> None:
    """A strip has a block for each column with a value and a blank for each without."""
    extents = [Extent(1.0, 1.0), Extent(None, None), Extent(0.0, 2.0)]
    (line,) = strip(extents, 0.0, 2.0, "", UNICODE)
    assert line.plain == "▄ █"


def test_a_strip_of_two_rows_rises_through_both() -> None:
    """A value in the upper half fills the lower row; the least value still shows."""
    extents = [Extent(0.0, 0.0), Extent(1.0, 1.0), Extent(1.5, 1.5), Extent(2.0, 2.0)]
    upper, lower = strip(extents, 0.0, 2.0, "", UNICODE, 2)
    assert lower.plain == "▁███"
    assert upper.plain == "  ▄█"


def test_a_filled_curve_reaches_the_floor() -> None:
    """Everything below a filled curve is drawn, and nothing above it."""
    filled = Curve([Extent(float(x), float(x)) for x in range(4)], "", filled=True, mark="#")
    lines = [line.plain for line in line_plot([filled], 4, 4, 0.0, 3.0, ASCII)]
    assert lines == ["   #", "  ##", " ###", "####"]


def test_a_dotted_curve_leaves_columns_out() -> None:
    """Every third column of a dotted curve is drawn."""
    dotted = Curve([Extent(1.0, 1.0)] * 7, "", every=3, mark="-")
    assert line_plot([dotted], 7, 1, 0.0, 1.0, ASCII)[0].plain == "-  -  -"


def test_a_steep_curve_has_no_holes() -> None:
    """Columns far apart in height are joined."""
    steep = Curve([Extent(0.0, 0.0), Extent(9.0, 9.0)], "")
    lines = [line.plain for line in line_plot([steep], 2, 10, 0.0, 9.0, ASCII)]
    assert all("*" in line for line in lines)


def test_a_label_stands_beside_what_it_names() -> None:
    """The row told for a value is the row its curve is drawn in."""
    for glyphs in (ASCII, UNICODE):
        for value in (0.0, 2.5, 5.0, 10.0):
            drawn = line_plot([Curve([Extent(value, value)], "")], 1, 7, 0.0, 10.0, glyphs)
            (at,) = [index for index, line in enumerate(drawn) if line.plain.strip()]
            assert row_of(value, 0.0, 10.0, 7, glyphs) == at
