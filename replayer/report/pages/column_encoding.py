"""The encoding of long columns of numbers inside a page: 16 bits per number, as base64.

A column is `{low, step, data}`.  `data` has little-endian whole numbers; value = low + step *
number; 65535 marks a missing value.  The error is at most 1 / 131,068 of the column's range.
"""

import base64
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NONE = 65535
_LARGEST = 65534
_REGULAR = 0.05


def column(values: Sequence[float | None] | NDArray[np.float64]) -> dict[str, Any]:
    """Return values as `{low, step, data}` for a page's script, which needs less room than numbers.

    `data` has a whole number of 16 bits for each value, in base64; value = low + step * number.
    The number of a missing value (None, nan or infinite) is 65535.
    """
    numbers = np.array([math.nan if v is None else v for v in values], dtype=np.float64)
    known = np.isfinite(numbers)
    if not known.any():
        low, step = 0.0, 1.0
    else:
        low = float(numbers[known].min())
        step = (float(numbers[known].max()) - low) / _LARGEST or 1.0
    whole = np.full(numbers.shape, _NONE, dtype="<u2")
    whole[known] = np.round((numbers[known] - low) / step)
    return {"low": low, "step": step, "data": base64.b64encode(whole.tobytes()).decode("ascii")}


def times(seconds: Sequence[float]) -> dict[str, Any]:
    """Return times in seconds for a page's script, in a form that needs little room.

    It is `{first, every, count}` if no time is more than 0.05 s from an equal spacing, else
    `{low, step, data}` with a whole number of 16 bits for each time.
    """
    n = len(seconds)
    every = (seconds[-1] - seconds[0]) / (n - 1) if n > 1 else 1.0
    first = seconds[0] if n else 0.0
    if all(abs(first + every * i - second) <= _REGULAR for i, second in enumerate(seconds)):
        return {"first": first, "every": every, "count": n}
    return column(seconds)


def binned(values: Sequence[float | None], size: int) -> NDArray[np.float64]:
    """Return the mean of each `size` consecutive values; nan if all of them are missing.

    A missing value is None, nan or infinite.  The last mean may be of fewer values.
    """
    numbers = np.array([math.nan if v is None else v for v in values], dtype=np.float64)
    if size == 1:
        return numbers
    padded = np.concatenate([numbers, np.full(-len(numbers) % size, math.nan)]).reshape(-1, size)
    known = np.isfinite(padded)
    counts = known.sum(axis=1)
    sums = np.where(known, padded, 0.0).sum(axis=1)
    means: NDArray[np.float64] = np.full(len(counts), math.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means
