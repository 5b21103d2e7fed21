"""Models of the newest records."""

from dataclasses import dataclass

from tidegate.estimators.documented import documented
from tidegate.estimators.linear import LinearStream, StreamClassifier, StreamRegressor
from tidegate.privacy import Allocation
from tidegate.run.engine import Engine
from tidegate.schedule import SlidingWindow


@dataclass(kw_only=True, eq=False, repr=False)
class SlidingWindowStream(LinearStream):
    """The parameters of models of the newest records."""

    window: int
    step: int
    allocation: str | Allocation = "paper"
    sample: int | None = None
    refit: bool = False
    compute: Engine | None = None

    _schedule_kind = SlidingWindow


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class SlidingWindowClassifier(SlidingWindowStream, StreamClassifier):
    """Releases, at every step, a private model of exactly the newest `window` records.

    >>> import numpy as np
    >>> from tidegate import PureDP
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(4000, 2)), rng.integers(2, size=4000)
    >>> X[:, 0] += 3 * y - 1.5
    >>> clf = SlidingWindowClassifier(
    ...     budget=PureDP(1.0), window=2100, step=300, classes=[0, 1], norm=3.0,
    ...     regularization=0.1, not_private_seed=7)
    >>> clf = clf.partial_fit(X, y)
    >>> len(clf.releases_), str(clf.ledger_.worst().share), bool(clf.score(X, y) > 0.85)
    (7, '1', True)
    """


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class SlidingWindowRegressor(SlidingWindowStream, StreamRegressor):
    """Releases, at every step, a private regression of exactly the newest `window` records.

    >>> import numpy as np
    >>> from tidegate import PureDP
    >>> from tidegate.features import AppendIntercept
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 2))
    >>> y = 20 + 10 * X[:, 0] + rng.normal(size=4000)
    >>> reg = SlidingWindowRegressor(
    ...     budget=PureDP(1.0), window=2100, step=300, target=(0, 40), norm=2.0,
    ...     features=AppendIntercept(), not_private_seed=7)
    >>> reg = reg.partial_fit(X, y)
    >>> len(reg.releases_), str(reg.ledger_.worst().share), bool(reg.score(X, y) > 0.3)
    (7, '1', True)
    """
