"""Percentiles of latency that a page shows: only those with enough observations beyond them."""

from collections.abc import Iterable

from replayer.results import stored_histogram

PERCENTILES = (
    *(0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.75, 99.9, 99.95, 99.99),
    99.999,
)
_LEAST_BEYOND = 10
"""The fewest observations beyond a percentile to show it: with fewer, its value is chance."""


def supported(count: int) -> list[float]:
    """Return the percentiles to show, such as 99.9, that at least ten of `count` values exceed."""
    return [p for p in PERCENTILES if round(count * (1 - p / 100), 6) >= _LEAST_BEYOND]


def of(payloads: Iterable[str]) -> tuple[list[float], list[float]]:
    """Return (percentiles, the latency in milliseconds at each) of the sum of stored histograms.

    `payloads` are HdrHistograms as in a result file.  Both lists are empty if there are too few
    operations.
    """
    total = stored_histogram.merged(payloads)
    shares = supported(total.get_total_count()) if total is not None else []
    if total is None or not shares:
        return [], []
    values = total.get_percentile_to_value_dict(shares)
    return shares, [values.get(p, 0) / 1e6 for p in shares]
