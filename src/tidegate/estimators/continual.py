"""Models of all records so far."""

from dataclasses import dataclass

from tidegate.compute import Engine
from tidegate.estimators.classifier import StreamClassifier
from tidegate.estimators.linear import LinearStream
from tidegate.estimators.regressor import StreamRegressor
from tidegate.privacy import Allocation
from tidegate.schedule import Continual, Schedule


@dataclass(kw_only=True, eq=False, repr=False)
class ContinualStream(LinearStream):
    """The parameters of models of all records so far."""

    block: int
    step: int
    allocation: str | Allocation = "paper"
    sample: int | None = None
    compute: Engine | None = None

    def _schedule(self) -> Schedule:
        return Continual(block=self.block, step=self.step, sample=self.sample)


@dataclass(kw_only=True, eq=False, repr=False)
class ContinualClassifier(ContinualStream, StreamClassifier):
    """Releases, at every step, a private model of all records so far.

    Args:
        budget: The bound on the privacy loss of any one record, over all time; of any one person if
            contributions is set.
        block: Records before the first release, a power-of-two multiple of `step`.
        step: Records between two releases.
        classes: All labels that can occur; public.
        norm: The largest norm of a record; longer records are clipped to it. Public. With a survey
            a generous bound will do. It may be left out if `features` is
            `tidegate.features.Columns`.
        regularization: Lambda, the weight of the squared distance to the prior, or to 0 without
            one; by default the learner chooses it from public numbers or needs none.
        loss: "logistic", "softmax", "huber" or "auto": logistic for two classes, else softmax.
        learner: How a fit is made private; by default OutputPerturbation for a pure budget,
            GradientPerturbation for a Gaussian one.
        allocation: How the budget is divided among levels: "paper", "tapered" or an Allocation.
        sample: If given, a fit reads at most this many records, drawn from its span.
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
        releases_: All releases so far, the newest last.
        ledger_: What each record has paid.
        certificate_: The most that any record can ever pay before shares are divided by it.
        quarantined_: How many records could not be used; for the operator only.

    >>> import numpy as np
    >>> from tidegate import PureDP
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(4000, 2)), rng.integers(2, size=4000)
    >>> X[:, 0] += 3 * y - 1.5
    >>> clf = ContinualClassifier(
    ...     budget=PureDP(1.0), block=2000, step=500, classes=[0, 1], norm=3.0,
    ...     regularization=0.1, not_private_seed=7)
    >>> clf = clf.partial_fit(X, y)
    >>> len(clf.releases_), float(clf.ledger_.worst().share), bool(clf.score(X, y) > 0.85)
    (5, 0.8, True)
    """


@dataclass(kw_only=True, eq=False, repr=False)
class ContinualRegressor(ContinualStream, StreamRegressor):
    """Releases, at every step, a private regression of all records so far.

    Args:
        budget: The bound on the privacy loss of any one record, over all time; of any one person if
            contributions is set.
        block: Records before the first release, a power-of-two multiple of `step`.
        step: Records between two releases.
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
        allocation: How the budget is divided among levels: "paper", "tapered" or an Allocation.
        sample: If given, a fit reads at most this many records, drawn from its span.
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
        releases_: All releases so far, the newest last.
        ledger_: What each record has paid.
        certificate_: The most that any record can ever pay before shares are divided by it.
        quarantined_: How many records could not be used; for the operator only.

    >>> import numpy as np
    >>> from tidegate import ApproxDP
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 2))
    >>> y = 20 + 10 * X[:, 0] + rng.normal(size=4000)
    >>> reg = ContinualRegressor(
    ...     budget=ApproxDP(1.0, 1e-6), block=2000, step=500, target=(0, 40), norm=2.0,
    ...     not_private_seed=7)
    >>> reg = reg.partial_fit(X, y)
    >>> len(reg.releases_), float(reg.ledger_.worst().share) < 1, bool(reg.score(X, y) > 0.5)
    (5, True, True)
    """
