"""Intended starts of statements: drawn in advance, independent of earlier answers.

A window of `seconds` has exactly `rate * seconds` starts.  `poisson` draws them as a Poisson
process has them once their number is known: independent and uniform over the window.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt

Arrivals = Literal["poisson", "uniform"]
_CHUNK_SECONDS = 1.0


def starts(
    rate: float, seconds: float, arrivals: Arrivals, random: np.random.Generator
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield arrays with the intended starts of `rate` statements a second, for `seconds`.

    The starts are in nanoseconds since the window's begin, and rise.  Each array has those of about
    one second.  `poisson` draws them from `random`, `uniform` has equal distances.
    """
    number = round(rate * seconds)
    if arrivals == "uniform":
        yield from _uniform(number, seconds)
    else:
        yield from _poisson(number, seconds, random)


def _uniform(number: int, seconds: float) -> Iterator[npt.NDArray[np.int64]]:
    gap = seconds / max(1, number)
    step = max(1, round(_CHUNK_SECONDS / gap))
    for first in range(0, number, step):
        places = np.arange(first, min(first + step, number)) + 0.5
        yield (places * gap * 1e9).astype(np.int64)


def _poisson(
    number: int, seconds: float, random: np.random.Generator
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the starts of one second after the other, in nanoseconds since the window's begin.

    For each second, first draw how many starts it has, then the time of each of them.
    """
    begin, left = 0.0, number
    while begin < seconds:
        end = min(seconds, begin + _CHUNK_SECONDS)
        # The remaining window may be shorter than the rounding error of its length.
        last = seconds - end < 1e-9
        here = left if last else int(random.binomial(left, (end - begin) / (seconds - begin)))
        times = np.sort(random.uniform(begin, end, here))
        yield (times * 1e9).astype(np.int64)
        begin, left = (seconds if last else end), left - here
