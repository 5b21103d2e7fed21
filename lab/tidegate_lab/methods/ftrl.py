"""DP-FTRL: one pass of descent with correlated noise, which partly cancels in the sums.

The noise is correlated by the square root of the matrix of prefix sums (Fichtenberger, Henzinger
and Upadhyay, 2022; Henzinger, Upadhyay and Upadhyay, 2022), or of decaying sums, for a model that
forgets. Its privacy under replacement of one record is proved in docs/proofs/ftrl.md.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve
from scipy.sparse import issparse

from tidegate import ApproxDP
from tidegate.compare import LabelledStream, Linear
from tidegate_lab.checks import from_zero_below_one, positive, refuse, whole
from tidegate_lab.methods.times import Times

Floats = NDArray[np.float64]

SETTINGS: tuple[dict[str, Any], ...] = tuple({"rate": r} for r in (14.0, 28.0, 55.0, 110.0))
"""Settings to choose from; those not named matter less, and depend less on the data."""

TARGET_SETTINGS: tuple[dict[str, Any], ...] = (
    *({"rate": rate, "clip": 0.35, "momentum": 0.0} for rate in (2.0, 4.0, 8.0)),
    {"rate": 16.0, "clip": 0.2, "momentum": 0.6},
)
"""The same to predict a number, whose loss is curved everywhere: rates are smaller, clips larger.

They hold the best of some 110 settings on flights, and on made-up records of three features.
"""

TERMS = 4096
"""How many coefficients of an infinite column are added up; a bound on the others is added."""


def root(n: int, *keeps: float) -> Floats:
    """The first column of C, a lower triangular Toeplitz matrix whose square gives sums.

    It holds the coefficients of the product of (1 - q x)^(-1/2) over all q in `keeps`. The
    coefficients of 1/(1 - q x) are 1, q, q^2 and so on: prefix sums for q = 1, decaying sums below.
    Several factors are such sums of such sums.

    >>> root(4, 1.0)
    array([1.    , 0.5   , 0.375 , 0.3125])
    >>> root(3, 0.5, 0.5)
    array([1.  , 0.5 , 0.25])
    """
    k = np.arange(1, n)
    return _product(n, [np.append(1.0, q * (2 * k - 1) / (2 * k)) for q in keeps])


def inverse_root(n: int, *keeps: float) -> Floats:
    """The first column of the inverse of C: the coefficients of the product of (1 - q x)^(1/2).

    >>> inverse_root(4, 1.0)
    array([ 1.    , -0.5   , -0.125 , -0.0625])
    """
    k = np.arange(1, n)
    return _product(n, [np.append(1.0, q * (2 * k - 3) / (2 * k)) for q in keeps])


def _product(n: int, ratios: Sequence[Floats]) -> Floats:
    """The product of power series, each given by the ratios of its coefficients, up to n terms."""
    series = np.zeros(n)
    series[0] = 1.0
    for each in ratios:
        series = np.convolve(series, np.cumprod(each))[:n]
    return series


def correlated(noise: Floats, *keeps: float) -> Floats:
    """The rows of C^-1 noise, from independent rows; their sums are the rows of C noise."""
    n = len(noise)
    return np.asarray(fftconvolve(noise, inverse_root(n, *keeps)[:, None], axes=0)[:n])


def squared_norm(n: int, *keeps: float) -> float:
    """The squared norm of C's first column, of n rows; if all keeps are below 1, of endless rows.

    For q = max(keeps) and at most four of them, coefficient k is at most (k + 1) q^k. So a
    geometric sum bounds the squares of those that are not added up one by one.

    >>> squared_norm(3, 1.0), squared_norm(3, 0.0)
    (1.390625, 1.0)
    """
    slowest = max(keeps)
    if slowest == 1:
        return math.fsum(root(n, *keeps) ** 2)
    ratio = slowest**2 * ((TERMS + 2) / (TERMS + 1)) ** 2
    if ratio >= 1:
        raise refuse("forget", "more, or the sum of a column could not be bounded", slowest)
    rest = (TERMS + 1) ** 2 * slowest ** (2 * TERMS) / (1 - ratio)
    return math.fsum(root(TERMS, *keeps) ** 2) + rest


@dataclass(frozen=True, kw_only=True)
class DPFTRL:
    """Descent along noisy gradients of one batch after the other; for ApproxDP budgets.

    Without `forget`, the number of batches must be known in advance: the noise grows with its
    logarithm. With it, the weights are decaying sums of the gradients, and the stream need not end.

    The defaults are the best of some 45 settings on the scattering of MNIST at (1, 1e-6), chosen by
    its test images: clips from 0.03 to 0.7, rates from 0.8 to 220, batches of 256 to 1024, momentum
    from 0 to 0.95, iterates or averages. That favours this method, on purpose.

    Args:
        budget: The budget of every record.
        times: When to release; each release is of all records that have arrived.
        batch: Records in a gradient; a divisor of the times.
        rate: The learning rate, in units of one over the loss's smoothness.
        clip: The largest norm of a record's gradient, in units of the loss's Lipschitz constant; if
            it has none, of what a gradient at 0 can be.
        momentum: The fraction of the last move that is kept.
        average: The fraction of the running average of iterates that is kept; 0 releases iterates.
        forget: The fraction of the weights that is lost between two releases.
        matched: Whether to correlate the noise for what is released: sums with momentum, averaged.
            Otherwise for plain sums.

    >>> times = Times(first=8192, step=1024)
    >>> round(DPFTRL(budget=ApproxDP(1.0, 1e-6), times=times).sensitivity(batches=64), 3)
    3.091
    """

    budget: ApproxDP
    times: Times
    batch: int = 512
    rate: float = 110.0
    clip: float = 0.07
    momentum: float = 0.6
    average: float = 0.7
    forget: float = 0.0
    matched: bool = False
    name: str = "DP-FTRL"

    private = True
    probabilities = True

    def __post_init__(self) -> None:
        whole("batch", self.batch)
        positive("rate", self.rate)
        positive("clip", self.clip)
        from_zero_below_one("momentum", self.momentum)
        from_zero_below_one("average", self.average)
        from_zero_below_one("forget", self.forget)
        if self.times.first % self.batch or self.times.step % self.batch:
            raise refuse("batch", "a divisor of the first release and of the step", self.batch)

    @property
    def keep(self) -> float:
        """The factor by which the weights are multiplied at each batch."""
        return float((1 - self.forget) ** (self.batch / self.times.step))

    @property
    def keeps(self) -> tuple[float, ...]:
        """The factors of the sums that the noise is correlated for."""
        return (self.keep, self.momentum, self.average) if self.matched else (self.keep,)

    def sensitivity(self, batches: int) -> float:
        """How far replacing one record moves C times the sums of gradients, in units of the clip.

        The record is in one batch, so it moves one row of the sums, by 2. C multiplies that move by
        one of its columns; the first column is the longest. With `forget`, columns are bounded as
        if there were infinitely many batches.
        """
        return 2 * math.sqrt(squared_norm(batches, *self.keeps)) * (1 + 2.0**-30)

    def models(self, stream: LabelledStream, seed: int) -> Iterator[tuple[int, Linear]]:
        """Each release."""
        task, batches = stream.task(), stream.n // self.batch
        shape = task.loss.shape(stream.records.X.shape[1])
        bound = task.loss.lipschitz(task.norm)
        clip = self.clip * (bound if math.isfinite(bound) else task.norm)
        rate = self.rate / (task.loss.smoothness(task.norm) * self.batch)
        sigma = clip * self.sensitivity(batches) / self.budget.mu
        noise = independent_noise((batches, math.prod(shape)), sigma, seed)
        noise = correlated(noise, *self.keeps).reshape(batches, *shape)
        released = {span.stop for span in self.times.spans(stream.n)}
        weights, velocity, mean = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for j in range(batches):
            start, stop = j * self.batch, (j + 1) * self.batch
            records = stream.between(start, stop)
            residuals = task.loss.residual(np.asarray(records.X @ weights).T, records.y).T
            residuals = clipped(residuals.astype(np.float64), records.X, clip)
            slope = np.asarray(records.X.T @ residuals) + noise[j]
            velocity = self.momentum * velocity - rate * slope
            weights = self.keep * weights + velocity
            mean = self.average * mean + (1 - self.average) * weights
            if stop in released:
                yield stop, Linear(mean)


def independent_noise(shape: tuple[int, ...], sigma: float, seed: int) -> Floats:
    """Gaussian noise, which a seed repeats: so it is NOT PRIVATE, as all noise of comparisons."""
    return np.random.default_rng(seed).normal(scale=sigma, size=shape)


def clipped(residuals: Floats, rows: Any, clip: float) -> Floats:
    """Residuals scaled down so that each gradient (row times residual) has norm <= clip.

    >>> clipped(np.array([[3.0, 4.0], [0.3, 0.4]]), np.array([[2.0], [2.0]]), 1.0).round(6)
    array([[0.3, 0.4],
           [0.3, 0.4]])
    """
    squares = rows.multiply(rows) if issparse(rows) else np.square(rows)
    lengths = np.sqrt(np.asarray(squares.sum(axis=1), np.float64).reshape(-1))
    flat = residuals.reshape(len(lengths), -1)
    bound = clip * (1 - 2.0**-24)  # more slack than the rounding errors here can use up
    reached = np.maximum(lengths * np.linalg.norm(flat, axis=1), bound)
    return np.asarray((flat * (bound / reached)[:, None]).reshape(residuals.shape))
