"""Repeated looks while runs are made: no more false alarms than one look, and few runs."""

from pathlib import Path

import numpy as np
import pytest

from replayer.analysis.differences import statistics
from replayer.analysis.differences.comparison import LIKELY, SHOWN, compare
from replayer.analysis.differences.samples import Side
from replayer.experiments import ab_trial, looks
from replayer.experiments.ab_trial import Trial, TrialLimits, TrialState
from replayer.experiments.variant import RunOptions, Variant
from replayer.factors import FactorPlace
from tests.fixture_types import RunOf


def simulated(run_of: RunOf, ratio: float, noise: float, seed: int, most: int = 20) -> TrialState:
    """Return a trial whose runs are drawn: the second variant's mean is `ratio` times the first's.

    `noise` is the standard deviation of a run's value, as a share of it.
    """
    draw = np.random.default_rng(seed)
    limits = TrialLimits(within=0.02, most=most)
    variants = Variant("A"), Variant("B")
    trial = Trial("w", variants, FactorPlace(), RunOptions(Path()), limits, "t", seed)
    state, order = TrialState(), trial.order()
    while not state.reason:
        which = next(order)
        value = 1e5 * (ratio if which else 1.0) * draw.normal(1.0, noise)
        state.runs[which].append(run_of([value], label=variants[which].label))
        if len(state.runs[0]) == len(state.runs[1]):
            ab_trial.look(trial, state, late=False)
    return state


def shown(state: TrialState) -> bool:
    """Return whether the trial found that the variants differ."""
    assert state.comparison is not None
    return any(row.verdict in SHOWN for row in state.comparison.rows)


def test_the_looks_together_have_five_percent() -> None:
    """Whichever look is the last one, the parts of all looks add up to the whole."""
    for last in range(1, 30):
        parts = [looks.share(look) for look in range(1, last)]
        assert sum(parts) + looks.share(last, last=True) == pytest.approx(1.0)


def test_a_difference_of_three_percent_is_settled_in_few_runs(run_of: RunOf) -> None:
    """With 1 % of noise: found, in at most 1.5 times the runs of the power calculation."""
    trials = [simulated(run_of, 0.97, 0.01, seed) for seed in range(25)]
    gap, error = -np.log(0.97), 0.01 * np.sqrt(2 / 10)
    planned = statistics.units_to_differ(gap, error, 10, 10, family=1)

    assert planned is not None
    assert sum(map(shown, trials)) >= 24
    assert np.median([trial.pairs for trial in trials]) <= 1.5 * planned


@pytest.mark.slow
def test_equal_variants_are_seldom_called_different(run_of: RunOf) -> None:
    """Looks at every few runs do not make more than the 5 % of alarms that one look may make."""
    trials = [simulated(run_of, 1.0, 0.05, 100 + seed, most=12) for seed in range(60)]

    assert sum(map(shown, trials)) <= 6  # 5 % of 60 are 3; more than 6 has a chance of 1 in 30


def test_equal_variants_with_little_noise_are_the_same(run_of: RunOf) -> None:
    """The trial ends before all runs are made, with a verdict, not with `unclear`."""
    state = simulated(run_of, 1.0, 0.003, 7)

    assert state.comparison is not None
    assert [row.verdict for row in state.comparison.rows if row.leading] == ["same in these runs"]
    assert state.pairs < 20
    assert state.reason.startswith("settled")


def test_the_order_is_drawn_in_blocks() -> None:
    """Each variant comes once in two runs; the same seed draws the same order."""
    limits = TrialLimits(within=0.02, most=5)
    variants = Variant("A"), Variant("B")
    orders = []
    for seed in (1, 1, 2):
        order = Trial("w", variants, FactorPlace(), RunOptions(Path()), limits, "t", seed).order()
        orders.append([next(order) for _ in range(40)])

    assert orders[0] == orders[1] != orders[2]
    assert all(sorted(orders[0][at : at + 2]) == [0, 1] for at in range(0, 40, 2))


def test_a_trial_that_was_cut_after_any_run_counts_its_looks(run_of: RunOf) -> None:
    """Also within a pair, just after a look: the next one may use no more than without the cut."""
    draw = np.random.default_rng(3)
    variants = Variant("A"), Variant("B")
    limits = TrialLimits(within=0.02, most=40)
    trial = Trial("w", variants, FactorPlace(), RunOptions(Path()), limits, "t", 1)
    state = TrialState()
    for number in range(24):
        which = number % 2
        value = 1e5 * draw.normal(1.0, 0.05)
        state.runs[which].append(run_of([value], label=variants[which].label))
        if which:
            ab_trial.look(trial, state, late=False)
        again = TrialState(runs=state.runs)
        assert ab_trial.due(trial, again) is not None
        assert again.looked == state.looked

    assert state.looked > 2


def test_the_headline_claims_no_more_than_the_verdicts_of_the_look(run_of: RunOf) -> None:
    """What one look alone would show is only likely at the ninth, in the sentence as in a row."""
    sides = (
        Side(label, tuple(run_of([value * (1 + 0.01 * turn)], label=label) for turn in range(6)))
        for label, value in (("A", 1e5), ("B", 1.2e5))
    )
    alone = compare(*sides)
    late = looks.at_look(alone, 9)

    assert alone.headline.startswith("B is faster than A")
    assert {row.verdict for row in late.rows} <= LIKELY
    assert late.headline.startswith("B is likely faster than A")
