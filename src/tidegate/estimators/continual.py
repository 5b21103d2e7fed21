"""A classifier of all records so far."""

from dataclasses import dataclass

from tidegate.compute import Engine
from tidegate.estimators.classifier import StreamClassifier
from tidegate.privacy import Allocation
from tidegate.schedule import Continual, Schedule


@dataclass(kw_only=True, eq=False, repr=False)
class ContinualClassifier(StreamClassifier):
    """Releases, at every step, a private model of all records so far.

    Args:
        budget: What any single record may lose, over all time.
        block: Records before the first release, a power-of-two multiple of `step`.
        step: Records between two releases.
        classes: All labels there can be; public.
        norm: Bound on the norm of every record, which is clipped to it; public.
        regularization: Lambda, the pull of each model towards the one it refines; by default the
            learner chooses it from public numbers (GradientPerturbation needs none).
        loss: "logistic", "softmax", "huber", or "auto" for the first or second by the classes.
        learner: How a fit is made private; by default OutputPerturbation for a pure budget,
            GradientPerturbation for a Gaussian one.
        allocation: How shares go to levels: "paper", "tapered" or an Allocation.
        sample: If given, a fit reads at most this many records, drawn from its span.
        features: A feature map that every record goes through first.
        compute: Where fits are computed, such as a Dask cluster; by default in memory.
        not_private_seed: Makes the noise repeatable, and so NOT PRIVATE: for studies and tests.

    Attributes:
        releases_: All releases so far, the newest last.
        ledger_: What each record has paid.
        certificate_: What any record could ever pay before shares are scaled by it; after, it is 1.
        quarantined_: How many records could not be used: for the operator only.

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

    block: int
    step: int
    allocation: str | Allocation = "paper"
    sample: int | None = None
    compute: Engine | None = None

    def _schedule(self) -> Schedule:
        return Continual(block=self.block, step=self.step, sample=self.sample)
