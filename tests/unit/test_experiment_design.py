"""Designs of experiments, and what the analysis makes of planted numbers."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.errors import Impossible
from replayer.experiments.design import FactorialDesign, build_design
from replayer.experiments.effects import LEVEL, estimate_effects


def design_of(count: int, seldom: int = 0) -> FactorialDesign:
    """Return a design over a number of factors, the first of which change seldom."""
    names = [f"f{number}" for number in range(count)]
    return build_design(names, names[:seldom])


@pytest.mark.parametrize("count", range(1, 13))
def test_no_factor_is_mixed_with_another_or_with_an_interaction(count: int) -> None:
    """Resolution IV or more: each main effect is its own."""
    design = design_of(count)
    columns = [design.column([name]) for name in design.factors]
    pairs = [design.column(pair) for pair in combinations(design.factors, 2)]

    assert all(abs(column.sum()) < 1e-9 for column in columns)
    assert all(abs(one @ two) < 1e-9 for one, two in combinations(columns, 2))
    assert all(abs(column @ pair) < 1e-9 for column in columns for pair in pairs)


def test_runs_of_a_block_are_as_few_as_the_design_promises() -> None:
    """All combinations up to 3 factors, then fractions, then Plackett and Burman's, mirrored."""
    assert [design_of(count).size for count in range(1, 10)] == [2, 4, 8, 8, 16, 16, 16, 24, 24]


def test_interactions_with_one_column_are_named_together() -> None:
    """With four factors in eight runs each interaction has another one's column."""
    mixed = [term for term in design_of(4).terms() if term.interaction]

    assert len(mixed) == 3
    assert all(len(term.aliases) == 1 for term in mixed)
    assert "f0 x f1 or f2 x f3" in {term.title for term in mixed}


@given(st.integers(1, 9), st.integers(0, 3), st.integers(0, 1 << 31), st.integers(0, 40))
@settings(max_examples=30, deadline=None)
def test_seldom_factors_change_seldom(count: int, seldom: int, seed: int, block: int) -> None:
    """An order has every combination once, and the runs of a whole plot follow each other."""
    design = design_of(count, min(seldom, count))
    order = design.draw_order(seed, block)
    plots = design.plots()[order]

    assert sorted(order) == list(range(design.size))
    assert np.count_nonzero(np.diff(plots)) == len(np.unique(plots)) - 1
    assert order == design.draw_order(seed, block)


def test_more_factors_than_a_design_has_are_refused() -> None:
    """One sentence, and no block of hundreds of runs."""
    with pytest.raises(Impossible, match="over 24 factors"):
        design_of(24)
    with pytest.raises(Impossible, match="at least one factor"):
        design_of(0)


@pytest.mark.parametrize(("count", "seldom"), [(2, 0), (3, 0), (3, 1), (6, 0), (8, 0)])
def test_a_planted_cause_is_named_with_its_size(count: int, seldom: int) -> None:
    """A fifth less by one factor, in noise of 1 % and blocks that differ by 5 %."""
    random = np.random.default_rng(count)
    design = design_of(count, seldom)
    blocks = design.least_blocks() + 2
    logs = random.normal(0, 0.01, (blocks, design.size)) + random.normal(0, 0.05, (blocks, 1))
    logs += design.column(["f1"]) * math.log(0.8) / 2

    table = estimate_effects(design, np.exp(logs)[:, :, None], ["m"])

    cause = next(one for one in table.estimates if one.term.factors == ("f1",))
    assert cause.low <= math.log(0.8) <= cause.high < 0
    assert max(table.estimates, key=lambda one: abs(one.value)) is cause


def test_an_interaction_of_a_mixed_design_is_found_among_those_mixed_with_it() -> None:
    """Of Plackett and Burman's the strongest is fitted first, and the others to what it leaves."""
    random = np.random.default_rng(5)
    design = design_of(8)
    logs = random.normal(0, 0.005, (4, design.size))
    logs += design.column(["f2", "f5"]) * 0.05

    table = estimate_effects(design, np.exp(logs)[:, :, None], ["m"])

    assert [one.term.factors for one in table.estimates if one.named] == [("f2", "f5")]


def test_factors_that_do_nothing_are_seldom_named() -> None:
    """Of 50 experiments of two metrics with heavy tails, about one in forty may name any."""
    random = np.random.default_rng(11)
    design = design_of(3)
    wrong = 0
    for _ in range(50):
        logs = 0.01 * random.standard_t(4, (3, design.size, 2))
        table = estimate_effects(design, np.exp(logs), ["a", "b"])
        wrong += any(one.named for one in table.estimates)

    assert wrong <= 5


def test_whole_plots_that_differ_widen_the_intervals_of_seldom_factors_only() -> None:
    """The other factors are compared within a plot, where its difference is the same."""
    random = np.random.default_rng(2)
    design = design_of(3, 1)
    plots = design.plots()
    logs = random.normal(0, 0.002, (8, design.size))
    logs += random.normal(0, 0.05, (8, 2))[:, plots]

    table = estimate_effects(design, np.exp(logs)[:, :, None], ["m"])

    errors = {one.term.title: one.error for one in table.estimates}
    assert errors["f0"] > 5 * errors["f1"]
    assert errors["f1 x f2"] < 2 * errors["f1"]


def test_a_small_p_and_an_interval_without_zero_are_one_finding() -> None:
    """With few blocks as well, whose few permutations alone would give a p that is too small."""
    design = design_of(2)
    for seed in range(40):
        random = np.random.default_rng(seed)
        logs = random.normal(0, 0.01, (3, design.size))
        logs += design.column(["f0"]) * random.uniform(0, 0.05)
        table = estimate_effects(design, np.exp(logs)[:, :, None], ["m"])

        assert all(one.named is (one.p < LEVEL) for one in table.estimates)


@pytest.mark.parametrize(
    ("count", "low", "high"), [(8, 7e9, 7e9), (10, 7e9, 7e9), (8, 31674.0, 47512.0)]
)
def test_a_metric_without_spread_names_only_its_cause(count: int, low: float, high: float) -> None:
    """What is left of rounding is no effect, though its interval has no width."""
    design = design_of(count)
    row = np.where(design.column(["f0"]) < 0, low, high)
    values = np.repeat(row[None, :, None], design.least_blocks(), axis=0)

    table = estimate_effects(design, values, ["m"])

    assert [one.term.title for one in table.estimates if one.named] == ["f0"] * (low < high)
