"""`tidegate.learn.minimize`: the certified minimiser for arrays."""

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tidegate.checks import positive, refuse
from tidegate.data.predicted import Target
from tidegate.data.records import Records
from tidegate.data.rows import row_norms
from tidegate.learn.loss import LOSSES, UNIT, HuberError, Indices, Loss, Squared, TargetLoss
from tidegate.learn.objective import LARGEST_CHUNK, Matrix, Objective, Weights
from tidegate.learn.solver import Solution, certified_minimum


def minimize(  # noqa: PLR0913 - the problem and its options
    loss: str | Loss | Squared,
    X: Any,
    y: ArrayLike | None = None,
    *,
    regularization: float,
    center: ArrayLike | None = None,
    tolerance: float = 1e-8,
    classes: Sequence[Any] | int | None = None,
    target: Target | None = None,
    norm: float | None = None,
    weights: ArrayLike | None = None,
    start: ArrayLike | None = None,
) -> Solution:
    """Minimise mean(loss) + regularization * ||w - center||² to a certified gradient norm.

    This function is **not private**. A missing norm, and missing classes of a loss given by name,
    are computed from the records. Private callers pass a public `norm` and a loss object, with
    class indices in y: then nothing but the minimiser depends on the records.

    Args:
        loss: "logistic", "softmax", "huber", "squared", or a loss object.
        X: Array or CSR array of shape (n, d); all types but float32 are converted to float64.
        y: Labels of shape (n,); the distinct labels, sorted, are classes 0, 1, ... If there is
            only one and the loss is binary, it counts as class 1 if it is 1. Not used by "squared".
        regularization: Lambda, above 0.
        center: The point towards which the weights are pulled; the origin if None.
        tolerance: Largest gradient norm of the result, including rounding errors.
        classes: All classes, or their number K if they are 0 to K - 1; taken from y if None.
        target: The range of the numbers in y, for `HuberError`; weights are in units of half of it.
            With a large h it minimises squared errors.
        norm: Bound on the norm of every row; the largest norm in X if None.
        weights: 0 or 1 for each record; the mean still divides by n. All 1 if None.
        start: Where the search begins; the center if None. "squared" needs no search.

    Returns:
        Solution: `weights` of shape (d, K) for softmax, (d,) otherwise, and `gradient_norm`.

    Example:
        >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
        >>> solution = minimize("logistic", X, ["no", "yes", "yes"], regularization=0.1)
        >>> solution.weights.round(4), solution.gradient_norm <= 1e-8
        (array([-0.3325,  0.9496]), True)
    """
    lam, tolerance = positive("regularization", regularization), positive("tolerance", tolerance)
    X = _matrix(X)
    n, d = X.shape
    mask = np.ones(n, np.bool_) if weights is None else _mask(weights, n)
    if loss == Squared.kind or isinstance(loss, Squared):
        squared = loss if isinstance(loss, Squared) else Squared()
        return _squared(
            squared,
            X,
            lam=lam,
            center=_center(center, (d,)),
            tolerance=tolerance,
            norm=norm,
            mask=mask,
        )
    if y is None:
        raise refuse("y", "given for this loss", y)
    if isinstance(loss, TargetLoss) or target is not None:
        loss, indices = _targets(loss, y, target)
    else:
        loss, indices = _coded(loss, np.asarray(y), classes)
    if indices.shape != (n,):
        raise refuse("y", f"of shape ({n},)", indices.shape)
    objective = Objective(
        Records(X, indices, mask),
        loss,
        regularization=lam,
        center=_center(center, loss.shape(d)),
        norm=_norm(X, norm),
    )
    begin = objective.center if start is None else _center(start, loss.shape(d), "start")
    return certified_minimum(objective, tolerance, begin)


def _matrix(X: Any) -> Matrix:
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        if not X.has_canonical_format:  # duplicates add up: the norm is that of the sum
            X = X.copy()
            X.sum_duplicates()
    else:
        X = np.ascontiguousarray(X)
    if X.ndim != 2 or 0 in X.shape:
        raise refuse("X", "a matrix with at least one row and one column", X.shape)
    return X if X.dtype == np.float32 else X.astype(np.float64, copy=False)


def _mask(weights: ArrayLike, n: int) -> NDArray[np.bool_]:
    mask = np.asarray(weights)
    if mask.shape != (n,) or not np.isin(mask, (0, 1)).all():
        raise refuse("weights", f"{n} numbers that are 0 or 1", shown=f"shape {mask.shape}")
    return mask.astype(np.bool_)


def _center(center: ArrayLike | None, shape: tuple[int, ...], name: str = "center") -> Weights:
    c = np.zeros(shape) if center is None else np.array(center, np.float64)
    if c.shape != shape or not np.isfinite(c).all():
        raise refuse(name, f"finite and of shape {shape}", shown=f"shape {c.shape}")
    return c


def _norm(X: Matrix, norm: float | None) -> float:
    """The public norm if given, or a bound on all exact row norms."""
    if norm is not None:
        return positive("norm", norm)
    norms, powers = row_norms(X)
    if np.isnan(norms).any():
        raise refuse("X", "finite", shown="a row with an infinite entry or NaN")
    if not norms.any():
        return 1.0
    with np.errstate(over="ignore", under="ignore"):
        largest = float((norms / powers).max() * (1 + 2 * (X.shape[1] + 16) * UNIT))
    if not math.isfinite(largest):
        raise refuse("X", "of finite norms", shown="a row whose norm is too large for a float")
    return max(largest, sys.float_info.min)  # below it, rounding can exceed the factor


def _coded(
    loss: str | Loss, y: NDArray[Any], classes: Sequence[Any] | int | None
) -> tuple[Loss, Indices]:
    """The loss object and the class index of each record."""
    if not isinstance(loss, str):
        labels = np.arange(max(2, loss.outputs))
        return loss, _indices(y, labels)
    if loss not in LOSSES:
        names = ", ".join([*LOSSES, Squared.kind])
        raise refuse("loss", f"one of {names} or a loss object", loss)
    public = np.arange(classes) if isinstance(classes, int) else classes
    labels = np.unique(y if public is None else np.asarray(public))
    kind = LOSSES[loss]
    if kind.most_classes == 2 and labels.size == 1 and classes is None:
        return kind.of(2), (y == 1).astype(np.intp)
    if kind.most_classes == 2 and labels.size != 2:
        raise refuse("classes", "two for this loss", labels.size)
    return kind.of(labels.size), _indices(y, labels)


def _targets(loss: Any, y: Any, target: Target | None) -> tuple[Loss, Indices]:
    """The loss object and the code of each record's target."""
    if not isinstance(loss, HuberError) or target is None:
        shown = getattr(loss, "kind", str(loss)) if target is not None else "no target"
        raise refuse("loss", "HuberError(h) with a target, or a loss of classes", shown=shown)
    codes, usable = target.codes(y)
    if not usable.all():
        raise refuse("y", "finite numbers", shown="something else")
    return loss, codes


def _indices(y: NDArray[Any], labels: NDArray[Any]) -> Indices:
    indices = np.searchsorted(labels, y).clip(max=labels.size - 1)
    if not np.array_equal(labels[indices], y):
        raise refuse("y", "made of the classes alone", shown="another label")  # never say which
    return indices.astype(np.intp)


def _squared(  # noqa: PLR0913 - the closed form of `minimize`, private to it
    loss: Squared,
    X: Matrix,
    *,
    lam: float,
    center: Weights,
    tolerance: float,
    norm: float | None,
    mask: NDArray[np.bool_],
) -> Solution:
    """The closed form c + (mean - c)/(1 + lambda), whose gradient is rounding error alone."""
    n, d = X.shape
    point = np.zeros(d) if loss.point is None else _center(loss.point, (d,))
    size = max(_norm(X, norm), math.hypot(*point)) + (1 + lam) * math.hypot(*center)
    bound = 2.02 * UNIT * (LARGEST_CHUNK + n // LARGEST_CHUNK + 16) * size
    if not tolerance >= bound:
        raise refuse(
            "tolerance", f"at least {bound:.3g} (float64 can prove no smaller one)", tolerance
        )
    used = mask.astype(np.float64)
    total = (n - used.sum()) * point
    for start in range(0, n, LARGEST_CHUNK):
        rows = slice(start, start + LARGEST_CHUNK)
        total += used[rows] @ X[rows].astype(np.float64, copy=False)
    return Solution(weights=center + (total / n - center) / (1 + lam), gradient_norm=bound)
