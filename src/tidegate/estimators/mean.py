"""A private mean at every step."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.estimators.base_estimator import Begun
from tidegate.estimators.summary import Summary
from tidegate.learn.intake import Intake
from tidegate.learn.learner import Pull
from tidegate.learn.mean import MeanPerturbation


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateMean(Summary):
    """Releases the mean of the records that a schedule reads, at every step.

    A record that is not finite counts as the origin; `quarantined_` counts these, for the
    operator's eyes only.

    Args:
        budget: What any single record may lose, over all time.
        schedule: Which records a release reads, and when.
        norm: Bound on the norm of every record, which is clipped to it; public.
        regularization: Lambda, the pull of each mean towards the one it refines.
        allocation: How shares go to levels: "paper", "tapered" or an Allocation.
        not_private_seed: Makes the noise repeatable, and so NOT PRIVATE: for studies and tests.

    Attributes:
        releases_: All releases so far, the newest last.
        mean_: The newest of them.
        ledger_: What each record has paid.
        certificate_: What any record could ever pay before shares are scaled by it; after, it is 1.
        quarantined_: How many records could not be used: for the operator only.

    >>> from tidegate import ApproxDP
    >>> from tidegate.schedule import SlidingWindow
    >>> mean = PrivateMean(
    ...     budget=ApproxDP(1.0, 1e-6), schedule=SlidingWindow(window=7000, step=1000), norm=1.0,
    ...     not_private_seed=7)
    >>> mean.partial_fit(np.full((8000, 2), 0.5)).mean_.round(1)
    array([0.5, 0.5])
    """

    norm: float

    @property
    def mean_(self) -> NDArray[np.float64]:
        """The newest release."""
        return self._newest()

    def _new(self) -> Begun:
        task = Pull(norm=self.norm, regularization=self.regularization)
        trainer = self._trainer(task, MeanPerturbation())
        return self._begin(self.schedule, trainer, Intake(norm=task.norm))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
