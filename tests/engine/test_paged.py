"""The paged cache: equality, isolation between sequences, copy-on-write, fragmentation."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtui.decode_run import GATHERING_BACKEND, DecodeRun
from kvtui.engine.attention import backend_name, dense_attention
from kvtui.engine.caches import check_cache
from kvtui.engine.caches.paged import DeviceTable, PagedCache
from kvtui.engine.decoder import Decoder
from kvtui.engine.pages import BlockTable
from kvtui.errors import InputError, RefusedError
from kvtui.spec import FullAttention, SlidingWindow

CPU = torch.device("cpu")
HEADS = {"layers": 2, "q_heads": 4, "k_width": 8, "v_width": 8}


@pytest.mark.parametrize("block", [1, 3, 16, 64])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_every_step_equals_recomputation(block: int, kv_heads: int) -> None:
    """Whatever the block size, a paged step gives what recomputing its prefix gives."""
    run = DecodeRun(
        groups=(FullAttention(kv_heads=kv_heads, **HEADS),), batch=2, start=7, target=40,
        cache="paged", block=block,
    )  # fmt: skip
    with torch.inference_mode():
        decoder = Decoder(run, torch.float32, CPU)
        x = decoder.inputs(run.batch, run.target, torch.Generator().manual_seed(3))
        for _ in decoder.fill(x[:, :4], slice(0, 2), 0):
            pass
        for _ in decoder.fill(x[:, 4:7], slice(0, 2), 4):
            pass
        decoder.filled(run.start)
        for position in range(run.start, run.target):
            step = decoder.step(x[:, position : position + 1], position)
            expected = decoder.recompute(x[:, : position + 1])
            torch.testing.assert_close(step, expected, rtol=1e-4, atol=1e-5)
    entry = 2 * 2 * kv_heads * 8 * 2 * 4
    assert decoder.held_bytes == 40 * entry
    blocks = -(-40 // block) * 2
    assert decoder.capacity_bytes == blocks * block * entry // 2


def test_long_sequences_are_merged_from_chunks() -> None:
    """More tokens than one chunk holds give the same attention as one contiguous cache."""
    outs = []
    for cache in ("contiguous", "paged"):
        run = DecodeRun(
            groups=(FullAttention(kv_heads=2, **HEADS),), batch=1, start=2500, target=2503,
            cache=cache, block=48,
        )  # fmt: skip
        with torch.inference_mode():
            decoder = Decoder(run, torch.float32, CPU)
            x = decoder.inputs(1, run.target, torch.Generator().manual_seed(3))
            for _ in decoder.fill(x[:, :2500], slice(0, 1), 0):
                pass
            decoder.filled(2500)
            outs.append(decoder.step(x[:, 2500:2501], 2500))
    torch.testing.assert_close(outs[0], outs[1], rtol=1e-5, atol=1e-6)


def test_windows_are_not_paged() -> None:
    """A window keeps its ring; asking for pages is refused by name."""
    run = DecodeRun(
        groups=(SlidingWindow(kv_heads=2, window=5, **HEADS),), batch=1, start=2, target=4,
        cache="paged",
    )  # fmt: skip
    with pytest.raises(InputError, match="cache is 'paged'"):
        check_cache(run)


def test_blocks_lie_in_shuffled_order() -> None:
    """Nothing may work by luck of adjacency: a sequence's blocks are not in order."""
    table = BlockTable(1, 64, 4, seed=7)
    table.extend(0, 256)
    assert table.ids(0) != sorted(table.ids(0))
    assert sorted(table.ids(0)) == list(range(64))


def test_a_full_pool_refuses() -> None:
    """Asking for more blocks than there are is refused, and what was held stays."""
    table = BlockTable(2, 3, 4)
    table.extend(0, 9)
    with pytest.raises(RefusedError, match="All 3 blocks"):
        table.extend(1, 1)
    assert len(table.ids(0)) == 3
    table.free(0)
    table.extend(1, 12)


def test_fragmentation_counts_empty_slots() -> None:
    """Two sequences of 5 tokens in blocks of 4 leave 6 slots of 4 blocks empty."""
    table = BlockTable(2, 10, 4)
    table.extend(0, 5)
    table.extend(1, 5)
    found = table.fragmentation()
    assert (found.used, found.empty_slots, found.shared) == (4, 6, 0)
    table.free(1)
    table.fork(0, 1, 5)
    assert table.fragmentation().shared == 2


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_sequence_reads_what_is_not_its_own(data: st.DataObject) -> None:
    """Random appends, forks and frees: every sequence always reads exactly its own history.

    Each token's K is its unique number, so a single value from another sequence would show.
    """
    sequences, block = 4, data.draw(st.integers(1, 5), label="block")
    table = BlockTable(sequences, 64, block, seed=data.draw(st.integers(0, 9), label="seed"))
    shared = DeviceTable(table, CPU)
    pools = [
        PagedCache(shared, sequences, 1, 1, 1, dtype=torch.float32, device=CPU) for _ in range(2)
    ]
    histories: list[list[float]] = [[] for _ in range(sequences)]
    number = 0.0
    for _ in range(data.draw(st.integers(1, 40), label="operations")):
        one = data.draw(st.integers(0, sequences - 1))
        action = data.draw(st.sampled_from(["append", "append", "append", "fork", "free"]))
        if action == "append":
            number += 1
            position = len(histories[one])
            table.extend(one, position + 1)
            copied = table.writable(one, position)
            for pool in pools:
                if copied is not None:
                    pool.copy_block(*copied)
                where = table.ids(one)[position // block], position % block
                pool.tensors[0][0, where[0], where[1]] = number
            histories[one].append(number)
        elif action == "fork":
            other = data.draw(st.integers(0, sequences - 1))
            if not histories[other] and histories[one] and other != one:
                length = data.draw(st.integers(1, len(histories[one])))
                table.fork(one, other, length)
                histories[other] = histories[one][:length]
        else:
            table.free(one)
            histories[one] = []
        for sequence, history in enumerate(histories):
            if not history:
                continue
            for pool in pools:
                keys, _ = pool._gathered(slice(sequence, sequence + 1), 0, len(history))
                assert keys.flatten().tolist() == history
    for sequence in range(sequences):
        table.free(sequence)
    assert table.fragmentation().used == 0


@pytest.mark.parametrize("batch", [1, 3])
def test_long_blocks_are_attended_to_where_they_lie(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 256 tokens a block nothing is gathered, and the answer is that of what was stored."""
    table = DeviceTable(BlockTable(batch, 4 * batch, 256, seed=5), CPU)
    shape = {"dtype": torch.float32, "device": CPU}
    cache = PagedCache(table, batch, 2, 16, 16, **shape)  # type: ignore[arg-type]
    made = torch.Generator().manual_seed(2)
    k, v = (torch.randn(batch, 2, 1000, 16, generator=made) for _ in range(2))
    q = torch.randn(batch, 8, 1, 16, generator=made)
    cache.fill(slice(0, batch), 0, k, v)
    cache.filled(1000)
    monkeypatch.delattr(PagedCache, "_gathered")
    out = cache.attend(q)
    torch.testing.assert_close(out, dense_attention(q, k, v), rtol=1e-5, atol=1e-6)


def test_only_short_blocks_are_flagged_as_gathered() -> None:
    """What the step asks of torch says whether pages are copied first."""
    for block, gathers in ((16, True), (255, True), (256, False), (1024, False)):
        asked = backend_name(CPU, latent=False, cache="paged", block=block)
        assert asked.startswith(GATHERING_BACKEND) is gathers
