"""Certified softmax fit against scikit-learn, and against the cost of its own passes.

Run as `python -m bench.solver`. Both solve the same problem to the same gradient norm, measured
by the same float64 function, in turns within one run. MNIST is read from $TIDEGATE_DATA/mnist if
that is set; otherwise synthetic records of the same shape stand in.
"""

import gzip
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from tidegate.features import clip_rows
from tidegate.learn import Softmax
from tidegate.learn.objective import InMemory, Weights
from tidegate.learn.solver import certified_minimum

N, D, K = 8192, 784, 10
LAMBDA = 0.01
TOLERANCE = 1e-6
ROUNDS = 7

Floats = NDArray[np.floating[Any]]
Labels = NDArray[np.intp]


def records() -> tuple[str, Floats, Labels]:
    folder = os.environ.get("TIDEGATE_DATA")
    if folder:
        mnist = Path(folder) / "mnist"
        images = gzip.decompress((mnist / "train-images-idx3-ubyte.gz").read_bytes())
        labels = gzip.decompress((mnist / "train-labels-idx1-ubyte.gz").read_bytes())
        X = np.frombuffer(images, np.uint8, N * D, offset=16).reshape(N, D) / 255
        y = np.frombuffer(labels, np.uint8, N, offset=8).astype(np.intp)
        return "MNIST", clip_rows(X, 1.0), y
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=N)
    X = np.abs(rng.normal(size=(K, D)))[y] + np.abs(rng.normal(size=(N, D)))
    return "synthetic", clip_rows(X, 1.0), y


class Counted(InMemory):
    """An objective that counts its passes: [exact, draft]."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.passes = [0, 0]

    def gradient(self, w: Weights, *, draft: bool = False) -> Weights:
        self.passes[draft] += 1
        return super().gradient(w, draft=draft)


def objective(X: Floats, y: Labels) -> Counted:
    return Counted(X, y, Softmax(K), regularization=LAMBDA, norm=1.0)


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def peer(X: Floats, y: Labels, tol: float) -> Weights:
    model = LogisticRegression(
        C=1 / (2 * LAMBDA * N), fit_intercept=False, tol=tol, max_iter=10_000
    )
    weights: Weights = model.fit(X, y).coef_.T.astype(np.float64)
    return weights


def loosest_tol(X: Floats, y: Labels, exact: InMemory) -> float | None:
    """The peer's largest tol, of a grid, that reaches the tolerance; None if none does."""
    for exponent in np.arange(4, 12, 0.25):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            w = peer(X, y, 10.0**-exponent)
        if np.linalg.norm(exact.gradient(w)) <= TOLERANCE:
            return float(10.0**-exponent)
    return None


def product_seconds(X: Floats) -> float:
    """One X W and one X' E in X's precision."""
    W, E = np.ones((D, K), X.dtype), np.ones((N, K), X.dtype)
    return seconds(lambda: (X @ W, X.T @ E))


def main() -> None:
    name, X64, y = records()
    X32 = clip_rows(X64.astype(np.float32), 1.0)
    print(f"softmax, {name}, n={N} d={D} K={K} lambda={LAMBDA}, gradient norm <= {TOLERANCE:g}")
    tols = {X.dtype.name: loosest_tol(X, y, objective(X, y)) for X in (X32, X64)}
    runs: dict[str, list[float]] = {}
    for _ in range(ROUNDS):  # in turns, so that a busy machine hits all alike
        for X in (X32, X64):
            kind = X.dtype.name
            tol = tols[kind]
            runs.setdefault(f"product {kind}", []).append(product_seconds(X))
            fit = partial(certified_minimum, objective(X, y), TOLERANCE)
            runs.setdefault(f"tidegate {kind}", []).append(seconds(fit))
            if tol is not None:
                runs.setdefault(f"sklearn {kind}", []).append(seconds(partial(peer, X, y, tol)))
    median = {what: float(np.median(times)) for what, times in runs.items()}
    best_peer = min(t for what, t in median.items() if what.startswith("sklearn"))
    for what, t in median.items():
        print(f"  {what:18} {1e3 * t:8.1f} ms (fastest {1e3 * min(runs[what]):.1f})")
    for X in (X32, X64):
        kind = X.dtype.name
        counted = objective(X, y)
        solution = certified_minimum(counted, TOLERANCE)
        exact, draft = counted.passes
        own = draft * median["product float32"] + exact * median["product float64"]
        print(
            f"  {kind}: {best_peer / median[f'tidegate {kind}']:.2f} x faster than the faster "
            f"scikit-learn; {draft} draft + {exact} exact passes, "
            f"{median[f'tidegate {kind}'] / own:.2f} x their products; "
            f"certified {solution.gradient_norm:.2e}"
        )
    if None in tols.values():
        print(
            "  scikit-learn does not reach the gradient norm in:", *[k for k in tols if not tols[k]]
        )


if __name__ == "__main__":
    main()
