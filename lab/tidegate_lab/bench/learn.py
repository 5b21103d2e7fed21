"""Fits, certified and private, beside scikit-learn, diffprivlib, PyTorch and their own products."""

import warnings
from functools import partial
from unittest.mock import patch

import numpy as np

from tidegate import PrivateClassifier, PureDP
from tidegate.data.records import Records
from tidegate.learn import OutputPerturbation, Softmax, minimize
from tidegate.learn.learner import Task
from tidegate.learn.objective import Objective
from tidegate_lab.bench import peers
from tidegate_lab.bench.data import D, K, Part, images
from tidegate_lab.bench.table import Run, faster, medians, say, show, within

N = 8192
LAMBDA = 0.01
TOLERANCE = 1e-6
ROUNDS = 7


def minimum(X: peers.Floats, y: peers.Labels) -> object:
    return minimize("softmax", X, y, regularization=LAMBDA, tolerance=TOLERANCE)


def private_fit(X: peers.Floats, y: peers.Labels) -> object:
    """The whole way through the public API: records cleaned and clipped, solved, noised."""
    budget = PureDP(1.0)
    classifier = PrivateClassifier(budget=budget, classes=range(K), norm=1.0, regularization=LAMBDA)
    return classifier.fit(X, y)


def passes(run: Run) -> dict[str, int]:
    """How many passes over the records a minimisation makes, in each precision."""
    with patch.object(
        Objective, "gradient", autospec=True, side_effect=Objective.gradient
    ) as gradient:
        run()
    drafts = sum(call.kwargs.get("draft", False) for call in gradient.call_args_list)
    return {"float32": drafts, "float64": gradient.call_count - drafts}


def product(X: peers.Floats) -> object:
    """One X W and one X' E."""
    return X @ np.ones((D, K), X.dtype), X.T @ np.ones((N, K), X.dtype)


def loosest_tol(X: peers.Floats, y: peers.Labels) -> float | None:
    """The largest tol, of a grid, with which scikit-learn reaches our gradient norm."""
    records = Records(X, y, np.ones(len(y), np.bool_))
    exact = Objective(records, Softmax(K), regularization=LAMBDA, norm=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it does not converge is what we look for
        for tol in 10.0 ** -np.arange(4, 12, 0.25):
            weights = peers.sklearn_logistic(X, y, LAMBDA, tol)
            if np.linalg.norm(exact.gradient(weights)) <= TOLERANCE:
                return float(tol)
    return None


def minimum_rows(part: Part) -> list[list[str]]:
    """`minimize` in both precisions; scikit-learn reaches the norm in float64 alone."""
    y = part.y
    forms: dict[str, peers.Floats] = {"float32": part.X, "float64": part.X.astype(np.float64)}
    runs: dict[str, Run] = {}
    for dtype, X in forms.items():
        runs[dtype] = partial(minimum, X, y)
        runs[f"products in {dtype}"] = partial(product, X)
    if tol := loosest_tol(forms["float64"], y):
        runs["scikit-learn"] = partial(peers.sklearn_logistic, forms["float64"], y, LAMBDA, tol)
    else:
        say(f"Not compared with scikit-learn: it does not reach gradient norm {TOLERANCE:g}")
    took = medians(runs, ROUNDS)
    rows = []
    for dtype in forms:
        used = passes(runs[dtype])
        limit = sum(count * took[f"products in {form}"] for form, count in used.items())
        what = f"minimize, {dtype}"
        if tol:
            rows.append(faster(what, "scikit-learn", took[dtype], took["scikit-learn"], 3))
        rows.append(within(what, f"X W and X' E, {sum(used.values())} x", took[dtype], limit, 2))
    return rows


def private_rows(part: Part) -> list[list[str]]:
    """One private fit: exact noise, and a certificate that nobody else gives."""
    X, y = part
    runs: dict[str, Run] = {"Tidegate": partial(private_fit, X, y)}
    if diffprivlib := peers.diffprivlib_logistic():
        X64 = X.astype(np.float64)  # as it would make them itself
        runs["diffprivlib"] = partial(diffprivlib, X64, y, LAMBDA, 1e-4)
        runs["diffprivlib, as near"] = partial(diffprivlib, X64, y, LAMBDA, certified() / D**0.5)
    if sgd := peers.torch_sgd():
        runs["PyTorch, 500 steps"] = partial(sgd, X, y, LAMBDA)
    took = medians(runs, ROUNDS)
    ours = took.pop("Tidegate")
    bars = {"diffprivlib": 10, "PyTorch, 500 steps": 3}
    return [faster("private fit", peer, ours, took[peer], bars.get(peer)) for peer in took]


def certified() -> float:
    """The gradient norm that a private fit reaches for certain."""
    task = Task(loss=Softmax(K), norm=1.0, regularization=LAMBDA)
    return OutputPerturbation().tolerance(task, N, D)


def main() -> None:
    data = images()
    part = Part(data.train.X[:N], data.train.y[:N])
    title = f"Softmax, {data.name}, n={N} d={D} K={K} lambda={LAMBDA}, epsilon=1"
    show(f"{title}, gradient norm <= {TOLERANCE:g}", minimum_rows(part) + private_rows(part))
