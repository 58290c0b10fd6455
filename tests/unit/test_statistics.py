"""The statistics are tested for truth: promised shares of right and wrong, over seeded draws."""

import math
from itertools import permutations

import numpy as np
import pytest

from replayer.analysis import statistics


def units(values):
    """Return each value as a unit of its own."""
    return [(value,) for value in values]


def test_the_interval_covers_the_true_ratio_as_often_as_it_says():
    """Of 600 draws of 10 against 10 runs, 95 percent of the intervals hold the true ratio."""
    random = np.random.default_rng(7)
    covered = 0
    for _ in range(600):
        base, other = (units(np.exp(random.normal(0, 0.03, 10)) * m) for m in (100, 103))
        found = statistics.ratio(base, other, resamples=1000)
        covered += found.low <= 1.03 <= found.high

    assert 0.94 <= covered / 600 <= 0.995


def test_the_interval_of_boots_covers_differences_between_boots():
    """With 6 boots of 8 runs that share their boot's offset, the interval covers the truth."""
    random = np.random.default_rng(8)

    def boots(mean):
        return [
            mean * np.exp(random.normal(0, 0.03) + random.normal(0, 0.003, 8)) for _ in range(6)
        ]

    covered = 0
    for _ in range(400):
        found = statistics.ratio(boots(100), boots(103), resamples=1000)
        covered += found.low <= 1.03 <= found.high

    assert covered / 400 >= 0.94


def test_the_same_sample_gives_the_same_interval():
    """The bootstrap is seeded, so a report can be made again."""
    base, other = units([1, 2, 3, 4, 5.0]), units([2, 3, 4, 5, 6.0])

    assert statistics.ratio(base, other) == statistics.ratio(base, other)


@pytest.mark.parametrize("values", [(0, 0, 0), (-1, -2, -3)])
def test_no_ratio_without_positive_medians(values):
    """Zero and negative medians have no ratio, on either side."""
    assert statistics.ratio(units(values), units([1, 2, 3])) is None
    assert statistics.ratio(units([1, 2, 3]), units(values)) is None


def test_the_rank_test_is_exact_for_few_values():
    """The p of 3 against 4 values is what counting all orders by hand gives, with a tie too."""
    for base, other in (((1, 2, 4), (3, 5, 6, 7)), ((1, 2, 3), (3, 5, 6, 7))):
        pooled = [*base, *other]
        ranks = [sum(v < w for v in pooled) + (pooled.count(w) + 1) / 2 for w in pooled]
        seen = sum(ranks[:3])
        sums = [sum(order[:3]) for order in permutations(ranks)]
        tails = [sum(s <= seen for s in sums), sum(s >= seen for s in sums)]
        expected = min(1, 2 * min(tails) / len(sums))

        assert statistics.rank_test(base, other) == pytest.approx(expected)


def test_the_smallest_p_is_that_of_complete_separation():
    """No two samples of that size can give a smaller p than two that do not overlap."""
    for n, m in ((2, 2), (3, 3), (4, 4), (3, 9)):
        apart = statistics.rank_test(range(n), range(100, 100 + m))

        assert apart == pytest.approx(statistics.smallest_p(n, m))


def test_equal_values_have_p_one():
    """Where nothing varies, nothing differs."""
    assert statistics.rank_test([5, 5, 5], [5, 5, 5, 5]) == 1.0


def test_holm_is_the_textbook_example():
    """Four p values as in Holm's step-down: multiplied by 4, 3, 2, 1 and never falling."""
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([]) == []


@pytest.mark.parametrize(("shift", "noise"), [(1.05, 0.04), (1.0, 0.02)])
def test_the_suggested_number_of_units_settles_it(shift, noise):
    """With as many runs as suggested for the true ratio, most comparisons become clear."""
    random = np.random.default_rng(9)

    def side(mean, count):
        return units(mean * np.exp(random.normal(0, noise, count)))

    draws = [statistics.ratio(side(100, 6), side(100 * shift, 6)) for _ in range(80)]
    error = float(np.median([draw.error for draw in draws]))
    needed = statistics.units_to_settle(
        statistics.Ratio(shift, 0, 0, error), 6, 6, threshold=0.02, family=1
    )
    clear = 0
    for _ in range(100):
        base, other = side(100, needed), side(100 * shift, needed)
        found = statistics.ratio(base, other, resamples=1000)
        differs = (
            statistics.rank_test(statistics.medians(base), statistics.medians(other))
            <= statistics.ALPHA
        )
        alike = found.low > 1 / 1.02 and found.high < 1.02
        clear += differs or alike

    assert 6 < needed < 100
    assert clear >= 70


def test_no_number_of_runs_is_suggested_that_nobody_would_do():
    """A tiny shift at the edge of the threshold in great noise is not settled by 1,000 runs."""
    edge = statistics.Ratio(1.02, 0.5, 2.0, 0.4)

    assert statistics.units_to_settle(edge, 10, 10, threshold=0.0201, family=1) is None


def test_a_suggestion_never_is_less_than_could_show_anything():
    """Three runs without any noise need a fourth, and more where many metrics are corrected for."""
    exact = statistics.Ratio(1.5, 1.5, 1.5, 0.0)

    assert statistics.units_to_settle(exact, 3, 3, threshold=0.02, family=1) == 4
    assert statistics.units_to_settle(exact, 3, 3, threshold=0.02, family=20) == 6


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([100] * 10, statistics.Steady(0)),
        ([50, 70, 90, 100, 101, 99, 100, 100], statistics.Steady(3)),
        ([10, 20, 30, 40, 50, 60, 70], statistics.Steady(None)),
        ([100, 140, 90, 150, 80, 130, 100], statistics.Steady(None)),
        ([100, 100, 100, 100, 100, 60, 55, 50], statistics.Steady(0, left=True)),
        ([1, 99, 1, 99], statistics.Steady(0)),
        ([50, 100, 100], statistics.Steady(0)),
        ([0, 0, 0, 0, 0], statistics.Steady(0)),
    ],
)
def test_steady_is_slope_and_deviation_over_a_window(values, expected):
    """Warm-up ends where slope and deviation are small; a slope or great noise never settles."""
    assert statistics.steady(values) == expected


def test_noise_alone_is_steady():
    """Ten repeats with 1 percent of noise settle at once in almost every draw."""
    random = np.random.default_rng(11)
    settled = sum(statistics.steady(random.normal(100, 1, 10)).start == 0 for _ in range(1000))

    assert settled >= 990


def test_an_interval_of_nothing_but_one_value_each_is_that_ratio():
    """One unit a side has a ratio and no spread, and a standard error that is a number."""
    found = statistics.ratio(units([2.0]), units([3.0]))

    assert (found.value, found.low, found.high) == (1.5, 1.5, 1.5)
    assert math.isfinite(found.error)
