"""Models of all records so far."""

from dataclasses import dataclass

from tidegate.estimators.documented import documented
from tidegate.estimators.linear import LinearStream, StreamClassifier, StreamRegressor
from tidegate.privacy import Allocation
from tidegate.run.engine import Engine
from tidegate.schedule import Continual


@dataclass(kw_only=True, eq=False, repr=False)
class ContinualStream(LinearStream):
    """The parameters of models of all records so far."""

    block: int
    step: int
    allocation: str | Allocation = "paper"
    sample: int | None = None
    compute: Engine | None = None

    _schedule_kind = Continual


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class ContinualClassifier(ContinualStream, StreamClassifier):
    """Releases, at every step, a private model of all records so far.

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


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class ContinualRegressor(ContinualStream, StreamRegressor):
    """Releases, at every step, a private regression of all records so far.

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
