"""Models that are fitted once, on all records."""

from dataclasses import dataclass
from typing import Any, Self

from tidegate.checks import whole
from tidegate.data.values import as_labels
from tidegate.estimators.documented import documented
from tidegate.estimators.linear import Classifier, LinearEstimator, Regressor
from tidegate.run.engine import Engine
from tidegate.schedule import Independent


@dataclass(kw_only=True, eq=False, repr=False)
class SingleFit(LinearEstimator):
    """A model that is fitted once.

    Attributes:
        ledger_: What each record has paid.
        certificate_: The plan's worst-case charge before shares are divided by it.
    """

    compute: Engine | None = None

    allocation = "paper"  # a single fit has no levels and gets the whole budget

    def fit(self, X: Any, y: Any, *, persons: Any = None) -> Self:
        """Make the model.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; the input of `features`, if given.
            y: A label for each, shape (n,).
            persons: The id of each record's person, text or whole numbers, shape (n,); needed if
                `contributions` is set.
        """
        count = whole("the number of records", len(as_labels(y)))
        return self._take(self._begin_with(Independent(step=count)), X, y, persons=persons)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClassifier(SingleFit, Classifier):
    """Makes one private model of all records given to `fit`, with the whole budget.

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


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRegressor(SingleFit, Regressor):
    """Makes one private regression of all records given to `fit`, with the whole budget.

    >>> import numpy as np
    >>> from tidegate import ApproxDP
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 2))
    >>> y = 20 + 10 * X[:, 0] + rng.normal(size=4000)
    >>> reg = PrivateRegressor(
    ...     budget=ApproxDP(1.0, 1e-6), target=(0, 40), norm=2.0, not_private_seed=7)
    >>> reg = reg.fit(X, y)
    >>> bool(reg.score(X, y) > 0.5), reg.predict([[0.5, 0.0]]).shape
    (True, (1,))
    """
