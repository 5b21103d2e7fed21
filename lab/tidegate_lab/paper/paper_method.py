"""The paper's experiments as published: NOT PRIVATE, used only to reproduce its figures.

Their mistakes: the Lipschitz constant is computed from the records, and is far below the true one;
each coordinate gets Laplace noise, but the sensitivity is that of the whole vector; 500 minibatch
steps count as an exact minimiser; PCA and vocabulary are fitted to the records. docs/paper.md shows
the effect.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.compare import LabelledStream, Linear
from tidegate.schedule import RecordFit, Schedule, fits

Floats32 = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class AsPublished:
    """NOT PRIVATE: the paper's own experiment.

    Args:
        schedule: Algorithm 2, 4 or 5, the appendix's basic release, or independent steps.
        regularization: Lambda.
        epsilon: The epsilon that the paper claims; None adds no noise, for its non-private curve.
        steps: Number of minibatches in a fit.
        batch: Number of records in a minibatch.
        gamma: The inverse rate: step i moves by the gradient times 1/(gamma i).
    """

    schedule: Schedule
    regularization: float
    epsilon: float | None = None
    steps: int = 500
    batch: int = 256
    gamma: float = 10.0

    private = False
    probabilities = True

    @property
    def name(self) -> str:
        """Its name, which says that it is not private."""
        return "not private" if self.epsilon is None else "as published, NOT PRIVATE"

    def models(self, stream: LabelledStream, seed: int) -> Iterator[tuple[int, Linear]]:
        """Each release of the schedule."""
        X = np.asarray(stream.records.X, np.float32)
        targets = np.eye(stream.classes, dtype=np.float32)[stream.records.y]
        models: dict[int, Floats32] = {}
        steps = self.schedule.steps
        for fit in map(steps.fit, fits(self.schedule, steps.complete(stream.n))):
            start = models.get(-1 if fit.prior is None else fit.prior)
            if start is None:
                start = np.zeros((X.shape[1], stream.classes), np.float32)
            span = slice(*fit.span)
            # Curves of different epsilon share their minibatches and differ only in their noise.
            batches, noise = np.random.default_rng([seed, fit.number]).spawn(2)
            weights = self.descend(X[span], targets[span], start, batches)
            if self.epsilon is not None:
                scale = self.noise_scale(fit, lipschitz(X[span], stream.classes))
                weights += noise.laplace(scale=scale, size=weights.shape).astype(np.float32)
            models[fit.number] = weights
            if fit.released:
                yield fit.at, Linear(weights.astype(np.float64))

    def noise_scale(self, fit: RecordFit, constant: float) -> float:
        """The noise that the paper adds to each coordinate, given its Lipschitz constant."""
        if self.epsilon is None:
            return 0.0
        steps = self.schedule.steps
        if (self.schedule.look_back or 1) > 1:  # Algorithm 5, whose base has a size of its own
            base, update = 6 / fit.span.size, 12 / steps.size
        else:
            base, update = 4 / steps.count(self.schedule.first), 4 / steps.size
        factor = base if fit.role == "base" else update
        return factor * constant / (self.regularization * self.epsilon)

    def descend(
        self, X: Floats32, targets: Floats32, start: Floats32, rng: np.random.Generator
    ) -> Floats32:
        """Minimise mean(loss) + lambda ||w - start||^2 by minibatches, starting at `start`.

        The targets are one-hot: 1 in the column of a record's class, 0 elsewhere.
        """
        weights = start.copy()
        for i, chosen in enumerate(minibatches(len(X), self.steps, self.batch, rng), start=1):
            rows = X[chosen]
            residuals = softmax(rows @ weights) - targets[chosen]
            slope = rows.T @ residuals / np.float32(self.batch)
            slope += np.float32(2 * self.regularization) * (weights - start)
            weights -= slope / np.float32(self.gamma * i)
        return weights


def minibatches(n: int, steps: int, batch: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """The records that each step reads, pass by pass, shape (steps, batch).

    >>> sorted(minibatches(4, 2, 2, np.random.default_rng(0)).ravel().tolist())
    [0, 1, 2, 3]
    """
    passes = math.ceil(steps * batch / n)
    order = np.concatenate([rng.permutation(n) for _ in range(passes)])
    return order[: steps * batch].reshape(steps, batch)


def softmax(margins: Floats32) -> Floats32:
    """The probability of each class, row by row; overwrites the margins."""
    margins -= margins.max(axis=1, keepdims=True)
    np.exp(margins, out=margins)
    margins /= margins.sum(axis=1, keepdims=True)
    return margins


def lipschitz(X: Floats32, classes: int) -> float:
    """The paper's Lipschitz constant, which is wrong: (k - 1)/(2 m k) times the Frobenius norm.

    It falls as 1/sqrt(m) with the number m of records; the true one does not depend on m.

    >>> lipschitz(np.ones((4, 1), np.float32), classes=10)
    0.225
    """
    return (classes - 1) / (2 * classes * len(X)) * float(np.linalg.norm(X))


def pixel_values(images: NDArray[np.uint8]) -> Floats32:
    """The paper's features of images: pixels from 0 to 1, not scaled, and a constant."""
    rows = images.reshape(len(images), -1).astype(np.float32)
    return _with_constant(rows / np.float32(255))


def word_components(texts: Sequence[str], dimensions: int = 512) -> Floats32:
    """The paper's features of titles: word counts, reduced by PCA, and a constant. NOT PRIVATE.

    Vocabulary and components are fitted to all titles, including those held out to test on.
    """
    from sklearn.decomposition import PCA  # noqa: PLC0415 (slow to load)
    from sklearn.feature_extraction.text import CountVectorizer  # noqa: PLC0415

    counts: Any = CountVectorizer(dtype=np.float32).fit_transform(texts)
    # The randomised method is three times as fast and keeps 99 % of the variance of the exact one.
    reduced: Any = PCA(dimensions, svd_solver="randomized", iterated_power=2, random_state=0)
    return _with_constant(np.asarray(reduced.fit_transform(counts.toarray()), np.float32))


def _with_constant(rows: Floats32) -> Floats32:
    return np.hstack([rows, np.ones((len(rows), 1), np.float32)])
