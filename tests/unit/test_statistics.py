"""The statistics are tested for truth: promised shares of right and wrong, over seeded draws."""

import math
from collections.abc import Iterator
from itertools import permutations
from typing import Protocol

import numpy as np
import pytest
from numpy.typing import NDArray

from replayer.analysis.differences import statistics
from replayer.lazy_import import Later
from tests.known import known

scipy_stats = Later("scipy.stats")
"""Not imported by the workers that run other tests."""


def two(
    random: np.random.Generator, size: int, shift: float = 1.0, noise: float = 0.03
) -> Iterator[NDArray[np.float64]]:
    """Return two samples of a value a unit, the second off by a shift, with that much noise."""
    return (np.exp(random.normal(0, noise, size)) * m for m in (100, 100 * shift))


class Interval(Protocol):
    """What has two ends."""

    @property
    def low(self) -> float | None:
        """Return the lower one."""

    @property
    def high(self) -> float | None:
        """Return the upper one."""


def holds(interval: Interval, value: float) -> bool:
    """Tell whether a value lies within an interval."""
    return known(interval.low) <= value <= known(interval.high)


def test_the_quantile_of_students_t_is_that_of_scipy() -> None:
    """For all degrees of freedom that 64 groups have, to ten digits."""
    for freedom in range(1, 64):
        for probability in (0.6, 0.9, 0.975, 0.995, 0.9999):
            expected = scipy_stats.t.ppf(probability, freedom)
            found = statistics.student_quantile(freedom, probability)
            assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("size", [4, 6, 10, 25])
def test_the_interval_covers_the_true_ratio_as_often_as_it_says(size: int) -> None:
    """Of 1,000 draws, 95 percent of the intervals hold the true ratio, and hardly more."""
    random = np.random.default_rng(7)
    covered = 0
    for _ in range(1000):
        interval = known(statistics.ratio(*two(random, size, 1.03)))
        covered += holds(interval, 1.03)

    # The rank test of 4 against 4 can have no level between 2.9 and 5.7 percent.
    assert 0.935 <= covered / 1000 <= (0.985 if size == 4 else 0.972)


def test_boots_of_two_kinds_are_the_same_more_often_than_by_a_bootstrap() -> None:
    """10 boots of each, three in ten of them slower by 2 percent: 95 % cover, many are the same."""
    random = np.random.default_rng(8)
    covered, same = 0, 0
    for _ in range(1000):
        base, other = (
            np.exp(random.normal(0, 0.003, 10)) * np.where(random.random(10) < 0.3, 0.98, 1)
            for _ in "AB"
        )
        interval = known(statistics.ratio(base, other))
        covered += holds(interval, 1)
        same += known(interval.low) >= 1 / 1.02 and known(interval.high) <= 1.02

    assert 0.935 <= covered / 1000 <= 0.975
    # The intervals of a bootstrap of medians called 630 of these 1,000 the same, and covered 965.
    assert same >= 800


def test_interval_and_rank_test_never_disagree() -> None:
    """Of 2,000 draws of 4 to 8 against 4 to 8 units, 1 is outside exactly where p is below 5 %."""
    random = np.random.default_rng(9)
    for _ in range(2000):
        base, other = (np.exp(random.normal(m, 0.03, random.integers(4, 9))) for m in (0, 0.04))
        interval = known(statistics.ratio(base, other))
        outside = not holds(interval, 1)

        assert outside == (statistics.rank_test(base, other) <= statistics.ALPHA)


def test_so_few_units_have_no_interval() -> None:
    """Three against three have a ratio, and no 95 percent interval at all."""
    interval = known(statistics.ratio([1.0, 2, 3], [2.0, 4, 6]))

    assert (interval.value, interval.low, interval.high) == (2.0, None, None)


@pytest.mark.parametrize("values", [(0, 0, 0), (-1, -2, -3), (-1, 2, 3)])
def test_no_ratio_without_positive_medians(values: tuple[int, int, int]) -> None:
    """Zero and negative medians have no ratio, on either side; nor have any values below zero."""
    assert statistics.ratio(values, [1, 2, 3]) is None
    assert statistics.ratio([1, 2, 3], values) is None


def test_the_rank_test_is_exact_for_few_values() -> None:
    """The p of 3 against 4 values is what counting all orders by hand gives, with a tie too."""
    for base, other in (((1, 2, 4), (3, 5, 6, 7)), ((1, 2, 3), (3, 5, 6, 7))):
        pooled = [*base, *other]
        ranks = [sum(v < w for v in pooled) + (pooled.count(w) + 1) / 2 for w in pooled]
        seen = sum(ranks[:3])
        sums = [sum(order[:3]) for order in permutations(ranks)]
        tails = [sum(s <= seen for s in sums), sum(s >= seen for s in sums)]
        expected = min(1, 2 * min(tails) / len(sums))

        assert statistics.rank_test(base, other) == pytest.approx(expected)


def test_the_smallest_p_is_that_of_complete_separation() -> None:
    """No two samples of that size can give a smaller p than two that do not overlap."""
    for n, m in ((2, 2), (3, 3), (4, 4), (3, 9)):
        apart = statistics.rank_test(range(n), range(100, 100 + m))

        assert apart == pytest.approx(statistics.smallest_p(n, m))


def test_equal_values_have_p_one() -> None:
    """Where nothing varies, nothing differs."""
    assert statistics.rank_test([5, 5, 5], [5, 5, 5, 5]) == 1.0


def test_the_rank_test_agrees_with_scipys() -> None:
    """Exact for few values, by the normal distribution with its corrections for many."""
    random = np.random.default_rng(10)
    for n, m, ties in ((5, 9, False), (20, 20, False), (30, 25, False), (30, 25, True)):
        base, other = random.normal(0, 1, n), random.normal(0.4, 1, m)
        if ties:
            base, other = base.round(), other.round()
        method = "exact" if n + m <= 40 else "asymptotic"
        expected = scipy_stats.mannwhitneyu(base, other, method=method).pvalue

        assert statistics.rank_test(base, other) == pytest.approx(expected)


@pytest.mark.parametrize(("shift", "noise"), [(1.05, 0.04), (1.0, 0.02)])
def test_the_suggested_number_of_units_settles_it(shift: float, noise: float) -> None:
    """With as many runs as suggested for the true ratio, most comparisons become clear."""
    random = np.random.default_rng(9)
    draws = [statistics.ratio(*two(random, 6, shift, noise)) for _ in range(80)]
    error = float(np.median([known(draw).error for draw in draws]))
    true = statistics.Ratio(shift, 0, 0, error)
    needed = known(statistics.units_to_settle(true, 6, 6, threshold=0.02, family=1))
    clear = 0
    for _ in range(200):
        base, other = two(random, needed, shift, noise)
        interval = known(statistics.ratio(base, other))
        differs = statistics.rank_test(base, other) <= statistics.ALPHA
        alike = known(interval.low) > 1 / 1.02 and known(interval.high) < 1.02
        clear += differs or alike

    assert 6 < needed < 100
    assert clear >= 140


def test_no_number_of_runs_is_suggested_that_nobody_would_do() -> None:
    """A tiny shift at the edge of the threshold in great noise is not settled by 1,000 runs."""
    edge = statistics.Ratio(1.02, 0.5, 2.0, 0.4)

    assert statistics.units_to_settle(edge, 10, 10, threshold=0.0201, family=1) is None


def test_a_suggestion_never_is_less_than_could_show_anything() -> None:
    """Three runs without any noise need a fourth, and more where many metrics are corrected for."""
    exact = statistics.Ratio(1.5, 1.5, 1.5, 0.0)

    assert statistics.units_to_settle(exact, 3, 3, threshold=0.02, family=1) == 4
    assert statistics.units_to_settle(exact, 3, 3, threshold=0.02, family=20) == 6


def test_an_interval_of_nothing_but_one_value_each_is_that_ratio() -> None:
    """One unit a side has a ratio, no interval, and tells nothing of how the next may differ."""
    interval = known(statistics.ratio([2.0], [3.0]))

    assert (interval.value, interval.low, interval.high) == (1.5, None, None)
    assert math.isinf(interval.error)


def test_the_interval_of_a_shift_covers_the_true_one_as_often_as_it_says() -> None:
    """Of 1,000 draws about zero, 95 percent of the intervals hold the shift; the test agrees."""
    random = np.random.default_rng(12)
    covered = 0
    for _ in range(1000):
        base, other = random.normal(0, 1, 6), random.normal(0.7, 1, 6)
        interval = statistics.shift(base, other)
        covered += holds(interval, 0.7)
        outside = not holds(interval, 0)
        assert outside == (statistics.rank_test(base, other) <= statistics.ALPHA)

    assert 0.935 <= covered / 1000 <= 0.972


def test_a_shift_takes_zeros_and_few_units_have_no_interval() -> None:
    """Nothing in one sample and 3 in the other is a shift of 3; three units say no more."""
    assert statistics.shift([0, 0, 0], [3, 3, 3]) == statistics.Shift(3.0, None, None, 0.0)
