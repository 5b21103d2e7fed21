"""The plan: what is released when and what it costs each record, before there is any data."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from tidegate.privacy.allocation import Allocation, OneStream, Paper, Target
from tidegate.privacy.budget import Budget
from tidegate.privacy.certificate import Certificate
from tidegate.privacy.ledger import Ledger, Line
from tidegate.privacy.shares import Shares
from tidegate.schedule import Fit, Stream, TwoStream


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A schedule with its shares: the one thing that privacy is proved on.

    Args:
        schedule: Which fits happen when.
        budget: What any single record may lose, over all time.
        allocation: How shares go to levels.

    >>> from tidegate.privacy import PureDP
    >>> from tidegate.schedule import SlidingWindow
    >>> plan = Plan(schedule=SlidingWindow(window=7168, step=1024), budget=PureDP(1.0))
    >>> for fit, share in plan.lines(until=8192):
    ...     print(fit.at, tuple(fit.span), fit.prior, share)
    7168 (3072, 7168) None 4/7
    7168 (1024, 3072) 0 1/7
    7168 (0, 1024) 1 2/7
    8192 (7168, 8192) 1 2/7
    >>> str(plan.paid(6144, at=1_000_000)), str(plan.forever)
    ('1', '1')
    """

    schedule: OneStream
    budget: Budget
    allocation: Allocation = Paper()

    @cached_property
    def shares(self) -> Shares:
        """What each fit takes from the budget of the records it reads."""
        return Shares(schedule=self.schedule, budget=self.budget, allocation=self.allocation)

    @property
    def certificate(self) -> Certificate:
        """What any record could ever pay, before scaling."""
        return self.shares.certificate

    @property
    def forever(self) -> Fraction:
        """The most that any record ever pays."""
        return self.shares.forever

    def due(self, at: int) -> list[Line]:
        """The fits to carry out once `at` records have arrived, with their shares."""
        return [Line(fit, self.shares.of(fit)) for fit in self.schedule.due(at)]

    def lines(self, until: int) -> Iterator[Line]:
        """All fits due while the first `until` records arrive, with their shares, in order."""
        for at in range(self.schedule.step, until + 1, self.schedule.step):
            yield from self.due(at)

    def paid(self, record: int, at: int) -> Fraction:
        """What a record has paid once `at` records have arrived, from the schedule alone."""
        total = Fraction(0)
        for time in self.schedule.reads(record):
            if time > at:
                break
            total += sum(share for fit, share in self.due(time) if record in fit.span)
        return total

    def ledger(self) -> Ledger:
        """An empty ledger that this plan's lines can be posted to."""
        return Ledger(recall=self.paid)

    def charge(self, ledger: Ledger, until: int) -> Iterator[Line]:
        """The lines, each posted to the ledger before it is handed out.

        >>> from tidegate.privacy import PureDP
        >>> from tidegate.schedule import Continual
        >>> plan = Plan(schedule=Continual(block=8, step=1), budget=PureDP(1.0))
        >>> ledger = plan.ledger()
        >>> sum(1 for line in plan.charge(ledger, until=1000)), float(ledger.worst().share)
        (993, 0.9943181818181818)
        """
        for at in range(self.schedule.step, until + 1, self.schedule.step):
            for line in self.due(at):
                ledger.post(line)
                yield line
            ledger.settle(self.schedule.settled(at))


@dataclass(frozen=True, kw_only=True)
class TwoStreamPlan:
    """The plan of two streams: a ledger each, and each record pays in its own stream only.

    >>> from tidegate.privacy import PureDP
    >>> from tidegate.schedule import Cumulative
    >>> schedule = TwoStream(source=Cumulative(block=20), step=5)
    >>> plan = TwoStreamPlan(schedule=schedule, budget=PureDP(1.0))
    >>> for fit, share in plan.lines(["source", "target", "target"]):
    ...     print(fit.stream, tuple(fit.span), fit.prior, share)
    source (0, 20) None 1/2
    target (0, 5) 0 1/2
    target (0, 10) 0 1/4
    """

    schedule: TwoStream
    budget: Budget
    allocation: Allocation = Paper()

    @cached_property
    def source(self) -> Plan:
        """The plan of the source stream, which takes no notice of the target."""
        return Plan(schedule=self.schedule.source, budget=self.budget, allocation=self.allocation)

    @cached_property
    def target(self) -> Shares:
        """The shares of the target stream, good for any order of arrivals."""
        side = Target(self.schedule.step)
        return Shares(schedule=side, budget=self.budget, allocation=self.allocation)

    def share(self, fit: Fit) -> Fraction:
        """What a fit takes from the budget of the records it reads, in its own stream."""
        return (self.source.shares if fit.stream == "source" else self.target).of(fit)

    def lines(self, arrivals: Iterable[Stream]) -> Iterator[Line]:
        """The fits that follow from the order in which steps complete, with their shares."""
        for fit in self.schedule.fits(arrivals):
            yield Line(fit, self.share(fit))

    def charge(self, source: Ledger, target: Ledger, arrivals: Iterable[Stream]) -> Iterator[Line]:
        """The lines, each posted to the ledger of its stream before it is handed out."""
        for line in self.lines(arrivals):
            if line.fit.stream == "target":
                target.post(line)
            else:
                source.settle(self.schedule.source.settled(line.fit.at - self.schedule.source.step))
                target.settle(target.at)  # a new source model: no later update looks back
                source.post(line)
            yield line
