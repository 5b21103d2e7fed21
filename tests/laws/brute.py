"""The naive ledger that every clever answer is held against: one sum for each record."""

from fractions import Fraction

from tidegate.plan import Plan
from tidegate.schedule import Basic, Continual, Cumulative, MultiResolution


def paid_by_all(plan: Plan, until: int) -> list[Fraction]:
    """What each of the first `until` records has paid, added up record by record."""
    paid = [Fraction(0)] * until
    for fit, share in plan.lines(until):
        for record in range(fit.span.start, fit.span.stop):
            paid[record] += share
    return paid


def tail(plan: Plan, at: int) -> Fraction:
    """What the schedules with bases still take from every present record, after time `at`.

    The bases' weights are (1 - r) r^k: those from level k on add up to r^k. Only right when the
    next base to come is the first whose level was not made, so `at` must be a base's time.
    """
    schedule, shares = plan.schedule, plan.shares
    if not isinstance(schedule, Basic | Continual | Cumulative | MultiResolution):
        return Fraction(0)
    made = (at // schedule.block).bit_length()
    assert at == schedule.block << (made - 1), "not the time of a base"
    return shares.rate**made / shares.certificate.supremum
