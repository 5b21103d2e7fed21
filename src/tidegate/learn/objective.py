"""What a solver minimises: F(w) = (1/n) sum of weight_i loss(w; z_i) + lambda ||w - c||².

`Objective` is the seam for scale: a solver sees nothing else of the records. `InMemory` is the
one for arrays. n counts slots, usable or not, so it is public; weight_i is 0 or 1.
"""

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tidegate.learn.loss import UNIT, Floats, Indices, Loss

Weights = NDArray[np.float64]

Matrix = Any
"""An array or a scipy CSR array, of float32 or float64 (scipy has no types to name)."""

CHUNK = 64
"""Fewest rows multiplied at once: with ten classes such products run fastest, on one thread or
on several of a busy machine. The rounding bound rests on this and on the next number."""

LARGEST_CHUNK = 2048
"""Most rows multiplied at once: taking rows out of a CSR array is dear."""

SAMPLE = 256
"""Most rows that the preconditioner looks at."""


class Objective(Protocol):
    """A 2 lambda-strongly convex function of weights, seen through passes over the records."""

    @property
    def n(self) -> int:
        """Number of slots."""

    @property
    def d(self) -> int:
        """Number of features."""

    @property
    def norm(self) -> float:
        """Public bound R on the norm of every record."""

    @property
    def loss(self) -> Loss:
        """The loss of one record."""

    @property
    def regularization(self) -> float:
        """Lambda."""

    @property
    def center(self) -> Weights:
        """The point c the weights are drawn to."""

    def value(self, w: Weights) -> float:
        """F(w)."""

    def gradient(self, w: Weights, *, draft: bool = False) -> Weights:
        """Gradient of F at w, within what `rounding_bound` allows; a draft is cheaper, unproved."""

    def hessian_product(self, w: Weights, v: Weights) -> Weights:
        """Second derivative of F at w, applied to v."""

    def precondition(self, v: Weights) -> Weights:
        """About the inverse of the second derivative of F, applied to v: fixed, symmetric."""


class InMemory:
    """The objective of an array or CSR array that is in memory.

    Every pass reads the rows once, in chunks: a chunk's margins, residuals and gradient are
    computed while it is in cache, and sums over chunks are kept in float64. Exact passes convert
    each chunk to float64 as it comes. Draft passes run in float32, on X itself if it is float32
    and otherwise on a copy half its size.

    Args:
        X: Shape (n, d), float32 or float64, finite, exact row norms at most `norm`.
        y: Class index of each record, shape (n,).
        loss: The loss of one record.
        regularization: Lambda.
        center: The point the weights are drawn to, float64; the origin if None.
        norm: Public bound on the norm of every record.
        weights: 0 or 1 for each record; all 1 if None.

    Example:
        >>> from tidegate.learn.loss import Logistic
        >>> F = InMemory(np.eye(2), np.array([0, 1]), Logistic(), regularization=0.5, norm=1.0)
        >>> F.gradient(np.zeros(2))
        array([ 0.25, -0.25])
    """

    def __init__(  # noqa: PLR0913 - these are what defines F
        self,
        X: Matrix,
        y: Indices,
        loss: Loss,
        *,
        regularization: float,
        center: Weights | None = None,
        norm: float,
        weights: NDArray[Any] | None = None,
    ) -> None:
        self.n: int = X.shape[0]
        self.d: int = X.shape[1]
        self.norm = norm
        self.loss = loss
        self.regularization = regularization
        self.center = np.zeros(loss.shape(self.d)) if center is None else center
        self._X = X
        self._y = y
        self._weights = weights

    def value(self, w: Weights) -> float:
        """See `Objective`."""
        total = math.fsum(
            float((self.loss.value(_margins(x, w), self._y[rows]) * self._weight(rows)).sum())
            for rows, x in _chunks(self._X, np.float64, self.loss.outputs)
        )
        away = w - self.center
        return total / self.n + self.regularization * float(np.vdot(away, away))

    def gradient(self, w: Weights, *, draft: bool = False) -> Weights:
        """See `Objective`."""
        dtype: type[np.float32 | np.float64] = np.float32 if draft else np.float64
        cast: Floats = np.ascontiguousarray(w, dtype)

        def residual(x: Matrix, rows: slice) -> Floats:
            return self.loss.residual(_margins(x, cast), self._y[rows])

        data = self._mean(self._draft if draft else self._X, dtype, residual)
        return data + 2 * self.regularization * (w - self.center)

    def hessian_product(self, w: Weights, v: Weights) -> Weights:
        """See `Objective`."""

        def change(x: Matrix, rows: slice) -> Floats:
            return self.loss.curvature(_margins(x, w), self._y[rows], _margins(x, v))

        return self._mean(self._X, np.float64, change) + 2 * self.regularization * v

    def precondition(self, v: Weights) -> Weights:
        """See `Objective`; built from a few evenly spread rows at the first call."""
        return self._inverse(v)

    def _weight(self, rows: slice) -> Any:
        return 1 if self._weights is None else self._weights[rows]

    def _mean(self, X: Matrix, dtype: type, pull: Callable[[Matrix, slice], Floats]) -> Weights:
        """The one loop over records: the mean of weight_i x_i times what `pull` says of it."""
        total = np.zeros(self.loss.shape(self.d))
        for rows, x in _chunks(X, dtype, self.loss.outputs):
            total += x.T @ (pull(x, rows) * self._weight(rows)).astype(dtype, copy=False).T
        return total / self.n

    @cached_property
    def _draft(self) -> Matrix:
        return self._X.astype(np.float32, copy=False)

    @cached_property
    def _inverse(self) -> Callable[[Weights], Weights]:
        """Inverse of ridge I + scale A'A for a few rows A, by Woodbury's identity.

        A'A stands in for X'X, and one curvature for that of all records: L-BFGS learns the rest.
        """
        spread = slice(None, None, -(-self.n // SAMPLE))
        rows = self._X[spread].astype(np.float64)
        if self._weights is not None:
            rows = rows[np.flatnonzero(self._weights[spread])]
        count = rows.shape[0]
        if count == 0:
            return lambda v: v / (2 * self.regularization)
        scale = self.loss.scale / count
        # must not vanish beside the rest, or the inner matrix would lose its definiteness
        ridge = max(2 * self.regularization, 1e-10 * self.loss.scale * self.norm**2)
        products = rows @ rows.T
        inner = scale * (products.toarray() if sparse.issparse(products) else products)
        # numpy's inverse, not scipy's Cholesky: the two bring a BLAS each, and on few cores the
        # waiting threads of one cost the other more than the whole fit takes
        inverse = scale * np.linalg.inv(inner + ridge * np.eye(count))

        def solve(v: Weights) -> Weights:
            solved: Weights = (v - rows.T @ (inverse @ (rows @ v))) / ridge
            return solved

        return solve


def _chunks(X: Matrix, dtype: type, outputs: int) -> Iterator[tuple[slice, Matrix]]:
    size = LARGEST_CHUNK if sparse.issparse(X) else max(CHUNK, 640 // outputs)
    for start in range(0, X.shape[0], size):
        rows = slice(start, start + size)
        yield rows, X[rows].astype(dtype, copy=False)


def _margins(x: Matrix, w: Floats) -> Floats:
    """Margins of a chunk, classes first: sums over classes then run along whole rows."""
    if not w.any():  # the usual start: half a pass saved
        return np.zeros(w.shape[1:] + x.shape[:1], w.dtype)
    return np.ascontiguousarray((x @ w).T)


def rounding_bound(  # noqa: PLR0913 - the public numbers it rests on
    loss: Loss,
    *,
    n: int,
    d: int,
    norm: float,
    regularization: float,
    center_norm: float,
    tolerance: float,
) -> float:
    """Most by which a certificate may err, from public numbers alone.

    It is four times a bound on how far `InMemory.gradient` and the norm taken of it are from the
    exact ones, at every point within `radius` of the center: far enough for every point with a
    gradient norm of at most `tolerance`, and for the whole path of gradient descent from the
    center. Four times, so that descent with gradients this wrong is proved to reach any
    tolerance of at least twice the bound (proof: docs/proofs/minimiser.md).

    >>> from tidegate.learn.loss import Softmax
    >>> bound = rounding_bound(Softmax(10), n=8192, d=784, norm=1.0, regularization=0.01,
    ...                        center_norm=0.0, tolerance=1e-7)
    >>> 1e-13 < bound < 1e-11
    True
    """
    lipschitz, smoothness = loss.lipschitz(norm), loss.smoothness(norm)
    reach = center_norm + radius(
        loss,
        norm=norm,
        regularization=regularization,
        center_norm=center_norm,
        tolerance=tolerance,
    )
    residual = 1.01 * (d * UNIT * smoothness * reach + norm * loss.residual_error)
    additions = LARGEST_CHUNK + n // CHUNK + 8
    total = 1.01 * additions * UNIT * (lipschitz + residual)
    regularizer = 16 * UNIT * (lipschitz + tolerance + regularization * reach)
    measured = (d * loss.outputs + 8) * UNIT * tolerance
    step = 2 * UNIT * (smoothness + 2 * regularization) * reach
    return 4 * (residual + total + regularizer + measured + step) + 2.0**-900


def radius(
    loss: Loss, *, norm: float, regularization: float, center_norm: float, tolerance: float
) -> float:
    """How far from the center a certified point, or a point F is no larger at, can lie.

    >>> from tidegate.learn.loss import Logistic
    >>> radius(Logistic(), norm=1.0, regularization=0.5, center_norm=0.0, tolerance=0.0) < 1.2
    True
    """
    lipschitz = loss.lipschitz(norm)
    by_slope = lipschitz / regularization
    by_value = math.sqrt((loss.value_at_zero + lipschitz * center_norm) / regularization)
    return 1.01 * (min(by_slope, by_value) + tolerance / regularization)
