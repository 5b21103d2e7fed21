"""Models that are fitted once, on all records."""

from dataclasses import dataclass
from typing import Any, Self

from tidegate.checks import whole
from tidegate.compute import Engine
from tidegate.estimators.classifier import Classifier
from tidegate.estimators.linear import LinearEstimator
from tidegate.estimators.regressor import Regressor
from tidegate.learn.labels import as_labels
from tidegate.schedule import Independent


@dataclass(kw_only=True, eq=False, repr=False)
class SingleFit(LinearEstimator):
    """A model that is fitted once."""

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


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClassifier(SingleFit, Classifier):
    """Makes one private model of all records given to `fit`, with the whole budget.

    Args:
        budget: The bound on the privacy loss of any one record, over all time; of any one person if
            contributions is set.
        classes: All labels that can occur; public.
        norm: The largest norm of a record; longer records are clipped to it. Public. With a survey
            a generous bound will do. It may be left out if `features` is
            `tidegate.features.Columns`.
        regularization: Lambda, the weight of the squared distance to the prior, or to 0 without
            one; by default the learner chooses it from public numbers or needs none.
        loss: "logistic", "softmax", "huber" or "auto": logistic for two classes, else softmax.
        learner: How a fit is made private; by default OutputPerturbation for a pure budget,
            GradientPerturbation for a Gaussian one.
        features: A feature map that is applied to every record first.
        survey: The share of the budget for a private survey of each step, by which features are
            centred and scaled and a constant is added; by default 1/20 for a budget with a delta,
            else 0: no survey, so add `tidegate.features.AppendIntercept()` to `features`.
        compute: Where fits are computed, such as a Dask cluster; by default in memory.
        contributions: Protects persons instead of records: the budget is then about any one
            person, whose records together may cost this many times what one record may cost. By
            default records are protected.
        period: With `contributions`, protect what a person does within any `period` consecutive
            steps; by default for life.
        typical: With `contributions`, how many records of a fit a person is expected to have. It
            sizes descents, means and histograms, and enters no guarantee.
        not_private_seed: A seed makes the noise repeatable, so NOT PRIVATE: for studies and tests.

    Attributes:
        releases_: The one release.
        ledger_: What each record has paid.
        certificate_: The most that any record can ever pay before shares are divided by it.
        quarantined_: How many records could not be used; for the operator only.

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


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRegressor(SingleFit, Regressor):
    """Makes one private regression of all records given to `fit`, with the whole budget.

    Args:
        budget: The bound on the privacy loss of any one record, over all time; of any one person if
            contributions is set.
        target: The public range (low, high) of the number to predict; a number outside it counts as
            the nearer end.
        norm: The largest norm of a record; longer records are clipped to it. Public. With a survey
            a generous bound will do. It may be left out if `features` is
            `tidegate.features.Columns`.
        regularization: Lambda, the weight of the squared distance to the prior, or to 0 without
            one; by default the learner chooses it from public numbers or needs none.
        loss: "squared", "huber" or "auto": squared for a budget with a delta, else huber.
        learner: How a fit is made private; by default OutputPerturbation for a pure budget,
            GradientPerturbation for a Gaussian one.
        features: A feature map that is applied to every record first.
        survey: The share of the budget for a private survey of each step, by which features are
            centred and scaled and a constant is added; by default 1/20 for a budget with a delta,
            else 0: no survey, so add `tidegate.features.AppendIntercept()` to `features`.
        compute: Where fits are computed, such as a Dask cluster; by default in memory.
        contributions: Protects persons instead of records: the budget is then about any one
            person, whose records together may cost this many times what one record may cost. By
            default records are protected.
        period: With `contributions`, protect what a person does within any `period` consecutive
            steps; by default for life.
        typical: With `contributions`, how many records of a fit a person is expected to have. It
            sizes descents, means and histograms, and enters no guarantee.
        not_private_seed: A seed makes the noise repeatable, so NOT PRIVATE: for studies and tests.

    Attributes:
        releases_: The one release.
        ledger_: What each record has paid.
        certificate_: The most that any record can ever pay before shares are divided by it.
        quarantined_: How many records could not be used; for the operator only.

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
