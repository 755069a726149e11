"""Pipes cut into lines: whole, in order, bounded."""

from hypothesis import given
from hypothesis import strategies as st

from kvtui.client.lines import Lines, Tail


async def drained(lines: Lines) -> list[bytes]:
    lines.end()
    found = []
    while (line := await lines.next()) is not None:
        found.append(line)
    return found


@given(st.lists(st.binary(max_size=40), max_size=20))
async def test_lines_do_not_depend_on_how_the_bytes_came(chunks: list[bytes]) -> None:
    """Whatever pieces a pipe delivers, the lines are those of the whole."""
    lines = Lines(1000)
    for chunk in chunks:
        lines.feed(chunk)
    whole = b"".join(chunks)
    assert await drained(lines) == _with_newlines(whole)


def _with_newlines(data: bytes) -> list[bytes]:
    *whole, last = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([last] if last else [])


async def test_an_overlong_line_is_dropped_and_the_next_is_whole() -> None:
    """A line beyond the limit is lost alone, however it arrives."""
    lines = Lines(10)
    for chunk in (b"a\n", b"x" * 8, b"x" * 8, b"x\nb\n", b"y" * 11 + b"\nc\n"):
        lines.feed(chunk)
    assert await drained(lines) == [b"a\n", b"b\n", b"c\n"]


async def test_a_flood_pauses_the_pipe_until_it_is_read() -> None:
    """Held bytes are bounded: pause when too much waits, go on when half of it is read."""
    asked: list[bool] = []
    lines = Lines(2**20)
    lines.throttle(asked.append)
    for _ in range(5):
        lines.feed(b"x" * (2**20 - 1) + b"\n")
    assert asked == [True]
    for _ in range(3):
        await lines.next()
    assert asked == [True, False]


async def test_what_comes_after_the_end_is_ignored() -> None:
    """A grandchild that still writes adds nothing; ending twice is harmless."""
    lines = Lines(100)
    lines.feed(b"a\ntorn")
    assert await drained(lines) == [b"a\n", b"torn"]
    lines.feed(b"late\n")
    assert await drained(lines) == []


def test_a_tail_keeps_the_last_lines_across_pieces() -> None:
    """The tail is bounded in lines and in width; a line in two pieces is one line."""
    tail = Tail()
    for number in range(200):
        tail.feed(f"line {number}".encode())
        tail.feed(b"\r\n\n")
    tail.feed("\N{LATIN SMALL LETTER E WITH ACUTE}".encode()[:1])
    tail.feed("\N{LATIN SMALL LETTER E WITH ACUTE}".encode()[1:] + b"\x1b[31mred")
    kept = tail.lines()
    assert kept[-2:] == ["line 199", "\N{LATIN SMALL LETTER E WITH ACUTE} [31mred"]
    assert len(kept) == 51
    tail.feed(b"z" * 10**6)
    assert max(map(len, tail.lines())) <= 4096
