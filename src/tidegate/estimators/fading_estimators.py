"""Models that forget: old records count less at every step."""

from dataclasses import dataclass
from fractions import Fraction

from tidegate.estimators.documented import documented
from tidegate.estimators.linear import LinearStream, StreamClassifier, StreamRegressor
from tidegate.schedule import Fading


@dataclass(kw_only=True, eq=False, repr=False)
class FadingStream(LinearStream):
    """The parameters of models that forget.

    Args:
        regularization: Lambda, the pull of each model towards the origin.
    """

    step: int
    forget: Fraction | float | str = Fraction(3, 10)
    memory: int | None = None
    first: int = 1
    linger: Fraction | float | str | None = None

    allocation = "paper"  # read by the base estimator; the shares of a Fading schedule are its own
    _schedule_kind = Fading


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class FadingClassifier(FadingStream, StreamClassifier):
    """Releases a private model at every step, in which old records count less and less.

    It is for streams that drift. Each model goes on from the one before. Records are deleted after
    `memory` steps; with a memory of 1, none is kept past its own step.

    >>> import numpy as np
    >>> from tidegate import ApproxDP
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(6000, 2)), rng.integers(2, size=6000)
    >>> X[:, 0] += 3 * y - 1.5
    >>> clf = FadingClassifier(
    ...     budget=ApproxDP(1.0, 1e-6), step=1000, classes=[0, 1], norm=3.0, not_private_seed=7)
    >>> clf = clf.partial_fit(X, y)
    >>> len(clf.releases_), float(clf.ledger_.worst().share) < 1, bool(clf.score(X, y) > 0.85)
    (6, True, True)
    """


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class FadingRegressor(FadingStream, StreamRegressor):
    """Releases a private regression at every step, in which old records count less and less.

    It is for streams that drift. Each model goes on from the one before. Records are deleted after
    `memory` steps; with a memory of 1, none is kept past its own step.

    >>> import numpy as np
    >>> from tidegate import ApproxDP
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(6000, 2))
    >>> y = 20 + 10 * X[:, 0] + rng.normal(size=6000)
    >>> reg = FadingRegressor(
    ...     budget=ApproxDP(1.0, 1e-6), step=1000, target=(0, 40), norm=2.0, not_private_seed=7)
    >>> reg = reg.partial_fit(X, y)
    >>> len(reg.releases_), float(reg.ledger_.worst().share) < 1, bool(reg.score(X, y) > 0.5)
    (6, True, True)
    """
