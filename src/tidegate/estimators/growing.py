"""A classifier of all records so far, which never stops learning from them."""

from dataclasses import dataclass
from fractions import Fraction

from tidegate.estimators.classifier import StreamClassifier
from tidegate.schedule import Growing, Schedule


@dataclass(kw_only=True, eq=False, repr=False)
class GrowingClassifier(StreamClassifier):
    """Releases a private model of all records whenever they have grown by a little.

    Each model goes on from the one before, and the newest records count most. It is for streams
    that do not drift, and reads all of the history each time.

    Args:
        budget: What any single record may lose, over all time.
        block: Records before the first release, a multiple of `step`.
        step: Records in a step; releases come after whole steps.
        classes: All labels there can be; public.
        norm: Bound on the norm of every record, which is clipped to it; public.
        regularization: Lambda, the pull of each model towards the origin; none by default.
        loss: "logistic", "softmax", "huber", or "auto" for the first or second by the classes.
        growth: The part by which the records grow from one release to the next, as a Fraction.
        learner: How a fit is made private; by default GradientPerturbation, which alone can.
        features: A feature map that every record goes through first.
        not_private_seed: Makes the noise repeatable, and so NOT PRIVATE: for studies and tests.

    Attributes:
        releases_: All releases so far, the newest last.
        ledger_: What each record has paid.
        certificate_: What any record could ever pay before shares are scaled by it; after, it is 1.
        quarantined_: How many records could not be used: for the operator only.

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
    (5, 0.826, True)
    """

    block: int
    step: int
    growth: Fraction = Fraction(1, 16)

    allocation = "paper"  # read by the base estimator; the shares of a Growing schedule are its own

    def _schedule(self) -> Schedule:
        return Growing(block=self.block, step=self.step, growth=self.growth)
