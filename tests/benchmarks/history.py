"""Simulated histories: how often a change is found where there is none, and where there is one.

Each run resembles the one before it by an autocorrelation from 0 to 0.8, or the runs of a boot
resemble each other.  A found change is the true one if it is at most two runs from its place.
"""

from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from replayer.analysis.history import change_points
from tests.benchmarks import Row

NAME = "history"
SERIES = 200
SIZES = (12, 20, 40, 100, 300)
CHANGES = ((0.03, 0.01), (0.1, 0.03))
"""The size of a change and the noise from run to run."""
SIDES = ((20, 20), (50, 50), (100, 20))
"""The number of runs before a change and after it."""
LASTED = ((10, 10, 10), (20, 20, 20), (20, 10, 20), (12, 12, 6))
"""The number of runs before a level that lasted for a time, with it, and after it."""
LASTED_CHANGE = (0.3, 0.01)
"""The size of such a change and the noise from run to run."""
BOOTS = (
    (12, 5, 0.003),
    (12, 5, 0.01),
    (8, 10, 0.003),
    (20, 5, 0.003),
    (6, 10, 0.005),
    (40, 5, 0.003),
)
"""Boots, runs of each, and the noise of a run; boots vary by 2 percent."""
_NEAR = 2
Floats = NDArray[np.float64]
Sides = tuple[int, ...]


def run(workdir: Path, seed: int = 1) -> list[Row]:
    """Return a row for each autocorrelation and size without a change, and for each change."""
    del workdir
    random = np.random.default_rng(seed)
    rows = [_falsely(alike, size, random) for alike in (0.0, 0.3, 0.5, 0.8) for size in SIZES]
    rows += [_of_boots(boots, runs, noise, random) for boots, runs, noise in BOOTS]
    rows += [_truly(*change, sides, random) for change in CHANGES for sides in SIDES]
    return rows + [_truly(*LASTED_CHANGE, sides, random) for sides in LASTED]


def _falsely(alike: float, size: int, random: np.random.Generator) -> Row:
    samples = [float(bool(change_points.find(plain(size, alike, random)))) for _ in range(SERIES)]
    return Row(
        what=f"{size} runs without a change, autocorrelation {alike:g}: divided",
        against=f"{SERIES} series",
        bar="<= 0.05",
        ratio=float(np.mean(samples)),
        samples=samples,
    )


def _of_boots(boots: int, runs: int, noise: float, random: np.random.Generator) -> Row:
    drawn = (booted(boots, runs, noise, random) for _ in range(SERIES))
    samples = [float(bool(change_points.find(values, of))) for values, of in drawn]
    return Row(
        what=f"{boots} boots of {runs} runs, 2 % and {noise:.1%}, without a change: divided",
        against=f"{SERIES} series",
        bar="<= 0.05",
        ratio=float(np.mean(samples)),
        samples=samples,
    )


def _truly(change: float, noise: float, sides: Sides, random: np.random.Generator) -> Row:
    samples = [float(is_found(change, noise, sides, random)) for _ in range(SERIES)]
    runs = " and ".join(map(str, sides))
    return Row(
        what=f"a change of {change:.0%}, noise {noise:.0%}, {runs} runs: found",
        against=f"{SERIES} series",
        bar=">= 0.9",
        ratio=float(np.mean(samples)),
        samples=samples,
    )


def is_found(
    change: float, noise: float, sides: Sides, random: np.random.Generator, family: int = 1
) -> bool:
    """Return whether each change of one series is found at its place.

    Of three sides, the level is changed in the second, and is back in the third.
    """
    values = 1 + noise * plain(sum(sides), 0.0, random)
    places = [*accumulate(sides)][:-1]
    values[places[0] : (*places, None)[1]] *= 1 - change
    found = change_points.find(values, family=family)
    return all(any(abs(at - place) <= _NEAR for at in found) for place in places)


def plain(size: int, alike: float, random: np.random.Generator) -> Floats:
    """Return values of variance 1 without a change, of an autoregressive process of first order."""
    values = random.normal(size=size)
    fresh = np.sqrt(1 - alike**2)
    for number in range(1, size):
        values[number] = alike * values[number - 1] + fresh * values[number]
    return values


def booted(
    boots: int, runs: int, noise: float, random: np.random.Generator, varies: float = 0.02
) -> tuple[Floats, list[str]]:
    """Return values around 1000 without a change, and the boot of each run.

    `runs` is the number of runs of a boot, `noise` their spread, and `varies` that of the boots.
    """
    levels = np.repeat(random.normal(0, varies, boots), runs)
    values: Floats = 1000 * np.exp(levels + random.normal(0, noise, boots * runs))
    return values, [f"boot-{number // runs}" for number in range(boots * runs)]
