"""Change points of a series: e-divisive, with a permutation test.

Method: D. S. Matteson and N. A. James, *A Nonparametric Approach for Multiple Change Point Analysis
of Multivariate Data*, JASA 109 (2014), with the exponent 1 of the distance.  A series is divided at
the place at which the energy distance between its two sides is largest.  It is divided only if
permutations of its values rarely have a distance as large.  Then each part is divided in the same
way.  The right side may end before the part does, so that a level that existed only for a time is
found, too.

For one number per run, the energy distance of two samples is twice the integral of the squared
difference of their distribution functions (G. J. Szekely and M. L. Rizzo, *Energy statistics*,
2013).  This integral is computed on a grid, so that ten thousand runs take a fraction of a second,
and the time does not grow with the square of their number.  Values far from a part's median are
moved nearer to it first, so that one extreme run at an end is not a change.

Permutations assume that runs are independent, but the runs of one boot or one week resemble each
other.  A division therefore counts only if a change explains the series much better than this
resemblance alone (`level_changes`, with the likelihood ratio test of Robbins, Gallagher, Lund and
Aue, 2011).  Where boots differ, this is not enough: the boots are the values (`boot_units`).
Another boot cannot cause a change between two runs of one boot, so long boots are searched run by
run, too.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count as numbers
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from replayer.analysis.differences.level_changes import Changes, Floats
from replayer.analysis.history import boot_units


class _Division(Protocol):
    """A function that returns the index at which the level of a part of a series changes.

    It returns None if no change is shown.  With `windows`, the right side that is compared with the
    left may end before the part does.
    """

    def __call__(self, part: Floats, *, windows: bool = True) -> int | None: ...


ALPHA = 0.01
"""The allowed chance that a series without any change is divided, over all series together.

The searches inside of boots, all together, add less than that.
"""
SHORTEST = 3
"""The fewest values of a part: one or two extreme runs may be extreme by chance."""
_INSIDE = 4
"""The allowed chance of the search over all boots / that of all searches inside of boots, at least.

At 4, of series whose runs have an autocorrelation of 0.8, at most 3 percent are divided.
"""
_SEED = 2014
_GRID = 32
"""The number of steps of the grid on which distribution functions are compared."""
_FAR = 6.0
"""Values farther from the median than this many times the noise are moved to this distance."""
_DENSE = 32
"""The number of values at each end of a part where every place is tried."""
_PLACES = 128
"""The approximate number of places tried between the ends; then all near the best are tried."""
_MOST_PERMUTATIONS = 9999
_HITS = 1
"""The most orders, the real one included, with so large an energy if a change is shown."""
_BATCH_VALUES = 100_000
_WINDOW = 8
"""The shortest right side that ends before the part does; others are 2, 4, 8, ... times as long."""
_FINE = 16
"""The length of a level / the step to the next length whose likelihood is computed."""
_MANY_ENDS = 4.0
"""By how much twice the logarithm of the likelihood ratio must be larger if an end is chosen.

Then as few series without a change are divided as if only 8, 16, 32 ... values were tried, which
misses other lengths: between two of these, the ratio of a large change is small.
"""
_TO_SIGMA = 1.4826
"""Standard deviation / median absolute deviation, for normal values."""


def find(values: Floats, boots: Sequence[str] = (), *, family: int = 1) -> list[int]:
    """Return the index of the first value after each change of the level of a series, in order.

    `values` has one value per run, in the order of time, and `boots` the boot of each run, "" if it
    is not known; () if no boot is.  Where boots differ, a change is at the first run of a boot, or
    inside of a boot with `enough` runs.  `family` is the number of series that are searched
    together.  The allowed chance of a false change is divided among them.
    """
    starts = boot_units.starts(values, boots)
    alpha = ALPHA / max(1, family)
    random = np.random.default_rng(_SEED)
    inside = _inside(values, starts, alpha, random)
    found = list(inside)
    for begin, end in pairwise([0, *inside, len(values)]):
        firsts = boot_units.within(starts, begin, end)
        units = boot_units.medians(values[begin:end], firsts)
        found += [begin + firsts[at] for at in _places(units, alpha, random)]
    return sorted(found)


def enough(family: int = 1) -> int:
    """Return the fewest values among which a change can be shown, for `family` series together.

    Of fewer values, too many orders have the same values on each side as the real order: two of
    `n` over `n / 2` at best, which must not be more than half of the allowed chance.
    """
    most = ALPHA / max(1, family) / 2
    return next(size for size in numbers(2 * SHORTEST) if most * math.comb(size, size // 2) >= 2)


def _inside(
    values: Floats, starts: Sequence[int], alpha: float, random: np.random.Generator
) -> list[int]:
    """Return the changes between two runs of one boot, as indices in `values`, in order.

    `starts` has the first run of each unit.  `alpha` is the allowed chance of a false change, which
    is divided among the boots and the search over all boots.
    """
    spans = [
        (begin, end)
        for begin, end in pairwise([*starts, len(values)])
        if end - begin >= enough(2 * _INSIDE)
    ]
    return [
        begin + at
        for begin, end in spans
        for at in _places(values[begin:end], alpha / (_INSIDE * (len(spans) + 1)), random)
    ]


def _places(units: Floats, alpha: float, random: np.random.Generator) -> list[int]:
    """Return the changes of the level of a series of units, as indices in it, in order."""
    noise = _noise(units)
    if noise == 0:
        return []
    divided = partial(_divided, noise=noise, alpha=alpha, random=random)
    return _settled(units, sorted(_divisions(units, divided)), divided)


def _settled(values: Floats, places: list[int], divided: _Division) -> list[int]:
    """Return the change points, each moved to the best place between its two neighbours.

    `places` are the points, as indices in `values`, in order.  `divided` finds the best place in a
    part of the series.  The first points were found before the others were known, so they may move.
    A point is left out if there is no change between its neighbours.
    """
    kept = list(places)
    number = 0
    while len(kept) > 1 and number < len(kept):
        bounds = [0, *kept, len(values)]
        start = bounds[number]
        place = divided(values[start : bounds[number + 2]], windows=False)
        if place is None:
            del kept[number]
            number = 0
        else:
            kept[number] = start + place
            number += 1
    return kept


def _divisions(values: Floats, divided: _Division) -> Iterator[int]:
    parts = [(values, 0)]
    while parts:
        part, start = parts.pop()
        place = divided(part) if len(part) >= 2 * SHORTEST else None
        if place is not None:
            yield start + place
            parts += [(part[:place], start), (part[place:], start + place)]


def _divided(
    part: Floats, *, noise: float, alpha: float, random: np.random.Generator, windows: bool = True
) -> int | None:
    """Return the index at which the level of a part of a series changes; None if none is shown.

    `noise` is the standard deviation of values from run to run, in their unit.  `alpha` is the
    allowed chance of a false change.  With `windows`, the right side that is compared with the left
    may end before the part does, so that a level that lasted only for a time is found.
    """
    scaled = _scaled(part, noise)
    if not scaled.any():
        return None
    cells = _cells(scaled)
    place = _best(cells, windows=windows)
    # The chance of a likelihood ratio falls by a factor of e when twice its logarithm rises by 2.
    bound = _changed_bound(len(part)) + 2 * math.log(ALPHA / alpha)
    # Permutations take longer, and are not needed if this fails.
    is_change = _ratio(scaled, place) > bound and _is_shown(cells, alpha, random)
    return place if is_change else None


def _changed_bound(count: int) -> float:
    """Return the bound that a change's likelihood ratio must exceed to count, for `count` runs.

    The ratio is twice the logarithm of the likelihood of a change over that of none.
    Neighbouring runs resemble each other, and this alone can look like a change.  Of series without
    a change, with an autocorrelation from 0 to 0.8, up to 2 to 3 percent exceed the bound at their
    best place.  This was found by simulation (tests/benchmarks/history.py).
    """
    return 18 - 80 / count


def _ratio(scaled: Floats, place: int) -> float:
    """Return how much better a change at `place` explains the values than no change does.

    `scaled` has the values, less their median and divided by their noise.  It is twice the
    logarithm of the likelihood ratio.  Both explanations allow that each run resembles the one
    before it.  The right side of the change ends where the part does, or earlier; the end with the
    largest ratio counts.  An earlier end must explain the values better, as many are tried.
    """
    ends = [len(scaled), *_ends(place, len(scaled))]
    at = np.arange(len(scaled))
    shapes = np.array([(at >= place) & (at < end) for end in ends], np.float64)
    ratios = Changes(scaled, shapes).ratios
    ratios[1:] -= _MANY_ENDS
    return float(ratios.max())


def _ends(place: int, size: int) -> Iterator[int]:
    """Yield the ends of a level that begins at `place` and lasted only for a time, in order.

    They are indices in a series of `size` values.  The first length is 8 values.  Up to 32 each
    further one is one value longer, and then 1/16: further from the true end, the ratio is much
    smaller.
    """
    length = _WINDOW
    while place + length < size:
        yield place + length
        length += max(1, length // _FINE)


def _noise(values: Floats) -> float:
    """Return the standard deviation of the values, estimated from differences between neighbours.

    A change of level therefore hardly affects it.  If more than half of the neighbours are equal,
    it is 1/64 of the standard deviation of all values.  It is 0 for fewer than two values, or if
    all are equal.
    """
    if len(values) < 2:
        return 0.0
    steps = np.abs(np.diff(values))
    robust = float(np.median(steps)) * _TO_SIGMA / math.sqrt(2)
    # Most neighbours may be equal, e.g. counts; then all that differ are noise or a change.
    return robust or float(np.std(values)) / 64


def _scaled(part: Floats, noise: float) -> Floats:
    """Return each value's distance from the median, divided by `noise`, and cut at -6 and 6."""
    scaled: Floats = np.clip((part - float(np.median(part))) / noise, -_FAR, _FAR)
    return scaled


def _cells(scaled: Floats) -> NDArray[np.intp]:
    """Return for each scaled value the number, from 0 to 31, of the nearest point of a grid.

    The grid has 32 points at equal distances, from -6 to 6; distribution functions are compared on
    it.
    """
    cells: NDArray[np.intp] = np.rint((scaled + _FAR) * ((_GRID - 1) / (2 * _FAR))).astype(np.intp)
    return cells


def _is_shown(cells: NDArray[np.intp], alpha: float, random: np.random.Generator) -> bool:
    """Return whether random orders of the values rarely have an energy as large as the real one.

    The energy is the largest energy distance between the two sides of any place.  `cells` has each
    value as the number of a point of a grid, in the real order.  `alpha` is the allowed chance of
    a false change.  The computation stops as soon as the answer is no.
    """
    count = min(_MOST_PERMUTATIONS, math.ceil(_HITS / alpha) - 1)
    # Of more series than that each has a share that none of them is: the likelihood has it.
    allowed = max(_HITS, math.floor(alpha * (count + 1))) - 1
    places = _tried(len(cells))
    found = _energies(cells[None, :], places).max()
    # Sums in another order may differ in their last digits.
    found *= 1 - 1e-9
    above = 0
    batch = max(1, min(count, _BATCH_VALUES // len(cells)))
    done = 0
    while done < count:
        now = min(batch, count - done)
        drawn = random.permuted(np.tile(cells, (now, 1)), axis=1)
        above += int((_energies(drawn, places).max(axis=1) >= found).sum())
        if above > allowed:
            return False
        done += now
    return True


def _tried(size: int) -> NDArray[np.intp]:
    """Return the places at which to try to divide a series of `size` values, as sorted indices.

    Near the ends every place is tried, and inside of a long series about 100 to 200.
    """
    every = max(1, size // _PLACES)
    near = min(_DENSE, size // 2)
    places = {
        *range(SHORTEST, near),
        *range(near, size - near, every),
        *range(size - near, size - SHORTEST + 1),
    }
    wanted = sorted(place for place in places if SHORTEST <= place <= size - SHORTEST)
    return np.array(wanted, dtype=np.intp)


def _best(cells: NDArray[np.intp], *, windows: bool = True) -> int:
    """Return the index at which the energy distance between the two sides of a series is largest.

    `cells` has each value as the number of a point of a grid.  With `windows`, the right side may
    end before the series does.  Not every place in the middle of a long part is tried at first;
    then all places near the best one are.
    """
    places = _tried(len(cells))
    place = int(places[int(_energies(cells[None, :], places, windows)[0].argmax())])
    every = max(1, len(cells) // _PLACES)
    if every == 1:
        return place
    around = np.arange(max(SHORTEST, place - every), min(len(cells) - SHORTEST, place + every) + 1)
    every_place = np.union1d(places, around)
    energies = _energies(cells[None, :], every_place, windows)[0]
    inside = np.isin(every_place, around)
    return int(every_place[inside][int(energies[inside].argmax())])


def _energies(
    rows: NDArray[np.intp],
    places: NDArray[np.intp],
    windows: bool = True,  # noqa: FBT001, FBT002 - private
) -> Floats:
    """Return an array (rows, places): the energy distance between the two sides of each place.

    Each of `rows` is a series, with each value as the number of a point of a grid.  `places` are
    indices in a row.  The distance is multiplied by n m / (n + m).  n is the number of values
    before the place.  m is the number from the place to the end of the right side: the end of the
    row or, with `windows`, an earlier place if that gives a larger result.
    """
    count, size = rows.shape
    blocks = np.searchsorted(places, np.arange(size), side="right")
    width = len(places) + 1
    flat = (np.arange(count)[:, None] * width + blocks[None, :]) * _GRID + rows
    histogram = np.bincount(flat.ravel(), minlength=count * width * _GRID)
    # Number of values before a place (the last is the end), and up to a cell.
    shape = (count, width, _GRID)
    below = histogram.reshape(shape).cumsum(axis=2).cumsum(axis=1).astype(np.float32)
    ends = np.append(places, size)
    left = places.astype(np.float32)
    shares = below[:, :-1] / left[None, :, None]
    energies = np.zeros((count, len(places)))
    for last in _window_ends(places, size if windows else 0):
        inside = np.flatnonzero(last > np.arange(len(places)))
        right = (ends[last[inside]] - places[inside]).astype(np.float32)
        after = (below[:, last[inside]] - below[:, inside]) / right[None, :, None]
        after -= shares[:, inside]
        squares = np.einsum("ijk,ijk->ij", after, after)
        found = 2 * squares * (left[inside] * right / (left[inside] + right))[None, :]
        energies[:, inside] = np.maximum(energies[:, inside], found)
    return energies


def _window_ends(places: NDArray[np.intp], size: int) -> Iterator[NDArray[np.intp]]:
    """Yield arrays with the possible ends of the right side of each place of a series.

    An array is for one length of the right sides; it has the end for each of `places`, which are
    indices in the series.  `size` is the length of the series, or 0 for the first array only.  An
    end is an index in `places`, or their number for the end of the series.  The first array has the
    ends of the series.  Each further one has right sides that are longer than in the one before.
    An element is 0 if it would repeat the end of a shorter one, because places may be far apart.
    """
    yield np.full(len(places), len(places), dtype=np.intp)
    length, before = _WINDOW, np.zeros(len(places), dtype=np.intp)
    while 2 * length < size:
        last = np.searchsorted(places, places + length).astype(np.intp)
        yield np.where(last == before, 0, last)
        length, before = 2 * length, last
