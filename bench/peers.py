"""Other libraries that do a part of the same work; none has to be installed."""

from collections.abc import Callable
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn import linear_model

Floats = NDArray[Any]
Labels = NDArray[np.intp]


def module(name: str) -> Any:
    """A peer's module; None, with a line to say so, if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        print(f"Not compared with {name}: {error} (pip install -e '.[bench]')")
        return None


def sklearn_logistic(X: Floats, y: Labels, regularization: float, tol: float) -> Floats:
    """scikit-learn's minimiser of the same objective."""
    C = 1 / (2 * regularization * len(X))
    model = linear_model.LogisticRegression(C=C, fit_intercept=False, tol=tol, max_iter=10_000)
    weights: Floats = model.fit(X, y).coef_.T.astype(np.float64)
    return weights


def diffprivlib_logistic() -> Callable[[Floats, Labels, float, float], object] | None:
    """diffprivlib's private fit with the same regularisation: K models, one against the rest.

    Its release 0.6.6 asks scikit-learn for two names and an argument that are there no more; they
    mean nothing to this model, and are put back for the time it takes. `tol` bounds the entries of
    a gradient; its guarantee speaks of the exact minimiser, and takes no note of it.
    """
    tree = import_module("sklearn.tree._tree")
    with (
        patch.object(tree, "DOUBLE", np.float64, create=True),
        patch.object(tree, "DTYPE", np.float32, create=True),
    ):
        models = module("diffprivlib.models")
    if models is None:
        return None
    plain = linear_model.LogisticRegression.__init__

    def forgiving(self: Any, *, multi_class: str, **parameters: Any) -> None:
        del multi_class
        plain(self, **parameters)

    def fit(X: Floats, y: Labels, regularization: float, tol: float) -> object:
        C = 1 / (2 * regularization * len(X))
        with patch.object(linear_model.LogisticRegression, "__init__", forgiving):
            model = models.LogisticRegression(
                epsilon=1.0, data_norm=1.0, C=C, fit_intercept=False, tol=tol
            )
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
