"""Models of all records so far, fitted again whenever their number has grown."""

from dataclasses import dataclass
from fractions import Fraction

from tidegate.estimators.classifier import StreamClassifier
from tidegate.estimators.linear import LinearStream
from tidegate.estimators.regressor import StreamRegressor
from tidegate.schedule import Growing, Schedule


@dataclass(kw_only=True, eq=False, repr=False)
class GrowingStream(LinearStream):
    """The parameters of models that are fitted again whenever the records have grown."""

    block: int
    step: int
    growth: Fraction = Fraction(1, 16)

    allocation = "paper"  # read by the base class; a Growing schedule sets its own shares

    def _schedule(self) -> Schedule:
        return Growing(block=self.block, step=self.step, growth=self.growth)


@dataclass(kw_only=True, eq=False, repr=False)
class GrowingClassifier(GrowingStream, StreamClassifier):
    """Releases a private model of all records whenever their number has grown by `growth`.

    Each fit starts at the model before it and reads all records; the newest count most. Use it for
    streams that do not drift.

    Args:
        budget: The bound on the privacy loss of any one record, over all time; of any one person if
            contributions is set.
        block: Records before the first release, a multiple of `step`.
        step: Records in a step; releases come after whole steps.
        classes: All labels that can occur; public.
        norm: The largest norm of a record; longer records are clipped to it. Public. With a survey
            a generous bound will do. It may be left out if `features` is
            `tidegate.features.Columns`.
        regularization: Lambda, the weight of the squared norm of the model; none by default.
        loss: "logistic", "softmax", "huber" or "auto": logistic for two classes, else softmax.
        growth: By what fraction the records grow from one release to the next, as a Fraction.
        learner: How a fit is made private; it must be GradientPerturbation, the default.
        features: A feature map that is applied to every record first.
        survey: The share of the budget for a private survey of each step, by which features are
            centred and scaled and a constant is added; by default 1/20 for a budget with a delta,
            else 0: no survey, so add `tidegate.features.AppendIntercept()` to `features`.
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
    >>> X, y = rng.normal(size=(4000, 2)), rng.integers(2, size=4000)
    >>> X[:, 0] += 3 * y - 1.5
    >>> clf = GrowingClassifier(
    ...     budget=ApproxDP(1.0, 1e-6), block=2000, step=500, classes=[0, 1], norm=3.0,
    ...     not_private_seed=7)
    >>> clf = clf.partial_fit(X, y)
    >>> len(clf.releases_), round(float(clf.ledger_.worst().share), 3), bool(clf.score(X, y) > 0.85)
    (5, 0.835, True)
    """


@dataclass(kw_only=True, eq=False, repr=False)
class GrowingRegressor(GrowingStream, StreamRegressor):
    """Releases a private regression of all records whenever their number has grown by `growth`.

    Each fit starts at the model before it and reads all records; the newest count most. Use it for
    streams that do not drift.

    Args:
        budget: The bound on the privacy loss of any one record, over all time; of any one person if
            contributions is set.
        block: Records before the first release, a multiple of `step`.
        step: Records in a step; releases come after whole steps.
        target: The public range (low, high) of the number to predict; a number outside it counts as
            the nearer end.
        norm: The largest norm of a record; longer records are clipped to it. Public. With a survey
            a generous bound will do. It may be left out if `features` is
            `tidegate.features.Columns`.
        regularization: Lambda, the weight of the squared norm of the model; none by default.
        loss: "squared", "huber" or "auto": squared for a budget with a delta, else huber.
        growth: By what fraction the records grow from one release to the next, as a Fraction.
        learner: How a fit is made private; it must be GradientPerturbation, the default.
        features: A feature map that is applied to every record first.
        survey: The share of the budget for a private survey of each step, by which features are
            centred and scaled and a constant is added; by default 1/20 for a budget with a delta,
            else 0: no survey, so add `tidegate.features.AppendIntercept()` to `features`.
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
    >>> reg = GrowingRegressor(
    ...     budget=ApproxDP(1.0, 1e-6), block=2000, step=500, target=(0, 40), norm=2.0,
    ...     not_private_seed=7)
    >>> reg = reg.partial_fit(X, y)
    >>> len(reg.releases_), float(reg.ledger_.worst().share) < 1, bool(reg.score(X, y) > 0.5)
    (5, True, True)
    """
