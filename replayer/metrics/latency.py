"""The conversion of stored latency histograms to Prometheus: seconds, in fixed buckets."""

from typing import NamedTuple

from hdrh.histogram import HdrHistogram

from replayer.model import StepResult
from replayer.results import stored_histogram

_FIRST, _LAST = 10, 36
"""Exponents of the lowest and highest bound, 2^N ns (1 us, 69 s); two buckets per doubling."""
_BOUNDS = (
    *((1 << power) * half // 2 for power in range(_FIRST, _LAST) for half in (2, 3)),
    1 << _LAST,
)
"""Upper bounds of the buckets in nanoseconds.  A bin of an HdrHistogram begins at each of them, so
that no count is split."""
_PERCENTILES = (50, 90, 95, 99, 99.9, 99.99)
_BEYOND = 5
"""A percentile is exported only if at least that many operations are slower: p99 needs 500."""


class Buckets(NamedTuple):
    """One histogram in the form of Prometheus, in seconds."""

    counts: tuple[tuple[str, float], ...]
    """Pairs of an upper bound, in seconds as text, and the number of operations up to this bound;
    the last bound is +Inf."""
    total_seconds: float
    """The sum of all latencies, with the precision of the bins: three digits."""
    percentiles: tuple[tuple[str, float], ...]
    """Pairs of a percentile, such as 99.9, and its seconds, if enough operations are slower."""


def operations(results: list[StepResult]) -> dict[str, Buckets]:
    """Return kind of operation -> histogram over all repeats, whose results are `results`.

    A kind is left out if it has no operations or its histograms cannot be read.
    """
    kinds = dict.fromkeys(kind for result in results for kind in result.latency)
    merged = {
        kind: stored_histogram.merged(r.latency[kind].payload for r in results if kind in r.latency)
        for kind in kinds
    }
    return {kind: _buckets(one) for kind, one in merged.items() if one and one.total_count}


def _buckets(whole: HdrHistogram) -> Buckets:
    counts = [(index, count) for index, count in enumerate(whole.counts) if count]
    begins = [(whole.get_value_from_index(index), count) for index, count in counts]
    bins = ((value, whole.get_highest_equivalent_value(value), count) for value, count in begins)
    number = sum(count for _, count in begins)
    below = [(bound, sum(count for value, count in begins if value < bound)) for bound in _BOUNDS]
    return Buckets(
        counts=(*((repr(bound / 1e9), float(up_to)) for bound, up_to in below), ("+Inf", number)),
        total_seconds=sum((low + high) / 2 * count for low, high, count in bins) / 1e9,
        percentiles=tuple(
            (f"{one:g}", whole.get_value_at_percentile(one) / 1e9)
            for one in _PERCENTILES
            if number * (100 - one) / 100 >= _BEYOND
        ),
    )
