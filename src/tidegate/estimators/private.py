"""A classifier made once, of all records at hand."""

from dataclasses import dataclass
from typing import Any, Self

from tidegate.checks import whole
from tidegate.compute import Engine
from tidegate.estimators.classifier import Classifier
from tidegate.learn.labels import as_labels
from tidegate.schedule import Independent


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClassifier(Classifier):
    """Makes one private model of all the records that `fit` is given, for the whole budget.

    Args:
        budget: What any single record may lose, over all time.
        classes: All labels there can be; public.
        norm: Bound on the norm of every record, which is clipped to it; public.
        regularization: Lambda, the pull of each model towards the one it refines; by default the
            learner chooses it from public numbers (GradientPerturbation needs none).
        loss: "logistic", "softmax", "huber", or "auto" for the first or second by the classes.
        learner: How a fit is made private; by default OutputPerturbation for a pure budget,
            GradientPerturbation for a Gaussian one.
        features: A feature map that every record goes through first.
        compute: Where fits are computed, such as a Dask cluster; by default in memory.
        not_private_seed: Makes the noise repeatable, and so NOT PRIVATE: for studies and tests.

    Attributes:
        releases_: The one release.
        ledger_: What each record has paid.
        certificate_: What any record could ever pay before shares are scaled by it; after, it is 1.
        quarantined_: How many records could not be used: for the operator only.

    >>> import numpy as np
    >>> from tidegate import PureDP
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(4000, 2)), rng.integers(2, size=4000)
    >>> X[:, 0] += 3 * y - 1.5
    >>> clf = PrivateClassifier(
    ...     budget=PureDP(1.0), classes=[0, 1], norm=3.0,
    ...     regularization=0.1, not_private_seed=7)
    >>> bool(clf.fit(X, y).score(X, y) > 0.85), str(clf.ledger_.worst().share)
    (True, '1')
    """

    compute: Engine | None = None

    allocation = "paper"  # one fit has no levels: it gets all

    def fit(self, X: Any, y: Any) -> Self:
        """Make the model.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; what `features` takes, if given.
            y: A label for each, shape (n,).
        """
        count = whole("the number of records", len(as_labels(y)))
        return self._take(self._begin_with(Independent(step=count)), X, y)
