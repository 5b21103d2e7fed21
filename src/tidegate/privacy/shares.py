"""Shares: raw shares, scaled so that the record that pays most pays 1.

How much that is before is certified: each form stands with its schedule, is derived in
docs/proofs/certificate.md and held against brute force in tests/laws.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from tidegate.checks import refuse
from tidegate.privacy.allocation import Allocation, Paper
from tidegate.privacy.budget import Budget
from tidegate.schedule import Fit
from tidegate.schedule.levels import Certificate, Levels
from tidegate.schedule.protocol import Charged
from tidegate.schedule.registry import SCHEDULES
from tidegate.schedule.twostream import Target


@dataclass(frozen=True, kw_only=True)
class Shares:
    """What each fit of a schedule takes from the budget of the records it reads.

    Args:
        schedule: What the fits belong to.
        budget: What the shares are shares of.
        allocation: How they go to levels.
        reserve: What is left over in every record's budget, for other lines of the ledger.

    >>> from tidegate.privacy import PureDP
    >>> from tidegate.schedule import SlidingWindow
    >>> sliding = SlidingWindow(window=7, step=1)
    >>> shares = Shares(schedule=sliding, budget=PureDP(1.0))
    >>> [str(shares.of(fit)) for fit in sliding.due(7)]
    ['4/7', '1/7', '2/7']
    """

    schedule: Charged
    budget: Budget
    allocation: Allocation = Paper()
    reserve: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if not 0 <= self.reserve < 1:
            raise refuse("reserve", "a share from 0 to below 1", told=str(self.reserve))
        name = type(self.schedule).__name__
        if self.schedule.weighs and self.budget.unit != "mu":
            raise refuse("budget", f"ApproxDP for a {name} schedule (give a delta)", told="PureDP")
        if not self.schedule.allocated and not isinstance(self.allocation, Paper):
            allowed = f"left out for a {name} schedule, whose shares are its own"
            raise refuse("allocation", allowed, self.allocation.name)
        _ = self.certificate  # refuse now what has none, or a rate the budget does not allow

    @cached_property
    def levels(self) -> Levels:
        """How raw shares fall from level to level."""
        return self.allocation.levels_for(self.budget)

    @cached_property
    def certificate(self) -> Certificate:
        """What any record could ever pay, before scaling."""
        return certify(self.schedule, self.levels)

    @property
    def forever(self) -> Fraction:
        """The most that any record ever pays for fits."""
        return self.certificate.supremum * self._scale

    @cached_property
    def _scale(self) -> Fraction:
        return (1 - self.reserve) / self.certificate.supremum

    @cached_property
    def _known(self) -> dict[tuple[str, int, int], Fraction]:
        return {}

    def of(self, fit: Fit) -> Fraction:
        """The share of a fit: it depends on its role, level and phase alone."""
        key = fit[4:7]
        share = self._known.get(key)
        if share is None:
            raw = self.schedule.raw_share(fit, self.levels)
            share = self._known[key] = raw * self._scale
        return share


def certify(schedule: Charged, levels: Levels) -> Certificate:
    """The exact supremum of the ledger, over all records and all time, before scaling.

    >>> from fractions import Fraction
    >>> from tidegate.schedule import Continual, SlidingWindow
    >>> halves = Levels(rate=Fraction(1, 2))
    >>> str(certify(SlidingWindow(window=7, step=1), halves).supremum)
    '7/12'
    >>> str(certify(Continual(block=8, step=1), halves).supremum)
    '11/8'
    """
    if type(schedule) not in (*SCHEDULES.values(), Target):
        # a subclass may make other fits than it is certified for
        raise refuse(
            "schedule", "one that a certificate is proved for", told=type(schedule).__name__
        )
    return schedule.certificate(levels)
