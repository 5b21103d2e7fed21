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

    A record that is not finite counts as the origin; `quarantined_` counts such records, for the
    operator only.

    Args:
        budget: The bound on the privacy loss of any one record, over all time; of any one person if
            contributions is set.
        schedule: Which records a release reads, and when.
        norm: The largest norm of a record; longer records are clipped to it. Public.
        regularization: Lambda, the weight of the squared distance to the prior mean.
        allocation: How the budget is divided among levels: "paper", "tapered" or an Allocation.
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
        mean_: The newest of them.
        ledger_: What each record has paid.
        certificate_: The most that any record can ever pay before shares are divided by it.
        quarantined_: How many records could not be used; for the operator only.

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
