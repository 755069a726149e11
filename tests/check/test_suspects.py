"""A proof that fails says why: each fault of the tutorial's list is put in, and found by name."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from kvtui.check.proofs import KINDS, equality, small_run
from kvtui.engine import layers
from kvtui.engine.attention import decode_attention as right_attention
from kvtui.engine.caches import base
from kvtui.engine.caches.contiguous import ContiguousCache
from kvtui.engine.rotary import Rotary

CPU = torch.device("cpu")
Attend = Callable[..., Tensor]
right_append = ContiguousCache.append


def failed(kind: str, dtype: str = "fp32") -> str:
    """What the failing proof of a contiguous cache says."""
    found = equality(small_run("contiguous", KINDS[kind], dtype), kind, CPU)
    assert found.status == "failed"
    return found.suspect


def one_head_further(self: ContiguousCache, k: Tensor, v: Tensor) -> None:
    """Append as it should be, to the wrong heads."""
    right_append(self, k.roll(1, 1), v.roll(1, 1))


def attending(monkeypatch: pytest.MonkeyPatch, wrong: Attend) -> None:
    """Let every decode step attend as ``wrong`` does."""
    monkeypatch.setattr(base, "decode_attention", wrong)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("kind", ["mha", "gqa", "mqa", "window", "sinks", "mla"])
def test_a_shifted_position_is_found(
    monkeypatch: pytest.MonkeyPatch, kind: str, dtype: str
) -> None:
    """A decode step three positions too far is told with the position it stands at."""
    right = Rotary.rotate

    def wrong(self: Rotary, x: Tensor, first: int, *more: Tensor) -> Tensor:
        return right(self, x, first + 3 if x.shape[1] == 1 else first, *more)

    monkeypatch.setattr(Rotary, "rotate", wrong)
    told = failed(kind, dtype)
    assert told == "position: K of token 8 is turned as at position 11, at T = 9"


def test_a_query_at_another_position_than_its_key_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With K in place, a query turned as at another position is found by trying them."""
    right = layers.HeadAttention.parts

    def wrong(self: layers.HeadAttention, h: Tensor, first: int, *more: Tensor) -> layers.Parts:
        q, k, v = right(self, h, first, *more)
        if h.shape[1] == 1:
            q = right(self, h, first - 1, *more)[0]
        return q, k, v

    monkeypatch.setattr(layers.HeadAttention, "parts", wrong)
    assert failed("gqa") == "position: q is turned as at position 7 instead of 8, at T = 9"


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["mha", "gqa", "window", "mla"])
def test_what_a_causal_flag_hides_at_one_query_is_found(
    monkeypatch: pytest.MonkeyPatch, kind: str, dtype: str
) -> None:
    """is_causal aligned at the top left lets one query see the first key alone."""
    attending(
        monkeypatch,
        lambda q, k, v, **more: right_attention(q, k[:, :, :1], v[:, :, :1], **more),
    )
    assert failed(kind, dtype) == "mask: the query sees token 0, not tokens 0-8, at T = 9"


def test_a_token_that_does_not_see_itself_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention over the cache of before the append leaves out the newest token."""
    attending(
        monkeypatch,
        lambda q, k, v, **more: right_attention(q, k[:, :, :-1], v[:, :, :-1], **more),
    )
    assert failed("gqa") == "mask: the query sees tokens 0-7, not tokens 0-8, at T = 9"


def test_slots_beyond_the_end_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeroed slots that take part in the softmax dilute it."""

    def wrong(q: Tensor, k: Tensor, v: Tensor, **more: float) -> Tensor:
        k, v = (torch.cat((rows, torch.zeros_like(rows[:, :, :3])), dim=2) for rows in (k, v))
        return right_attention(q, k, v, **more)  # type: ignore[arg-type]

    attending(monkeypatch, wrong)
    told = failed("gqa")
    assert told == "mask: the query sees 3 empty slots beside tokens 0-8, at T = 9"


def test_a_prompt_that_sees_its_future_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefill without the causal mask is caught at the prompt's first token."""

    def wrong(q: Tensor, k: Tensor, v: Tensor, **_: object) -> Tensor:
        out: Tensor = scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return out

    monkeypatch.setattr(layers, "prefill_attention", wrong)
    assert failed("gqa") == "mask: the query sees tokens 0-7, not token 0, at T = 1"


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_interleaved_heads_are_found(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """repeat in place of repeat_interleave sends query head i to KV head i mod Hkv."""

    def wrong(q: Tensor, k: Tensor, v: Tensor, **more: float) -> Tensor:
        heads = q.unflatten(1, (-1, k.shape[1])).transpose(1, 2).flatten(1, 2)
        out = right_attention(heads, k, v, **more)  # type: ignore[arg-type]
        back: Tensor = out.unflatten(1, (k.shape[1], -1)).transpose(1, 2).flatten(1, 2)
        return back

    attending(monkeypatch, wrong)
    told = failed("gqa", dtype)
    assert told.startswith("head mapping: query heads read KV heads [0, 1, 0, 1, 0, 1, 0, 1], not")


def test_rows_appended_under_other_heads_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """New keys and values written one head further lie under that head."""
    monkeypatch.setattr(ContiguousCache, "append", one_head_further)
    told = failed("gqa")
    assert told == "append axis: K of token 8, head 0 lies under head 1, at T = 9"


def test_values_apart_from_their_keys_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """V written to another slot than its K."""

    def wrong(self: ContiguousCache, k: Tensor, v: Tensor) -> None:
        right_append(self, k, v)
        last = self.tensors[1][:, :, self.seen - 2 : self.seen]
        last.copy_(last.flip(2))

    monkeypatch.setattr(ContiguousCache, "append", wrong)
    assert failed("gqa") == "append axis: K of token 7 lies in slot 7, its V in slot 8, at T = 9"


def test_a_lost_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that was never written is nowhere."""

    def wrong(self: ContiguousCache, k: Tensor, v: Tensor) -> None:
        right_append(self, k, torch.zeros_like(v))

    monkeypatch.setattr(ContiguousCache, "append", wrong)
    told = failed("gqa")
    assert told == "append axis: V of token 8, head 0 is nowhere in the cache, at T = 9"


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_a_format_too_narrow_is_found_and_named(
    monkeypatch: pytest.MonkeyPatch, narrow: torch.dtype
) -> None:
    """Rows that went through a narrower format are recognised by their very rounding."""
    monkeypatch.setattr(
        ContiguousCache,
        "append",
        lambda self, k, v: right_append(self, k.to(narrow).to(k.dtype), v.to(narrow).to(v.dtype)),
    )
    run = small_run("contiguous", KINDS["mha"], "fp32")
    found = equality(run, "mha", CPU)
    name = str(narrow).removeprefix("torch.")
    assert found.status == "failed"
    assert found.suspect.startswith(f"dtype: K is held as {name} rounds it")


def test_sums_in_a_narrow_format_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention computed in bf16 over right rows is told by the size of what is off."""
    attending(
        monkeypatch,
        lambda q, k, v, **more: right_attention(
            q.bfloat16(), k.bfloat16(), v.bfloat16(), **more
        ).to(q.dtype),
    )
    assert failed("gqa").startswith("dtype: q, K and V are right and the output is off by ")


def test_what_none_of_the_five_explains_accuses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores with another scale, or NaN, are on nobody's list: the order of suspects is given."""
    for factor in (1.2, float("nan")):
        attending(
            monkeypatch,
            lambda q, k, v, factor=factor, **more: right_attention(q * factor, k, v, **more),
        )
        told = failed("gqa")
        assert told.startswith("undetermined: T = 9")
        assert told.endswith("position id, causal mask, head mapping, append axis, dtype")


def test_a_right_run_accuses_nobody() -> None:
    """No suspect is named where every step is equal."""
    for kind, group in KINDS.items():
        assert equality(small_run("contiguous", group, "bf16"), kind, CPU).suspect == ""
