"""A private mean at every step."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tidegate.estimators.summary import Summary
from tidegate.features import clip_rows
from tidegate.features.rows import row_exponents
from tidegate.learn.mean import MeanPerturbation
from tidegate.learn.records import Records, as_numbers, zeroed
from tidegate.privacy import Allocation, Budget
from tidegate.privacy.allocation import OneStream


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
        certificate_: What any record can ever pay.
        quarantined_: How many records could not be used: for the operator only.

    >>> from tidegate import ApproxDP
    >>> from tidegate.schedule import SlidingWindow
    >>> mean = PrivateMean(
    ...     budget=ApproxDP(1.0, 1e-6), schedule=SlidingWindow(window=7000, step=1000), norm=1.0,
    ...     not_private_seed=7)
    >>> mean.partial_fit(np.full((8000, 2), 0.5)).mean_.round(1)
    array([0.5, 0.5])
    """

    def __init__(
        self,
        *,
        budget: Budget,
        schedule: OneStream,
        norm: float,
        regularization: float = 1.0,
        allocation: str | Allocation = "paper",
        not_private_seed: int | None = None,
    ) -> None:
        self.budget = budget
        self.schedule = schedule
        self.norm = norm
        self.regularization = regularization
        self.allocation = allocation
        self.not_private_seed = not_private_seed

    @property
    def mean_(self) -> NDArray[np.float64]:
        """The newest release."""
        return self._newest()

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Take in any number of records; each step they complete makes its releases.

        Args:
            X: Records, shape (n, d).
            y: Not read.
        """
        del y
        return self._take(MeanPerturbation(), self.norm, self._records(X))

    def _records(self, X: Any) -> Records:
        rows = clip_rows(as_numbers(X), self.norm)
        usable = row_exponents(rows)[1]
        return Records(zeroed(rows, ~usable), np.zeros(rows.shape[0], np.intp), usable)
