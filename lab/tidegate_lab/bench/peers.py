"""Other libraries that do a part of the same work; none has to be installed."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import linear_model

from tidegate import InvalidValueError
from tidegate_lab.bench.table import say
from tidegate_lab.methods.diffprivlib import logistic_regression

Floats = NDArray[Any]
Labels = NDArray[np.intp]


def module(name: str) -> Any:
    """A peer's module; None, with a line to say so, if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        say(f"Not compared with {name}: {error} (pip install './lab[bench]')")
        return None


def sklearn_logistic(X: Floats, y: Labels, regularization: float, tol: float) -> Floats:
    """scikit-learn's minimiser of the same objective."""
    C = 1 / (2 * regularization * len(X))
    model = linear_model.LogisticRegression(C=C, fit_intercept=False, tol=tol, max_iter=10_000)
    weights: Floats = model.fit(X, y).coef_.T.astype(np.float64)
    return weights


def diffprivlib_logistic() -> Callable[[Floats, Labels, float, float], object] | None:
    """diffprivlib's private fit with the same regularisation: K models, one against the rest.

    `tol` bounds the entries of a gradient; its guarantee speaks of the exact minimiser, and takes
    no note of it.
    """
    try:
        logistic_regression()
    except InvalidValueError as error:
        say(f"Not compared with diffprivlib: {error}")
        return None

    def fit(X: Floats, y: Labels, regularization: float, tol: float) -> object:
        C = 1 / (2 * regularization * len(X))
        model = logistic_regression(epsilon=1.0, data_norm=1.0, C=C, fit_intercept=False, tol=tol)
        return model.fit(X, y)

    return fit


def torch_sgd() -> Callable[[Floats, Labels, float], object] | None:
    """The paper's recipe but for its noise: 500 steps of 256 records, the i-th at rate 1/(10 i)."""
    torch = module("torch")
    if torch is None:
        return None

    def fit(X: Floats, y: Labels, regularization: float) -> object:
        rows, labels = torch.from_numpy(X), torch.from_numpy(y)
        model = torch.nn.Linear(X.shape[1], 10, bias=False)
        descent = torch.optim.SGD(model.parameters(), weight_decay=2 * regularization)
        for i in range(1, 501):
            batch = torch.randint(len(rows), (256,))
            descent.param_groups[0]["lr"] = 1 / (10 * i)
            descent.zero_grad()
            torch.nn.functional.cross_entropy(model(rows[batch]), labels[batch]).backward()
            descent.step()
        return model

    return fit


def opendp_gaussians(center: Floats) -> dict[str, Callable[[], object]]:
    """OpenDP's vector Gaussian on its default lattice and on ours; nothing if not installed."""
    dp = module("opendp.prelude")
    if dp is None:
        return {}
    dp.enable_features("contrib")
    vectors = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(center))
    space = vectors, dp.l2_distance(T=float)
    default = dp.m.make_gaussian(*space, scale=1.0)
    coarse = dp.m.make_gaussian(*space, scale=1.0, k=-16)
    values = center.tolist()
    return {"OpenDP": lambda: default(values), "OpenDP, our lattice": lambda: coarse(values)}
