"""Likelihoods of changes in a series of values, each of which may resemble the value before it.

The noise is autoregressive of first order, with an autocorrelation between 0 and 0.8 that is not
known.  The likelihood of a series is compared with and without a change, each at the
autocorrelation that fits best.  This prewhitens the values: a few similar values are not taken for
a change, and a change is not taken for similar values.

The largest ratio of many changes is the test of Andrews ("Tests for Parameter Instability and
Structural Change with Unknown Change Point", Econometrica 61, 1993).  Robbins, Gallagher, Lund and
Aue ("Mean shift testing in correlated data", Journal of Time Series Analysis 32, 2011) show why the
autocorrelation is to be fitted together with the change.  A CUSUM divided by the long-run variance
(Kim, Park and Andreou) wants hundreds of values for that variance, and a window has tens.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_ALIKE = 0.8
"""The largest autocorrelation from second to second of a healthy window."""
_ALIKE = np.linspace(0.0, MOST_ALIKE, 9)[:, None]
_LEAST_NOISE = 1e-12
"""If a change leaves less than this share of the noise, the rest is rounding error."""


class Changes:
    """Likelihoods that the level of a series has changed, for each shape that the change may have.

    `shapes` has a row for each shape and a column for each value of the series.  A shape is 1
    within a part of the series and 0 outside, or a line.  The change is a multiple of the shape.
    Arrays inside have a row for each autocorrelation that is tried, and a column for each shape.
    """

    def __init__(self, series: Floats, shapes: Floats) -> None:
        ones, values = _weigh(np.ones(series.size)), _weigh(series)
        self._count = series.size
        # Scalar products, weighed by the inverse of the noise's covariance.
        self._ones, self._values = (one.sum(axis=1, keepdims=True) for one in (ones, values))
        self._squares = values @ series[:, None]
        self._shape_ones, self._shape_values = ones @ shapes.T, values @ shapes.T
        self._shapes = _weighed_squares(shapes)
        self._plain = self._squares - self._values**2 / self._ones
        alone = self._shapes - self._shape_ones**2 / self._ones
        sizes = (self._shape_values - self._shape_ones * self._values / self._ones) / alone
        likelihoods = self._likelihoods(self._plain - sizes**2 * alone)
        best = np.argmax(likelihoods, axis=0), np.arange(len(shapes))
        self._best: Floats = likelihoods[best]
        self.alike: Floats = _ALIKE[best[0], 0]
        """For each shape: the autocorrelation that fits best."""
        usual = (self._values[best[0], 0] - sizes[best] * self._shape_ones[best]) / (
            self._ones[best[0], 0]
        )
        self.shares: Floats = sizes[best] / np.where(usual > 0, usual, np.inf)
        """For each shape: the size of the change, as a share of the level without it."""
        self.ratios: Floats = 2 * (self._best - self._likelihoods(self._plain).max())
        """For each shape: twice the logarithm of the likelihood ratio of a change to no change."""

    def against(self, shares: Floats) -> Floats:
        """Return for each shape how much better its best change fits than one of a given size.

        A shape gives the part of the series in which the change is.  `shares` are the given sizes,
        one for each shape, as shares of the level without a change.  The result is twice the
        logarithm of the likelihood ratio.  It is 0 if the change that fits best is larger than the
        given one.
        """
        levels = self._ones + 2 * shares * self._shape_ones + shares**2 * self._shapes
        values = self._values + shares * self._shape_values
        exactly = self._likelihoods(self._squares - values**2 / levels).max(axis=0)
        larger = self.shares * np.sign(shares) >= np.abs(shares)
        ratios: Floats = np.where(larger, 0.0, 2 * (self._best - exactly))
        return ratios

    def _likelihoods(self, noise: Floats) -> Floats:
        """Return the logarithms of the likelihoods of changes, as an array like `noise`.

        `noise` has the sum of squares that each change leaves over.  It has a row for each
        autocorrelation that is tried, and a column for each shape of a change.
        """
        # A part of a series may have no value but 0.
        rounding = np.maximum(_LEAST_NOISE * self._squares, np.finfo(np.float64).tiny)
        least = np.maximum(noise, rounding)
        logs: Floats = (np.log1p(-(_ALIKE**2)) - self._count * np.log(least)) / 2
        return logs


def _weigh(values: Floats) -> Floats:
    """Return a series multiplied by the inverse of the noise's covariance.

    The result has a row for each autocorrelation of the noise that is tried, 0 to 0.8.
    """
    weighed: Floats = (1 + _ALIKE**2) * values
    weighed[:, [0, -1]] = values[[0, -1]]
    weighed[:, 1:] -= _ALIKE * values[:-1]
    weighed[:, :-1] -= _ALIKE * values[1:]
    return weighed


def _weighed_squares(shapes: Floats) -> Floats:
    """Return the sum of squares of each shape, weighed by the inverse of the noise's covariance.

    A shape is a row of `shapes`, with a value for each place of a series.  The result has a row for
    each autocorrelation of the noise that is tried, 0 to 0.8, and a column for each shape.
    """
    ends = shapes[:, 0] ** 2 + shapes[:, -1] ** 2
    beside = (shapes[:, 1:] * shapes[:, :-1]).sum(axis=1)
    squares = (shapes**2).sum(axis=1)
    weighed: Floats = squares + _ALIKE**2 * (squares - ends) - 2 * _ALIKE * beside
    return weighed
