"""Sequence lengths as they are typed: lists with multiplicities, files, spreads, K and M."""

from pathlib import Path
from typing import Final

from kvtui.errors import InputError
from kvtui.sources.text_file import read_text
from kvtui.spec import SequenceRun
from kvtui.units import count

_SHARES: Final = 64
"""Different lengths that a spread is made of at most."""


def token_count(field: str, text: str) -> int:
    """Tokens in ``text``; the suffixes K and M are powers of 1024, as contexts are named."""
    factor = {"k": 1024, "m": 1024**2}.get(text.strip()[-1:].lower(), 1)
    number = count(field, text.strip()[:-1] if factor > 1 else text)
    return count(field, number * factor)


def sequence_runs(text: str) -> tuple[SequenceRun, ...]:
    """Lengths such as ``6000*20,3000*4``: 20 sequences of 6,000 tokens and 4 of 3,000.

    The path of a text file stands for the lengths in it, separated by commas or white space.
    """
    path = Path(text)
    if "/" in text or path.suffix in (".txt", ".csv", ".lengths"):
        text = ",".join(read_text(path).replace(",", " ").split())
    runs = []
    for part in text.split(","):
        tokens, star, number = part.partition("*")
        runs.append(SequenceRun(count("lengths", tokens), count("lengths", number) if star else 1))
    return tuple(runs)


def spread_runs(mean: int, p95: int, batch: int) -> tuple[SequenceRun, ...]:
    """``batch`` lengths of a log-normal spread with this mean and 95th percentile.

    Lengths are the middles of equal shares of the distribution; request lengths are commonly
    near log-normal. Raises ``InputError`` where no log-normal has these two figures.
    """
    from math import exp, log, sqrt
    from statistics import NormalDist

    z95 = NormalDist().inv_cdf(0.95)
    highest = int(mean * exp(z95 * z95 / 2))
    if not mean <= p95 <= highest:
        raise InputError("p95", p95, f"{mean} to {highest} for a mean of {mean}")
    sigma = z95 - sqrt(max(0.0, z95 * z95 - 2 * log(p95 / mean)))
    if sigma == 0:
        return (SequenceRun(mean, batch),)
    lengths = NormalDist(log(mean) - sigma * sigma / 2, sigma)
    shares = min(batch, _SHARES)
    runs: dict[int, int] = {}
    for share in range(shares):
        tokens = max(1, round(exp(lengths.inv_cdf((share + 0.5) / shares))))
        counted = batch * (share + 1) // shares - batch * share // shares
        runs[tokens] = runs.get(tokens, 0) + counted
    return tuple(SequenceRun(tokens, counted) for tokens, counted in runs.items())
