"""Many metrics at once: few false alarms over all, and no price for saying a thing twice."""

import numpy as np
import pytest

from replayer.analysis.differences import multiple_testing, statistics


def test_one_metric_is_not_corrected() -> None:
    """The p of one metric alone is that of its rank test, exactly, with ties as well."""
    for values in ([1, 2, 3, 4, 9, 5, 6, 7, 8, 10], [1, 1, 2, 3, 3, 3, 4, 4, 5, 5]):
        data = np.array([values], dtype=float)

        (p,) = multiple_testing.corrected(data, 5, [True])
        assert p == pytest.approx(statistics.rank_test(data[0, :5], data[0, 5:]))


def test_the_same_in_other_words_costs_nothing() -> None:
    """A metric that is also written as its inverse, squared and doubled has the p of one."""
    random = np.random.default_rng(1)
    values = random.normal(100, 1, 12)
    ones = multiple_testing.corrected(values[None], 6, [True])
    many = multiple_testing.corrected(
        np.array([values, 1 / values, values**2, 2 * values]), 6, [True] * 4
    )

    assert many == pytest.approx(ones * 4)


@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_any_false_alarm_among_all_metrics_is_rare(alike: float) -> None:
    """6 against 6, 20 metrics, strangers or much alike, 5 leading: 5 percent of draws have one."""
    random = np.random.default_rng(2)
    wrong = 0
    for _ in range(400):
        common = random.normal(0, 1, 12)
        values = np.sqrt(alike) * common + np.sqrt(1 - alike) * random.normal(0, 1, (20, 12))
        wrong += (
            min(multiple_testing.corrected(values, 6, [n < 5 for n in range(20)]))
            <= statistics.ALPHA
        )

    assert wrong <= 28


def test_a_false_alarm_is_rare_beside_true_differences() -> None:
    """Five leading metrics that truly differ pass their half on, and no more than that."""
    random = np.random.default_rng(3)
    wrong = 0
    for _ in range(400):
        values = random.normal(0, 1, (12, 12))
        values[:5, 6:] += 20
        ps = multiple_testing.corrected(values, 6, [n < 5 for n in range(12)])
        assert max(ps[:5]) <= statistics.ALPHA
        wrong += min(ps[5:]) <= statistics.ALPHA

    assert wrong <= 28


def test_it_is_never_less_sharp_than_holm() -> None:
    """The step-down p of each metric is at most the one that takes all metrics for strangers."""
    random = np.random.default_rng(4)
    for _ in range(50):
        values = random.normal(0, 1, (8, 12)) + random.normal(0, 1, 12)
        values[:3, 6:] += 2
        ps = np.array([statistics.rank_test(row[:6], row[6:]) for row in values])
        order = np.argsort(ps)
        holm = np.empty(8)
        holm[order] = np.maximum.accumulate(np.minimum(1, ps[order] * np.arange(8, 0, -1)))

        assert (np.array(multiple_testing.corrected(values, 6, [True] * 8)) <= holm + 1e-9).all()


def test_a_unit_without_a_metric_does_not_count_for_it() -> None:
    """A metric that two boots lack is judged by the others, beside one that all have."""
    whole = np.array([1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16.0])
    holes = np.where(np.isin(np.arange(12), (0, 11)), np.nan, whole)

    (_, p) = multiple_testing.corrected(np.array([whole, holes]), 6, [True, True])
    assert 1 / 924 < p < 0.01


def test_many_units_are_drawn_and_not_tried() -> None:
    """100 against 100 runs: too many orders to try all; the p of a clear difference is small."""
    random = np.random.default_rng(5)
    values = random.normal(0, 1, (6, 200))
    values[0, 100:] += 1
    ps = multiple_testing.corrected(values, 100, [n < 2 for n in range(6)])

    assert ps[0] < 0.001
    assert min(ps[1:]) > 0.01
    assert ps == multiple_testing.corrected(values, 100, [n < 2 for n in range(6)])
