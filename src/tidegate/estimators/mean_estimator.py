"""A private mean at every step."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.data.intake import Intake
from tidegate.estimators.base_estimator import Begun, Learning
from tidegate.estimators.documented import documented
from tidegate.estimators.summary import Summary
from tidegate.learn.learner import Pull
from tidegate.learn.mean import MeanPerturbation


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateMean(Summary):
    """Releases the mean of the records that a schedule reads, at every step.

    A record that is not finite counts as the origin; `quarantined_` counts such records, for the
    operator only.

    Args:
        norm: The largest norm of a record; longer records are clipped to it. Public.

    Attributes:
        mean_: The newest release.

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
        learning = Learning(task, MeanPerturbation(), Intake(norm=task.norm))
        return self._begin(self.schedule, learning)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
