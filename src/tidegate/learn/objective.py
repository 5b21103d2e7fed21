"""The objective of a fit: F(w) = (1/M) sum of a_i usable_i loss(w; z_i) + lambda ||w - c||².

Solvers access the records only through an `Objective`, so their parts can be stored anywhere.
usable_i is 0 or 1; the slot weights a_i are in [0, 1], and 1 if there are none. M is at least the
sum of all a_i, for usable slots and others, so it is public.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tidegate.data.records import MERGES, Parts, Records, join, merged, total
from tidegate.learn.loss import UNIT, Floats, Loss
from tidegate.learn.slot_weights import by_record

Weights = NDArray[np.float64]

Matrix = Any
"""An array or a scipy CSR array, of float32 or float64 (scipy has no types to name)."""

CHUNK = 64
"""Fewest rows multiplied at once: with ten classes, products of this size run fastest, on one
thread or on several of a busy machine."""

LARGEST_CHUNK = 2048
"""Most rows multiplied at once, for CSR arrays, which are slow to slice. The rounding bound depends
on this number and on the next."""

GROUP = 64
"""Number of chunks summed one after the other; the sums of such groups are added in a tree."""

SAMPLE = 256
"""Most rows that the preconditioner uses."""


class Objective:
    """A 2 lambda-strongly convex function of the weights, evaluated in passes over the records.

    A pass reads the rows of every part once, in chunks: a chunk's margins, residuals and gradient
    are computed while it is in cache, and sums over chunks and parts are kept in float64. Exact
    passes convert each chunk to float64 in turn. Draft passes run in float32: on the rows
    themselves if they are float32, otherwise on a copy half their size.

    Args:
        records: The slots; exact row norms are at most `norm`.
        loss: The loss of one record.
        regularization: Lambda.
        center: The point towards which the weights are pulled, float64; the origin if None.
        norm: Public bound on the norm of every record.
        mass: M, at least the sum of all slot weights; by default the number of slots.

    >>> from tidegate.learn.loss import Logistic
    >>> records = Records(np.eye(2), np.array([0, 1]), np.ones(2, np.bool_))
    >>> Objective(records, Logistic(), regularization=0.5, norm=1.0).gradient(np.zeros(2))
    array([ 0.25, -0.25])
    """

    def __init__(  # noqa: PLR0913 - the records and the public numbers of a fit
        self,
        records: Parts[Records],
        loss: Loss,
        *,
        regularization: float,
        center: Weights | None = None,
        norm: float,
        mass: float | None = None,
    ) -> None:
        self.records = records
        self.mass = records.n if mass is None else mass
        self.d = records.d
        self.norm = norm
        self.loss = loss
        self.regularization = regularization
        self.center = np.zeros(loss.shape(self.d)) if center is None else center

    def gradient(self, w: Weights, *, draft: bool = False) -> Weights:
        """Gradient at w, with errors within `rounding_bound`; cheaper but unproved if a draft."""
        records, dtype = (self._drafts, np.float32) if draft else (self.records, np.float64)
        work = partial(_slopes, loss=self.loss, w=np.ascontiguousarray(w, dtype))
        return total(records, work) / self.mass + 2 * self.regularization * (w - self.center)

    def precondition(self, v: Weights) -> Weights:
        """Apply an approximate inverse Hessian to v.

        It is symmetric and fixed: the first call builds it from a few evenly spread rows.
        """
        return self._inverse(v)

    @cached_property
    def _drafts(self) -> Parts[Records]:
        narrow = self.records.form.dtype == np.float32
        return self.records if narrow else self.records.map(_draft)

    @cached_property
    def _inverse(self) -> Callable[[Weights], Weights]:
        """Inverse of ridge I + scale A'A for a few rows A, by Woodbury's identity.

        A'A approximates X'X, and one curvature that of all records; L-BFGS learns the rest.
        """
        few = self.records.fold(
            partial(_evenly_spaced, stride=-(-self.records.n // SAMPLE)), _thinned
        )
        few = _evenly_spaced(few, stride=-(-few.n // SAMPLE))
        rows = few.X[few.usable].astype(np.float64)
        count = rows.shape[0]
        if count == 0:
            return lambda v: v / (2 * self.regularization)
        scale = self.loss.scale / count
        # large enough beside the rest that the inner matrix stays positive definite
        ridge = max(2 * self.regularization, 1e-10 * self.loss.scale * self.norm**2)
        products: Matrix = rows @ rows.T
        inner = scale * (products.toarray() if sparse.issparse(products) else products)
        # numpy's inverse, not scipy's Cholesky: each ships its own BLAS, and on few cores the idle
        # threads of one cost the other more time than the whole fit takes
        inverse = scale * np.linalg.inv(inner + ridge * np.eye(count))

        def solve(v: Weights) -> Weights:
            solved: Weights = (v - rows.T @ (inverse @ (rows @ v))) / ridge
            return solved

        return solve


# --- a pass over one part


def _slopes(records: Records, *, loss: Loss, w: Floats) -> Weights:
    """The sum of a_i used_i times the gradient of record i, in the precision of the weights."""
    by_record(records)
    all_usable = bool(records.usable.all())

    def groups() -> Iterator[Weights]:
        chunks = _chunks(records.X, w.dtype, loss.outputs)
        for first in chunks:
            summed = np.zeros(loss.shape(records.d))
            for rows, x in chain([first], islice(chunks, GROUP - 1)):
                pulls = loss.residual(_margins(x, w), records.y[rows])
                if not all_usable:
                    pulls = pulls * records.usable[rows]
                if records.slot_weights is not None:
                    pulls = pulls * records.slot_weights[rows]
                summed += x.T @ pulls.astype(w.dtype, copy=False).T
            yield summed

    return merged(groups(), np.add)


def _draft(records: Records) -> Records:
    return replace(records, X=records.X.astype(np.float32))


def _evenly_spaced(records: Records, *, stride: int) -> Records:
    """Every stride-th slot, copied: a view would keep all the others in memory."""
    return records.take(slice(None, None, stride)).copy()


def _thinned(one: Records, other: Records) -> Records:
    """Both joined, and halved if long: each part gives at least a slot, and parts may be many."""
    both = join([one, other])
    return both if both.n <= 2 * SAMPLE else _evenly_spaced(both, stride=2)


def _chunks(X: Matrix, dtype: Any, outputs: int) -> Iterator[tuple[slice, Matrix]]:
    """The rows in chunks; a converted chunk is overwritten by the next."""
    thin = sparse.issparse(X)
    size = LARGEST_CHUNK if thin else max(CHUNK, 640 // outputs)
    # One buffer for all chunks: if freed memory returns to the system at once, as on Dask workers,
    # allocating one per chunk takes several times as long as the computation. Zeros, because
    # products of a short last chunk may read past its end and warn about values never used.
    buffer = None if thin or X.dtype == dtype else np.zeros((size, X.shape[1]), dtype)
    for start in range(0, X.shape[0], size):
        rows = slice(start, start + size)
        if buffer is None:
            yield rows, X[rows].astype(dtype, copy=False)
        else:
            chunk = buffer[: min(size, X.shape[0] - start)]
            chunk[...] = X[rows]
            yield rows, chunk


def _margins(x: Matrix, w: Floats) -> Floats:
    """Margins of a chunk, classes first, so that sums over classes run along whole rows."""
    if not w.any():  # the usual start: saves half a pass
        return np.zeros(w.shape[1:] + x.shape[:1], w.dtype)
    return np.ascontiguousarray((x @ w).T)


def rounding_bound(  # noqa: PLR0913 - the public numbers it depends on
    loss: Loss,
    *,
    d: int,
    norm: float,
    regularization: float,
    center_norm: float,
    tolerance: float,
) -> float:
    """Bound on the error of a certificate, from public numbers; it does not depend on n.

    It is four times a bound on the errors of `Objective.gradient` and of its computed norm, at
    every point within `radius` of the center. That covers every point with a gradient norm of at
    most `tolerance`, and the whole path of gradient descent from the center. With the factor of
    four, descent on such gradients is proved to reach any tolerance of at least twice the bound
    (proof: docs/proofs/minimiser.md).

    >>> from tidegate.learn.loss import Softmax
    >>> bound = rounding_bound(Softmax(10), d=784, norm=1.0, regularization=0.01,
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
    additions = LARGEST_CHUNK + GROUP + 2 * MERGES + 8
    total = 1.01 * additions * UNIT * (lipschitz + residual)
    regularizer = 16 * UNIT * (lipschitz + tolerance + regularization * reach)
    measured = (d * loss.outputs + 8) * UNIT * tolerance
    step = 2 * UNIT * (smoothness + 2 * regularization) * reach
    return 4 * (residual + total + regularizer + measured + step) + 2.0**-900


def radius(
    loss: Loss, *, norm: float, regularization: float, center_norm: float, tolerance: float
) -> float:
    """Bound on ||w - center|| for a certified point w, or for one with F(w) <= F(center).

    >>> from tidegate.learn.loss import Logistic
    >>> radius(Logistic(), norm=1.0, regularization=0.5, center_norm=0.0, tolerance=0.0) < 1.2
    True
    """
    lipschitz = loss.lipschitz(norm)
    by_slope = lipschitz / regularization
    by_value = math.sqrt((loss.value_at_zero + lipschitz * center_norm) / regularization)
    return 1.01 * (min(by_slope, by_value) + tolerance / regularization)
