"""Averages of what collectors sampled, over the measured window of a step."""

import math
from collections.abc import Mapping, Sequence

from replayer.model import Series
from replayer.report.document import Table


def averages(series: Series, collector: str, wanted: Sequence[str] = ()) -> Table | None:
    """Return a table with one line: averages of a collector's columns over the measured window.

    `wanted` are the columns to show, () for all.  Returns None if the series has none of them.  A
    column that is an average per request (r_await, areq-sz) is weighted by the requests of each
    interval, so that the result is the average over all requests in the window.
    """
    begin = f"{collector}."
    columns = {
        name.removeprefix(begin): values
        for name, values in series.columns.items()
        if name.startswith(begin)
    }
    chosen = [name for name in wanted or columns if name in columns]
    inside, lengths = _window(series)
    cells = []
    for name in chosen:
        weights = _requests(columns, name) or [1.0] * len(series.seconds)
        value = _mean(columns[name], [w * s for w, s in zip(weights, lengths, strict=True)], inside)
        cells.append("-" if value is None else rate(value))
    if not cells:
        return None
    return Table(chosen, [cells], numbers=range(len(cells)), is_dense=True)


def mean(series: Series, column: str) -> float | None:
    """Return a column's average over the measured window; None if no value could be read.

    Each value is weighted by the length of its interval.  `series` must have the column.
    """
    inside, lengths = _window(series)
    return _mean(series.columns[column], lengths, inside)


def rate(value: float) -> str:
    """Return a value in sysstat's format: two decimals below 10, one below 100, else none.

    0 has no decimals.
    """
    digits = 0 if abs(value) >= 100 or value == 0 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f}"


def _requests(columns: Mapping[str, Sequence[float | None]], name: str) -> list[float] | None:
    """Return the requests a second in each interval, if a column is an average per request.

    Returns None for any other column, or if the requests are not known.
    """
    for ending in ("_await", "areq-sz"):
        if name.endswith(ending) and len(name) == len(ending) + 1:
            return [value or 0.0 for value in columns.get(f"{name[0]}/s", ())] or None
    if name in ("await", "areq-sz"):
        kinds = [columns[kind] for kind in ("r/s", "w/s", "d/s") if kind in columns]
        return [
            sum(value or 0.0 for value in values) for values in zip(*kinds, strict=True)
        ] or None
    return None


def _window(series: Series) -> tuple[list[bool], list[float]]:
    """Return two lists with a value for each interval.

    The first has True if the interval's middle is in the measured window.  The second has the
    interval's length in seconds.
    """
    ends = series.seconds
    starts = (0.0, *ends[:-1])
    low, high = series.window or (-math.inf, math.inf)
    inside = [low <= (a + b) / 2 <= high for a, b in zip(starts, ends, strict=True)]
    return inside, [b - a for a, b in zip(starts, ends, strict=True)]


def _mean(
    values: Sequence[float | None], weights: Sequence[float], inside: Sequence[bool]
) -> float | None:
    read = [
        (value, weight)
        for value, weight, counts in zip(values, weights, inside, strict=True)
        if counts and value is not None
    ]
    total = sum(weight for _, weight in read)
    if not read:
        return None
    return sum(value * weight for value, weight in read) / total if total else 0.0
