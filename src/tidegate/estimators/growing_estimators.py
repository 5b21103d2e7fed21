"""Models of all records so far, fitted again whenever their number has grown."""

from dataclasses import dataclass
from fractions import Fraction

from tidegate.estimators.documented import documented
from tidegate.estimators.linear import LinearStream, StreamClassifier, StreamRegressor
from tidegate.schedule import Growing


@dataclass(kw_only=True, eq=False, repr=False)
class GrowingStream(LinearStream):
    """The parameters of models that are fitted again whenever the records have grown.

    Args:
        regularization: Lambda, the weight of the squared norm of the model; none by default.
        learner: How a fit is made private; it must be GradientPerturbation, the default.
    """

    block: int
    step: int
    growth: Fraction = Fraction(1, 16)

    allocation = "paper"  # read by the base class; a Growing schedule sets its own shares
    _schedule_kind = Growing


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class GrowingClassifier(GrowingStream, StreamClassifier):
    """Releases a private model of all records whenever their number has grown by `growth`.

    Each fit starts at the model before it and reads all records; the newest count most. Use it for
    streams that do not drift.

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


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class GrowingRegressor(GrowingStream, StreamRegressor):
    """Releases a private regression of all records whenever their number has grown by `growth`.

    Each fit starts at the model before it and reads all records; the newest count most. Use it for
    streams that do not drift.

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
