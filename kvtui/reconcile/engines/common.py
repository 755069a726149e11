"""Findings that every engine's log shares: weights, and bytes of a pool of tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from kvtui.reconcile.case import Case, PerToken, weight_guesses
from kvtui.reconcile.findings import Finding, Hypothesis, measured, settled
from kvtui.reconcile.readings import Reading
from kvtui.units import format_bytes

_WEIGHT_SLACK: Final = 0.01
"""Engines hold buffers beside the parameters and pad vocabularies: a hundredth is not news."""


def weights_finding(figure: str, reading: Reading, found: Case | None) -> Finding:
    """Weights as loaded against parameters times their format."""
    guesses = () if found is None else tuple(weight_guesses(found))
    if not guesses:
        return measured(figure, reading, "weights as loaded; without a model nothing predicts them")
    finding = settled(
        figure,
        reading,
        "bytes",
        [
            Hypothesis(one.bytes, one.words, one.bytes * _WEIGHT_SLACK, one.assumes)
            for one in guesses
        ],
    )
    if finding.status != "explained" or finding.predicted is None:
        return finding
    apart = reading.value - finding.predicted
    return _said(finding, f"{_apart(apart)}: buffers, padding, rounding")


def tokens_finding(
    figure: str,
    tokens: Reading,
    pool: Reading,
    per: Iterator[PerToken],
    *,
    page: int,
    ranks: int = 1,
    rule: str,
) -> Finding:
    """Tokens that a pool of bytes holds in whole pages.

    Args:
        figure: what the engine calls them.
        tokens: the printed count.
        pool: the bytes they are cut from.
        per: bytes of a token, the plain assumption first.
        page: tokens of one page.
        ranks: context-parallel ranks that each hold a part of every sequence.
        rule: where the rule is from.
    """
    hypotheses = [
        Hypothesis(
            int(pool.value // (one.bytes * page)) * page * ranks,
            f"{pool.printed} / {one.words}, in whole pages of {page}"
            + (f", × {ranks} context-parallel ranks" if ranks > 1 else "")
            + f" ({rule})",
            # The pool is known to half a digit, and the count to a page.
            (pool.half / one.bytes + page) * ranks,
            one.assumes,
        )
        for one in per
        if one.bytes
    ]
    gb = hypotheses[0]
    decimal = gb.predicted * 1e9 / 2**30
    hypotheses.append(
        Hypothesis(decimal, gb.words, gb.slack, "the pool is printed in GB of 10^9, not in GiB")
    )
    return settled(figure, tokens, "tokens", hypotheses)


def pool_finding(
    figure: str,
    pool: Reading,
    tokens: float,
    per: Sequence[tuple[float, str, str]],
    *,
    spare: int = 0,
    spare_words: str = "",
) -> Finding:
    """Bytes of a pool of ``tokens``, with ``spare`` tokens beside them or without.

    Args:
        figure: what the engine calls it.
        pool: the printed bytes.
        tokens: slots of the pool.
        per: bytes a token, its rule, and what that assumes.
        spare: tokens that the engine allocates beside those it hands out.
        spare_words: what they are for.
    """
    hypotheses = []
    for one, words, assumes in per:
        for extra in dict.fromkeys((spare, 0)):
            beside = f" + {extra:,} {spare_words}" if extra else ""
            hypotheses.append(
                Hypothesis(
                    (tokens + extra) * one, _product(f"{tokens:,.0f}{beside}", words), 0, assumes
                )
            )
    return settled(figure, pool, "bytes", hypotheses)


def sum_finding(
    figure: str, total: Reading, parts: Sequence[tuple[float, Reading, str]], words: str
) -> Finding:
    """A figure that is a signed sum of others of the log.

    Args:
        figure: what the engine calls it.
        total: the printed result.
        parts: factor, reading and its name.
        words: the rule.
    """
    predicted = sum(factor * one.value for factor, one, _ in parts)
    slack = sum(abs(factor) * one.half for factor, one, _ in parts)
    shown = " ".join(
        ("− " if factor < 0 else "+ " if at else "")
        + (f"{abs(factor):g} × " if abs(factor) != 1 else "")
        + f"{one.printed} {name}"
        for at, (factor, one, name) in enumerate(parts)
    )
    return settled(figure, total, "bytes", [Hypothesis(predicted, f"{words}: {shown}", slack)])


def _product(count: str, words: str) -> str:
    return f"({count}) × {words}" if " " in count else f"{count} × {words}"


def _apart(size: float) -> str:
    return f"{format_bytes(abs(size))} {'more' if size >= 0 else 'less'} than the parameters alone"


def _said(finding: Finding, more: str) -> Finding:
    return replace(finding, explanation=f"{finding.explanation}; {more}")
