"""What is kept of the present run."""

import random

from kvtui.client.spool import Spool
from kvtui.records import Notice, encode
from tests.client.recordings import decode, opening


def test_it_gives_back_the_present_run_and_nothing_of_the_last() -> None:
    """Lines come back as they were, again and again, from the question on."""
    spool = Spool()
    spool.add(Notice(topic="t", severity="info", sentence="before any run"))
    for number in (1, 2):
        expected = [*opening(decode(10), number)]
        for record in expected:
            spool.add(record)  # type: ignore[arg-type]
        for _ in range(2):
            assert b"".join(spool.data()) == b"".join(encode(one) for one in expected)


def test_past_its_limit_it_keeps_the_beginning_until_the_next_run() -> None:
    """Memory is bounded: of a run too long the first lines are kept, of the next one all again."""
    spool = Spool(limit_bytes=20_000)
    chance, said = random.Random(1), []
    for _ in range(10_000):
        said.append(Notice(topic="t", severity="info", sentence=f"{chance.random()}"))
        spool.add(said[-1])
    assert not spool.whole
    kept = b"".join(spool.data()).splitlines(keepends=True)
    assert 10 < len(kept) < 10_000
    assert kept == [encode(one) for one in said[: len(kept)]]
    expected = [*opening(decode(10))]
    for record in expected:
        spool.add(record)  # type: ignore[arg-type]
    assert b"".join(spool.data()) == b"".join(encode(one) for one in expected)
