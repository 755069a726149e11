"""What is kept of the present run."""

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


def test_past_its_limit_it_gives_up_until_the_next_run() -> None:
    """Memory is bounded: a run too long is not kept at all, the next one is."""
    spool = Spool(limit_bytes=2000)
    count = 0
    while spool.whole:
        spool.add(Notice(topic="t", severity="info", sentence=f"{count}: {hash(str(count))}"))
        count += 1
        assert count < 10_000
    assert list(spool.data()) == []
    expected = [*opening(decode(10))]
    for record in expected:
        spool.add(record)  # type: ignore[arg-type]
    assert b"".join(spool.data()) == b"".join(encode(one) for one in expected)
