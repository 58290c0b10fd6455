"""The search for the first candidate that differs, in simulations whose truth is known."""

import math

import numpy as np
import pytest

from replayer.experiments import bisection
from replayer.experiments.bisection import Bisection


def search(
    size: int, place: int, change: float, noise: float, random: np.random.Generator
) -> tuple[int | None, Bisection]:
    """Return the answer of one search, and all that was measured.

    It is None if the ends are alike, and 0 if nothing is known after the 200 runs of the default.
    """
    state = Bisection(size)
    while sum(state.counts) < 200:
        posterior = state.posterior()
        if bisection.is_found(state, posterior):
            return posterior.best, state
        if bisection.are_alike(state):
            return None, state
        chosen = bisection.choose(state, posterior)
        level = 100 * (1 - change if chosen >= place else 1)
        state = state.with_value(chosen, level * math.exp(random.normal(0, noise)))
    return 0, state


@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_a_change_of_ten_percent_is_found_in_few_runs(noise: float) -> None:
    """Nearly all answers are right, in at most 2.5 times the least number of runs."""
    random = np.random.default_rng(3)
    places = random.integers(1, 64, 20)
    found = [search(64, int(place), 0.1, noise, random) for place in places]

    right = sum(answer == place for (answer, _), place in zip(found, places, strict=True))
    runs = sum(sum(state.counts) for _, state in found) / len(found)
    assert right >= 18
    assert runs <= 2.5 * bisection.least(64, -math.log(0.9) / noise)


def test_the_ends_come_first_and_are_refused_if_they_are_alike() -> None:
    """Three searches without a change name no place, and none takes as many as 60 runs."""
    random = np.random.default_rng(4)
    found = [search(6, 99, 0.0, 0.01, random) for _ in range(3)]

    assert [answer for answer, _ in found] == [None, None, None]
    assert all(sum(state.counts) < 60 for _, state in found)
    assert all(min(state.counts[0], state.counts[-1]) >= 2 for _, state in found)
    assert all(set(state.counts[1:-1]) == {0} for _, state in found)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1])
def test_without_a_change_a_place_is_hardly_ever_named(noise: float) -> None:
    """Of 40 searches at most 4 name one, where 2 are allowed on average; 34 show that none is."""
    random = np.random.default_rng(9)
    answers = [search(8, 99, 0.0, noise, random)[0] for _ in range(40)]

    assert sum(answer is None for answer in answers) >= 34
    assert sum(bool(answer) for answer in answers) <= 4


def test_values_in_steps_that_are_equal_by_chance_are_no_change() -> None:
    """Of 60 searches among values that are 10 or 11 by chance at most 6 name a place."""
    random = np.random.default_rng(10)
    named = 0
    for _ in range(60):
        state = Bisection(8)
        while not bisection.are_alike(state) and sum(state.counts) < 60:
            posterior = state.posterior()
            if bisection.is_found(state, posterior):
                named += 1
                break
            chosen = bisection.choose(state, posterior)
            state = state.with_value(chosen, float(random.integers(10, 12)))

    assert named <= 6


@pytest.mark.parametrize(("change", "most"), [(0.03, 30), (0.05, 18), (0.1, 13)])
def test_a_change_of_several_times_the_noise_is_found(change: float, most: int) -> None:
    """Of 20 among 64 at least 18 are, in so many runs on average."""
    random = np.random.default_rng(12)
    places = [int(place) for place in random.integers(1, 64, 20)]
    found = [search(64, place, change, 0.01, random) for place in places]

    right = sum(answer == place for (answer, _), place in zip(found, places, strict=True))
    assert right >= 18
    assert sum(sum(state.counts) for _, state in found) <= most * len(found)


def test_two_candidates_are_searched_too() -> None:
    """Then the second is the only place."""
    answer, _ = search(2, 1, 0.1, 0.01, np.random.default_rng(5))

    assert answer == 1


def test_places_that_are_left_hold_the_change_and_are_few() -> None:
    """They have 95 percent together, and nothing is far from the change."""
    random = np.random.default_rng(6)
    state = Bisection(32)
    for _ in range(12):
        chosen = bisection.choose(state, state.posterior())
        state = state.with_value(chosen, (90 if chosen >= 20 else 100) * random.normal(1, 0.01))
    left = state.posterior().left()

    assert 20 in left
    assert len(left) < 8


def test_information_is_that_of_a_channel_with_noise() -> None:
    """A coin flip far from the noise gives one bit, one within it nothing; the known gives none."""
    bits = bisection.information([0.5, 0.5, 0.0], 20.0)

    assert bits[0] == pytest.approx(1, abs=1e-6)
    assert bisection.information([0.5], 0.0)[0] == pytest.approx(0, abs=1e-9)
    assert bits[2] == pytest.approx(0, abs=1e-6)
    # The capacity of a binary channel at a signal-to-noise ratio of 1 (half distance 1).
    assert bisection.information([0.5], 2.0)[0] == pytest.approx(0.486, abs=0.005)
