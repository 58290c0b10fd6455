"""The Universal Scalability Law: how throughput grows with load, and where it has its peak.

    X(N) = scale * N / (1 + contention * (N - 1) + coherency * N * (N - 1))

Gunther, Guerrilla Capacity Planning (2007), formula 4.31: what is done one at a time (contention)
bounds the throughput, what must be agreed on between each two (coherency) makes it fall again.
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
"""Fewer loads than this, for three coefficients, leave nothing to tell an error from."""
REDRAWN = 400
"""Bootstrap samples."""
_PARAMETERS = 3
_LEVEL = 0.95
_START = (0.01, 0.0001)
_LARGEST_LEVERAGE = 0.99
_NOTHING = 1e-9
"""A smaller coefficient changes no throughput of any number of sessions."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its 95 percent interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scalability:
    """A fitted law; `loads` are the smallest and the largest that were measured."""

    scale: Estimate
    """Throughput of a load of 1."""
    contention: Estimate
    coherency: Estimate
    loads: tuple[float, float]
    peak: Estimate | None
    """The load with the highest throughput; None where the law has none, or has it beyond the
    measured loads while the coherency may be 0.  Its `high` is infinite where it may be 0."""

    def throughput(self, load: float) -> float:
        """Return the throughput that the law gives for a load."""
        coefficients = (self.scale.value, self.contention.value, self.coherency.value)
        return float(_law(np.asarray(load, np.float64), *coefficients))

    @property
    def optimum(self) -> float:
        """Return the load where the straight line of the scale meets the limit: 1 / contention."""
        return 1 / self.contention.value if self.contention.value else math.inf

    @property
    def limit(self) -> float:
        """Return the throughput that contention alone would leave (Amdahl): infinite without."""
        return self.scale.value / self.contention.value if self.contention.value else math.inf


def fit(
    loads: Sequence[float], throughputs: Sequence[float], *, seed: int = 1, redrawn: int = REDRAWN
) -> Scalability:
    """Return the law through one throughput (its mean, if it was repeated) of each load.

    Least squares within 0 <= contention, coherency <= 1 and 0 <= scale, as R's package usl has it.
    The intervals are those of a bootstrap of residuals (Davison and Hinkley, 1997, section 6.2):
    each is divided by the root of 1 - leverage, and the percentile interval is widened by Student's
    t for the loads less the three coefficients (Hesterberg, 2015): few loads have wide intervals.
    Raises ReplayerError for fewer than 4 different loads, or where nothing was done.
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
    """Return scale, contention and coherency of the least squares, the last two from near these."""
    # In its own units each is near 1, whatever the throughput is counted in.
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
    # The solver stays inside the bounds, and so next to one that it means to be at.
    best: Floats = np.where(fitted < _NOTHING, 0.0, fitted)
    return best


def _slopes(load: Floats, scale: float, contention: float, coherency: float) -> Floats:
    """Return the derivatives of the law by its three coefficients, a row for each load."""
    below = 1 + contention * (load - 1) + coherency * load * (load - 1)
    by_contention = -scale * load * (load - 1) / below**2
    slopes: Floats = np.stack([load / below, by_contention, load * by_contention], axis=1)
    return slopes


def _bootstrap(
    x: Floats, y: Floats, best: Floats, random: np.random.Generator, redrawn: int
) -> Floats:
    """Return the coefficients of so many redrawn samples, a row each."""
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
    """Return the load of the highest throughput, if there is any that can be vouched for."""
    if not coherency.value:
        return None
    value = math.sqrt((1 - contention.value) / coherency.value)
    sure = coherency.low > 0
    if not sure and not span[0] <= value <= span[1]:
        return None
    with np.errstate(divide="ignore"):
        peaks = np.sqrt((1 - samples[:, 1]) / samples[:, 2])
    # Its logarithm is the nearer to a bell curve, and keeps the lower end above 0.
    logs = np.log(np.clip(peaks, np.finfo(np.float64).tiny, np.finfo(np.float64).max))
    low, high = np.quantile(logs, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]) - math.log(value)
    return Estimate(
        value,
        value * math.exp(wider * min(0.0, float(low))),
        value * math.exp(wider * max(0.0, float(high))) if sure else math.inf,
    )
