"""The Universal Scalability Law: growth of throughput with load, and its peak.

    X(N) = scale * N / (1 + contention * (N - 1) + coherency * N * (N - 1))

Gunther, Guerrilla Capacity Planning (2007), formula 4.31.  Contention is work that is done one at a
time: it limits the throughput.  Coherency is work to agree between any two sessions: it makes the
throughput fall again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from replayer.errors import ReplayerError
from replayer.lazy_import import Later

if TYPE_CHECKING:
    from scipy import optimize, special
else:
    # Few commands fit a curve, and they take half a second to load.
    optimize, special = Later("scipy.optimize"), Later("scipy.special")

Floats = NDArray[np.float64]

LEAST_LOADS = 4
"""The fewest loads: with three coefficients, fewer leave nothing to estimate an error."""
REDRAWN = 400
"""The number of bootstrap samples."""
_PARAMETERS = 3
_LEVEL = 0.95
_START = (0.01, 0.0001)
_LARGEST_LEVERAGE = 0.99
_NOTHING = 1e-9
"""A smaller coefficient has no visible effect on the throughput of any number of sessions."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its 95 percent interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scalability:
    """The Universal Scalability Law, fitted to measured throughputs: coefficients and peak.

    X(N) = scale * N / (1 + contention * (N - 1) + coherency * N * (N - 1)) is the throughput at a
    load of N, such as N sessions.  `loads` are the smallest and the largest measured load.
    """

    scale: Estimate
    """Throughput at a load of 1."""
    contention: Estimate
    coherency: Estimate
    loads: tuple[float, float]
    peak: Estimate | None
    """The load with the highest throughput.

    None if the law has no peak, or if the peak is beyond the measured loads and the coherency may
    be 0.  `high` is infinite if the coherency may be 0.
    """

    def throughput(self, load: float) -> float:
        """Return the throughput at a load, such as a number of sessions, by the fitted law.

        It is in the unit of the throughputs to which the law was fitted.
        """
        coefficients = (self.scale.value, self.contention.value, self.coherency.value)
        return float(_law(np.asarray(load, np.float64), *coefficients))

    @property
    def optimum(self) -> float:
        """Return the load 1 / contention, at which the line scale * load reaches the `limit`.

        `limit` is the highest throughput that contention allows.  The result is infinite if the
        contention is 0.
        """
        return 1 / self.contention.value if self.contention.value else math.inf

    @property
    def limit(self) -> float:
        """Return the highest throughput that contention allows (Amdahl's law).

        It is scale / contention, and infinite if the contention is 0.
        """
        return self.scale.value / self.contention.value if self.contention.value else math.inf


def fit(
    loads: Sequence[float], throughputs: Sequence[float], *, seed: int = 1, redrawn: int = REDRAWN
) -> Scalability:
    """Return the Universal Scalability Law fitted to one throughput per load.

    For a load that was repeated, the caller gives the mean throughput.  It is a least-squares fit
    with 0 <= contention, coherency <= 1 and 0 <= scale, as in R's package usl.  The intervals come
    from a bootstrap of residuals (Davison and Hinkley, 1997, section 6.2), each divided by the
    square root of 1 - leverage.  The percentile interval is widened by Student's t, for the number
    of loads less three coefficients (Hesterberg, 2015), so few loads give wide intervals.
    `redrawn` is the number of bootstrap samples.  Raises ReplayerError for fewer than 4 different
    loads, for a load that is not above zero, for a throughput that is negative or not finite, and
    if all throughputs are zero.
    """
    x, y = np.asarray(loads, np.float64), np.asarray(throughputs, np.float64)
    if np.unique(x).size < LEAST_LOADS:
        raise ReplayerError(
            f"the scalability law has three coefficients, and {np.unique(x).size} different levels "
            f"of load were measured",
            f"measure at least {LEAST_LOADS}",
        )
    if not (np.isfinite(y).all() and (y >= 0).all() and y.any()) or (x <= 0).any():
        raise ReplayerError("the scalability law needs loads and throughputs above zero")
    best = _coefficients(x, y, _START)
    samples = _bootstrap(x, y, best, np.random.default_rng(seed), redrawn)
    upper = (1 + _LEVEL) / 2
    wider = float(special.stdtrit(x.size - _PARAMETERS, upper) / special.ndtri(upper))
    scale, contention, coherency = (
        _interval(float(value), samples[:, column], wider, most)
        for column, (value, most) in enumerate(zip(best, (math.inf, 1.0, 1.0), strict=True))
    )
    span = (float(x.min()), float(x.max()))
    peak = _peak(contention, coherency, samples, wider, span)
    return Scalability(scale, contention, coherency, span, peak)


def _law(load: Floats, scale: float, contention: float, coherency: float) -> Floats:
    return scale * load / (1 + contention * (load - 1) + coherency * load * (load - 1))


def _coefficients(x: Floats, y: Floats, near: Floats | tuple[float, float]) -> Floats:
    """Return scale, contention and coherency of the least-squares fit, as an array.

    `x` are loads and `y` their throughputs.  `near` are start values of contention and coherency.
    """
    # Each coefficient is scaled to be near 1, independent of the unit of the throughput.
    units = (float(np.max(y / x)), *_START)
    fitted, _ = optimize.curve_fit(
        _law,
        x,
        y,
        p0=(units[0], *near),
        bounds=([0.0, 0.0, 0.0], [np.inf, 1.0, 1.0]),
        x_scale=units,
        jac=_slopes,
        max_nfev=2000,
    )
    # The solver stays inside of the bounds: next to 0 when it means 0.
    best: Floats = np.where(fitted < _NOTHING, 0.0, fitted)
    return best


def _slopes(load: Floats, scale: float, contention: float, coherency: float) -> Floats:
    """Return the derivatives of the scalability law by its three coefficients.

    The array has the shape (loads, 3).
    """
    below = 1 + contention * (load - 1) + coherency * load * (load - 1)
    by_contention = -scale * load * (load - 1) / below**2
    slopes: Floats = np.stack([load / below, by_contention, load * by_contention], axis=1)
    return slopes


def _bootstrap(
    x: Floats, y: Floats, best: Floats, random: np.random.Generator, redrawn: int
) -> Floats:
    """Return the coefficients of the law, fitted to bootstrap samples: an array (redrawn, 3).

    `redrawn` is the number of samples.  `x` are loads, `y` their throughputs, and `best` the
    coefficients that were fitted to them.
    """
    line = _law(x, *best)
    slopes = _slopes(x, *best)
    leverage = np.clip(np.diag(slopes @ np.linalg.pinv(slopes)), 0.0, _LARGEST_LEVERAGE)
    residuals = (y - line) / np.sqrt(1 - leverage)
    residuals -= residuals.mean()
    drawn = random.choice(residuals, size=(redrawn, x.size))
    samples: Floats = np.array(
        [_coefficients(x, np.maximum(0.0, line + one), best[1:]) for one in drawn]
    )
    return samples


def _interval(value: float, samples: Floats, wider: float, most: float) -> Estimate:
    low, high = np.quantile(samples, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Estimate(
        value,
        max(0.0, value - wider * max(0.0, value - float(low))),
        min(most, value + wider * max(0.0, float(high) - value)),
    )


def _peak(
    contention: Estimate,
    coherency: Estimate,
    samples: Floats,
    wider: float,
    span: tuple[float, float],
) -> Estimate | None:
    """Return the load with the highest throughput, with its interval; None if there is no peak.

    Also returns None if the peak is outside of `span` (the smallest and the largest measured load)
    and the coherency may be 0.  `samples` are the coefficients of the bootstrap samples.  `wider`
    is the factor by which the interval is widened.
    """
    if not coherency.value:
        return None
    value = math.sqrt((1 - contention.value) / coherency.value)
    sure = coherency.low > 0
    if not sure and not span[0] <= value <= span[1]:
        return None
    with np.errstate(divide="ignore"):
        peaks = np.sqrt((1 - samples[:, 1]) / samples[:, 2])
    # The logarithm is closer to a normal distribution, and keeps the lower end above 0.
    logs = np.log(np.clip(peaks, np.finfo(np.float64).tiny, np.finfo(np.float64).max))
    low, high = np.quantile(logs, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]) - math.log(value)
    return Estimate(
        value,
        value * math.exp(wider * min(0.0, float(low))),
        value * math.exp(wider * max(0.0, float(high))) if sure else math.inf,
    )
