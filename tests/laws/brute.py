"""The naive ledger that every clever answer is held against: one sum for each record."""

from fractions import Fraction
from typing import assert_never

from tidegate.plan import Plan
from tidegate.privacy.allocation import OneStream
from tidegate.schedule import (
    Basic,
    Continual,
    Cumulative,
    Independent,
    MultiResolution,
    SlidingWindow,
)


def paid_by_all(plan: Plan, until: int) -> list[Fraction]:
    """What each of the first `until` records has paid, added up record by record."""
    paid = [Fraction(0)] * until
    for fit, share in plan.lines(until):
        for record in range(fit.span.start, fit.span.stop):
            paid[record] += share
    return paid


def horizon(schedule: OneStream, length: int) -> int:
    """A time by which whatever happens has happened, but for bases to come: see `tail`."""
    match schedule:
        case Basic() | Continual() | Cumulative() | MultiResolution():
            return schedule.block << length
        case SlidingWindow():
            return schedule.window + length * (schedule.left + 1) * schedule.step
        case Independent():
            return length * schedule.step
        case _:
            assert_never(schedule)


def tail(plan: Plan, at: int) -> Fraction:
    """What all present records still have to pay after a `horizon`.

    The bases' weights are (1 - r) r^k: those from level k on add up to r^k.
    """
    schedule, shares = plan.schedule, plan.shares
    match schedule:
        case Basic() | Continual() | Cumulative() | MultiResolution():
            made = (at // schedule.block).bit_length()
            return shares.rate**made / shares.certificate.supremum
        case SlidingWindow() | Independent():
            return Fraction(0)
        case _:
            assert_never(schedule)
