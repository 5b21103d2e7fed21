"""The naive ledger that faster answers are compared with: one sum for each record."""

from collections.abc import Iterable
from fractions import Fraction
from itertools import islice

from tidegate.privacy.ledger import Line
from tidegate.schedule import (
    Basic,
    Continual,
    Cumulative,
    Growing,
    MultiResolution,
    Schedule,
    SlidingWindow,
)
from tidegate.schedule.plan import Plan


def paid_by_all(plan: Plan, until: int) -> list[Fraction]:
    """What each of the first `until` records has paid, added up record by record."""
    paid = [Fraction(0)] * until
    for line in plan.lines(until):
        for record in range(line.fit.span.start, line.fit.span.stop):
            paid[record] += charged(line, record)
    return paid


def charged(line: Line, record: int) -> Fraction:
    """What a line charges to a record of its span."""
    parts = [part for span, part in line.fit.slot_weights if record in range(*span)]
    assert len(parts) == bool(line.fit.slot_weights)  # each record of the span has one
    return line.share * (parts[0] ** line.fit.power if parts else 1)


def person_cost(plan: Plan, admitted: Iterable[int], until: int) -> Fraction:
    """What a person pays by the time `until` steps are complete, fit by fit.

    A fit costs the most that it charges to a record of any of the admitted steps.
    """
    records = [plan.steps.count(step) for step in admitted]
    cost = (plan.survey + plan.reserve) * len(records)
    for line in plan.lines(plan.steps.count(until)):
        read = [record for record in records if record in line.fit.span]
        cost += max((charged(line, record) for record in read), default=Fraction(0))
    return cost


def horizon(schedule: Schedule, length: int) -> int:
    """A time after which records pay only for bases to come: see `tail`."""
    match schedule:
        case Basic() | Continual() | Cumulative() | MultiResolution():
            return schedule.block << length
        case SlidingWindow():
            return schedule.window + length * (schedule.left + 1) * schedule.step
        case Growing():
            return schedule.steps.count(next(islice(schedule.reads(0), length, None)))
        case _ if schedule.look_back is not None:
            return schedule.steps.count(schedule.first + length * schedule.look_back)
        case _:
            raise NotImplementedError(schedule)


def tail(plan: Plan, at: int) -> Fraction:
    """What the most-charged record still has to pay after a `horizon`.

    The raw shares of bases are (1 - r) r^k: those from level k on add up to r^k. Under Growing,
    what is left differs from record to record.
    """
    schedule, shares = plan.schedule, plan.shares
    match schedule:
        case Basic() | Continual() | Cumulative() | MultiResolution():
            made = (at // schedule.block).bit_length()
            return shares.levels.rate**made / shares.certificate.supremum
        case _ if schedule.look_back is not None:
            return Fraction(0)
        case Growing():
            return 1 - max(paid_by_all(plan, at))  # tested by its own law
        case _:
            raise NotImplementedError(schedule)
