"""What moves while it is measured: repeats that warm up, seconds that drift, boots that do."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The repeats of a step


@dataclass(frozen=True, slots=True)
class Steady:
    """Which part of a series is steady: `values[start:]`, or none of it if `start` is None."""

    start: int | None
    left: bool = False
    """True if the series was steady once and is not at its end."""


WINDOW = 5
"""Values in the window that must be steady."""
SLOPE = 0.05
"""The window's least-squares line may move by this share of the mean from first to last value."""
DEVIATION = 0.10
"""No value of the window may be further from its mean than this share of it."""
_SLOPE_ERRORS = 3.0
_DEVIATION_ERRORS = 3.5
_MOST_NOISE = 0.05
"""More noise than this is no excuse: what is as wild is not steady."""


def steady(
    values: Sequence[float],
    *,
    window: int = WINDOW,
    slope: float = SLOPE,
    deviation: float = DEVIATION,
) -> Steady:
    """Return where the values become steady, by the rule of fio's `steadystate`.

    A window of values is steady when its least-squares line moves less than `slope` of the mean
    over the window, and no value is further than `deviation` of the mean from it.  Both give way to
    what the noise from value to value, up to 5 percent, does to them by itself.  The steady part
    starts at the first value of the first steady window.  Fewer values than a window cannot tell:
    all of them count.
    """
    series = np.asarray(values, dtype=np.float64)
    if series.size < window:
        return Steady(0)
    windows = np.lib.stride_tricks.sliding_window_view(series, window)
    means = windows.mean(axis=1)
    x = np.arange(window) - (window - 1) / 2
    drift = np.abs(windows @ x / (x @ x)) * (window - 1)
    furthest = np.abs(windows - means[:, None]).max(axis=1)
    noise = min(_MOST_NOISE, _noise(series))
    slope = max(slope, _SLOPE_ERRORS * noise * (window - 1) / math.sqrt(float(x @ x)))
    deviation = max(deviation, _DEVIATION_ERRORS * noise)
    calm = (drift <= slope * np.abs(means)) & (furthest <= deviation * np.abs(means))
    if not calm.any():
        return Steady(None)
    return Steady(int(np.argmax(calm)), left=not bool(calm[-1]))


def _noise(series: Floats) -> float:
    """Return the noise from value to value as a share; a straight line has none."""
    middle = abs(float(np.median(series)))
    if not middle:
        return 0.0
    # Second differences are 0 on a line, and their variance is six times that of the values; the
    # median of a bell curve's size is 0.6745 of its standard deviation.
    return float(np.median(np.abs(np.diff(series, 2)))) / (0.6745 * math.sqrt(6)) / middle


# The seconds of one measurement


@dataclass(frozen=True, slots=True)
class Trend:
    """How far a series moved along its line, as a share of its mean, and over which values."""

    share: float
    begin: int
    end: int


WILD = 0.25
"""More noise than this from second to second is never steady, whether it moves or not."""
LEAST_SECONDS = 9
"""Fewer values than this cannot tell a trend from noise."""
_WARM_UP = 3
"""One part in so many, the first, is left out: it may warm up."""
_MOVED = 0.05
_SURE = NormalDist().inv_cdf(1 - 0.0093 / 2)
"""2.6 standard errors, which noise alone exceeds in 0.9 percent of lines."""
_CONSISTENT = 0.5
_MOST_CORRELATION = 0.9


def trend(values: Sequence[float]) -> Trend | None:
    """Return by how much the values moved from one end to the other, None if it may be noise.

    The first third may warm up.  A line through the rest has moved if it did so by more than 5
    percent and by more than 2.6 standard errors.  So has a line through all the values, which sees
    more, if the rest moved at least half as fast.  The standard errors are those of noise of which
    each second may resemble the one before it (autoregressive, of first order), and 2.6 is widened
    for few values as Student's t is.
    """
    series = np.asarray(values, dtype=np.float64)
    if series.size < LEAST_SECONDS or series.mean() <= 0:
        return None
    first = series.size // _WARM_UP
    rest, whole = _line(series[first:]), _line(series)
    if rest.moved:
        return Trend(rest.share, first, series.size)
    speed = rest.share / (series.size - first - 1) * (series.size - 1)
    if whole.moved and speed / whole.share >= _CONSISTENT:
        return Trend(whole.share, 0, series.size)
    return None


def wild(values: Sequence[float]) -> bool:
    """Tell whether values of any trend are too noisy to be called steady."""
    line = _line(np.asarray(values, dtype=np.float64)) if np.mean(values) > 0 else None
    return line is not None and line.noise > WILD


@dataclass(frozen=True, slots=True)
class _Line:
    share: float
    error: float
    noise: float
    free: int

    @property
    def moved(self) -> bool:
        # Student's t by its first term beyond the normal distribution (Cornish and Fisher).
        sure = _SURE + (_SURE**3 + _SURE) / (4 * self.free)
        return abs(self.share) > max(_MOVED, sure * self.error)


def _line(series: Floats) -> _Line:
    """Return how far a least-squares line moves from the first value to the last, and its error."""
    x = np.arange(series.size) - (series.size - 1) / 2
    mean, squares, free = float(series.mean()), float(x @ x), series.size - 2
    slope = float(x @ series) / squares
    rest = series - mean - slope * x
    noise = float(rest @ rest)
    alike = float(rest[1:] @ rest[:-1]) / noise if noise else 0.0
    alike = min(_MOST_CORRELATION, max(0.0, alike + (1 + 4 * max(0.0, alike)) / series.size))
    wider = math.sqrt((1 + alike) / (1 - alike))
    reach = (series.size - 1) / mean
    error = wider * math.sqrt(noise / free / squares) * reach
    return _Line(slope * reach, error, math.sqrt(noise / free) / mean, free)


# The boots of a comparison

_DRIFT_SURE = NormalDist().inv_cdf(1 - 0.01 / 2)


def interleaved(base: Floats, other: Floats) -> float:
    """Return in which share of all pairs the unit of `other` came after that of `base`.

    The values are times, or places in an order.  A B B A gives a half, A A B B one.
    """
    later = (other[None, :] > base[:, None]).mean() + (other[None, :] == base[:, None]).mean() / 2
    return float(later)


def drift(sides: Sequence[Floats], places: Sequence[Floats]) -> float:
    """Return by how much the logarithm of the values moves from one place to the next, or 0.

    `places` are those of the sides' units in the order in which both were measured.  The drift is
    the median of the slopes between any two units of one side (Theil and Sen), so that what the
    sides differ by is no part of it; it is 0 unless Kendall's test within the sides shows it at one
    percent.
    """
    slopes, agreed, variance = [], 0.0, 0.0
    for values, at in zip(sides, places, strict=True):
        count = values.size
        if (values <= 0).any():
            return 0.0
        one, two = np.triu_indices(count, 1)
        rise, run = np.log(values[two] / values[one]), at[two] - at[one]
        slopes += (rise[run != 0] / run[run != 0]).tolist()
        agreed += float(np.sum(np.sign(rise) * np.sign(run)))
        variance += count * (count - 1) * (2 * count + 5) / 18
    if not slopes or abs(agreed) <= _DRIFT_SURE * math.sqrt(variance):
        return 0.0
    return float(np.median(slopes))


def without_drift(
    raw: tuple[Floats, Floats], places: tuple[Floats, ...]
) -> tuple[tuple[Floats, Floats], float | None]:
    """Return the values with their drift over time taken out, and how large it was, if it was."""
    known = [np.isfinite(values) for values in raw]
    slope = drift(
        [values[here] for values, here in zip(raw, known, strict=True)],
        [at[here] for at, here in zip(places, known, strict=True)],
    )
    if not slope:
        return raw, None
    all_places = np.concatenate(places)
    middle = float(all_places.mean())
    below, above = (
        values * np.exp(-slope * (at - middle)) for values, at in zip(raw, places, strict=True)
    )
    return (below, above), math.expm1(slope * float(np.ptp(all_places)))
