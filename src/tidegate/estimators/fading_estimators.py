"""Models that forget: old records count less at every step."""

from dataclasses import dataclass
from fractions import Fraction

from tidegate.checks import fraction
from tidegate.estimators.documented import documented
from tidegate.estimators.linear import LinearStream, StreamClassifier, StreamRegressor
from tidegate.schedule import Fading, Schedule


@dataclass(kw_only=True, eq=False, repr=False)
class FadingStream(LinearStream):
    """The parameters of models that forget.

    Args:
        step: Records between two releases.
        regularization: Lambda, the pull of each model towards the origin.
        forget: The fraction of its weight that a step loses when the next one arrives, as a
            Fraction, a float or a text such as "3/10".
        memory: How many of the newest steps a fit reads; by default the fewest after which a
            weight would be at most 1/10.
        first: How many steps are complete when the first model is released.
        linger: The fraction of what earlier models know that is left after a step; by default the
            square of 1 - forget.
    """

    step: int
    forget: Fraction | float | str = Fraction(3, 10)
    memory: int | None = None
    first: int = 1
    linger: Fraction | float | str | None = None

    allocation = "paper"  # read by the base estimator; the shares of a Fading schedule are its own

    def _schedule(self) -> Schedule:
        return Fading(
            step=self.step,
            forget=fraction("forget", self.forget),
            memory=self.memory,
            first=self.first,
            linger=None if self.linger is None else fraction("linger", self.linger),
        )


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
