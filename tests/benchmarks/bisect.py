"""Simulated searches of `replayer bisect`: how often they are right, and how many runs they take.

64 candidates, of which the change is at one that is drawn; changes of 3 and 10 percent, and noise
of 1 and 3 percent between boots.  The least number of boots is what information theory leaves to
any method that knows both levels and the noise, which a search has to learn.
"""

import math
from pathlib import Path

import numpy as np

from replayer.experiments import bisection
from replayer.experiments.bisection import Bisection
from tests.benchmarks import Row

NAME = "bisect"
CANDIDATES = 64
TRIALS = 400
"""Of each: the mean of a hundred scatters by 6 percent where noise and change are alike."""
_TOO_LONG = 500


def run(workdir: Path, seed: int = 1) -> list[Row]:
    """Return two rows for each change and noise: the share of right answers, and the boots."""
    del workdir
    random = np.random.default_rng(seed)
    return [
        row
        for change in (0.03, 0.1)
        for noise in (0.01, 0.03)
        for row in _rows(change, noise, random)
    ]


def _rows(change: float, noise: float, random: np.random.Generator) -> list[Row]:
    found = [search(CANDIDATES, change, noise, random) for _ in range(TRIALS)]
    least = bisection.least(CANDIDATES, -math.log(1 - change) / noise)
    boots = [boots for _, boots in found]
    what = f"a change of {change:.0%}, noise {noise:.0%}"
    right = sum(is_right for is_right, _ in found) / TRIALS
    return [
        Row(
            what=f"{what}: right",
            against=f"{TRIALS} searches",
            bar=">= 0.94",
            ratio=right,
            samples=[float(is_right) for is_right, _ in found],
        ),
        Row(
            what=f"{what}: {np.mean(boots):.1f} boots",
            against=f"the least, {least:.1f}",
            bar="<= 2.5",
            ratio=float(np.mean(boots)) / least,
            samples=[float(one) for one in boots],
        ),
    ]


def search(
    candidates: int, change: float, noise: float, random: np.random.Generator
) -> tuple[bool, int]:
    """Return whether one simulated search finds the change, and its number of boots."""
    place = int(random.integers(1, candidates))
    state = Bisection(candidates)
    for boots in range(_TOO_LONG):
        posterior = state.posterior()
        if bisection.is_found(state, posterior):
            return posterior.best == place, boots
        if bisection.are_alike(state):
            return False, boots
        chosen = bisection.choose(state, posterior)
        level = 100 * (1 - change if chosen >= place else 1)
        state = state.with_value(chosen, level * math.exp(random.normal(0, noise)))
    return False, _TOO_LONG
