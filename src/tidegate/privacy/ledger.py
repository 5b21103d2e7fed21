"""The ledger: what each record has paid, kept as spans and not as records."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import NamedTuple

from tidegate.checks import StoreError, whole
from tidegate.schedule import RecordFit, Span, Steps


class Line(NamedTuple):
    """A fit and its share: every record of the fit's span pays it, or as much as it counts for."""

    fit: RecordFit
    share: Fraction

    @property
    def charges(self) -> list[tuple[Span, Fraction]]:
        """What the records of each span pay: the share times the square of what they count for."""
        if not self.fit.slot_weights:
            return [(self.fit.span, self.share)]
        return [(span, self.share * part**2) for span, part in self.fit.slot_weights]

    def paid(self, record: int) -> Fraction:
        """What a record pays."""
        return sum((share for span, share in self.charges if record in span), Fraction(0))


class Paid(NamedTuple):
    """What one record has paid."""

    record: int
    share: Fraction


class LedgerError(StoreError):
    """A charge that the plan or a record's budget does not allow: nothing was charged."""


class Ledger:
    """The sum of shares over records, kept as runs of steps whose records have paid the same.

    It is the last line of defence: a charge that would take any record above its budget is refused,
    whatever the plan says. Records that will be charged all together or never again (`settle`)
    shrink to the one that has paid most. So the memory follows the schedule's shape, not the number
    of records.

    Args:
        recall: Answers what the records of a settled step had paid when a number of fits had been
            posted; without it nothing may be settled.
        steps: Which records the steps hold; by default a step is a record.
        crowd: How many runs are kept before settled ones are put together.
        limit: The most that a record may pay; None to add up what was charged, right or wrong.

    Attributes:
        posted: How many fits were posted.
        last: The number of the last of them, -1 before the first.
        at: How many records there were then.

    >>> ledger = Ledger()
    >>> ledger.charge(Span(0, 4), Fraction(1, 2))
    >>> ledger.charge(Span(3, 6), Fraction(1, 4))
    >>> [str(ledger.paid(record)) for record in (2, 3, 4, 6)]
    ['1/2', '3/4', '1/4', '0']
    >>> ledger.worst()
    Paid(record=3, share=Fraction(3, 4))
    >>> ledger.charge(Span(0, 9), Fraction(1, 3))
    Traceback (most recent call last):
    tidegate.privacy.ledger.LedgerError: a charge of 1/3 to records [0, 9) would take record 3 to
    13/12 of its budget: nothing was charged
    """

    def __init__(
        self,
        recall: Callable[[int, int], Fraction] | None = None,
        *,
        steps: Steps | None = None,
        crowd: int = 64,
        limit: Fraction | None = Fraction(1),
    ) -> None:
        self.posted = 0
        self.at = 0
        self.last = -1
        self._recall = recall
        self._steps = Steps() if steps is None else steps
        self._limit = None if limit is None else limit.as_integer_ratio()
        self._unit = 1  # sums are whole numbers of 1/_unit: far faster to add than Fractions
        self._starts: list[int] = []  # of the runs, in steps, ascending; nobody has paid before
        self._totals: list[int] = []  # what the records of each run have paid, 0 in the last
        self._settled = 0
        self._settled_worst = (0, 0)
        self._to_settle = 0
        self._crowd = self._crowded = crowd

    def post(self, line: Line) -> None:
        """Charge the records of a fit; each fit once, in the order of the plan."""
        fit = line.fit
        if fit.number <= self.last:
            raise LedgerError(f"fit {fit.number} is posted already, or comes too late")
        self._charge(line.charges)
        self.posted, self.at, self.last = self.posted + 1, fit.at, fit.number

    def charge(self, span: Span, share: Fraction) -> None:
        """Add a share to every record of a span, outside of any plan."""
        if self._recall is not None:
            raise LedgerError("this ledger belongs to a plan: post the plan's lines")
        self._charge([(span, share)])

    def _charge(self, charges: Iterable[tuple[Span, Fraction]]) -> None:
        """Make all of some charges, or none of them."""
        made: list[tuple[Span, Fraction]] = []
        try:
            for span, share in charges:
                made.append((self._charge_one(span, share), share))
        except LedgerError:
            for span, share in made:
                self._add(*span, -self._units(share))
            raise

    def _charge_one(self, span: Span, share: Fraction) -> Span:
        """Charge a span of records; the steps that it consists of."""
        steps = self._steps.whole(span) or Span(0, 0)
        start, stop = steps
        if not 0 <= start < stop or share <= 0:
            raise LedgerError(f"cannot charge {share} to [{span.start}, {span.stop})")
        if start < self._settled and (start > 0 or stop < self._settled):
            before = self._steps.count(self._settled)
            raise LedgerError(f"records before {before} are settled: cannot split them")
        units = self._units(share)
        worst, most = self._add(start, stop, units)
        if self._limit is not None and most * self._limit[1] > self._limit[0] * self._unit:
            self._add(start, stop, -units)
            raise LedgerError(
                f"a charge of {share} to records [{span.start}, {span.stop}) would take record "
                f"{self._steps.count(worst)} to {Fraction(most, self._unit)} of its budget: "
                "nothing was charged"
            )
        return steps

    def _add(self, start: int, stop: int, units: int) -> tuple[int, int]:
        """Charge steps; which of them has paid most since, the earliest, and how much."""
        worst, most = start, 0
        if start < self._settled:
            step, paid = self._settled_worst
            self._settled_worst = worst, most = step, paid + units
            start = self._settled
        if start < stop:
            starts, totals = self._starts, self._totals
            first = self._split(start)
            last = self._split(stop)
            charged = [total + units for total in totals[first:last]]
            totals[first:last] = charged
            highest = max(charged)
            if highest > most:
                worst, most = starts[totals.index(highest, first)], highest
            self._join(last)
            self._join(first)
        return worst, most

    def _split(self, step: int) -> int:
        """The run that starts at a step, made if there is none."""
        run = bisect_left(self._starts, step)
        if run == len(self._starts) or self._starts[run] != step:
            self._starts.insert(run, step)
            self._totals.insert(run, self._totals[run - 1] if run else 0)
        return run

    def _join(self, run: int) -> None:
        """Make a run one with the run before it if both have paid the same."""
        if self._totals[run] == (self._totals[run - 1] if run else 0):
            del self._starts[run], self._totals[run]

    def _units(self, share: Fraction) -> int:
        """A share in units, which are made finer if it is not a whole number of them."""
        times, rest = divmod(self._unit, share.denominator)
        if rest:
            unit = lcm(self._unit, share.denominator)
            finer, (step, paid) = unit // self._unit, self._settled_worst
            totals, worst = [finer * total for total in self._totals], (step, finer * paid)
            # All at once: an interruption in between would show a part of what was paid.
            self._unit, self._totals, self._settled_worst = unit, totals, worst
            times = unit // share.denominator
        return share.numerator * times

    def settle(self, before: int) -> None:
        """Declare that earlier steps will be charged all together or never again."""
        if self._recall is None:
            raise LedgerError("only a ledger that belongs to a plan can settle")
        self.forget(before)

    def forget(self, before: int) -> None:
        """Let go of earlier steps, which are not charged again: all but what the worst has paid.

        A plan can still recall what each has paid.
        """
        self._to_settle = max(self._to_settle, before)
        if len(self._starts) > self._crowded:  # rarely, so that a charge stays cheap on average
            self._collapse()
            self._crowded = max(self._crowd, 2 * len(self._starts)) if self._crowd else 0

    def _collapse(self) -> None:
        before = self._to_settle
        run = self._split(before)
        for step, total in zip(self._starts[:run], self._totals[:run], strict=True):
            if total > self._settled_worst[1]:
                self._settled_worst = (step, total)
        del self._starts[:run], self._totals[:run]
        self._join(0)
        self._settled = before

    def paid(self, record: int) -> Fraction:
        """What a record has paid so far."""
        step = self._steps.step_of(whole("record", record, least=0))
        if step < self._settled:
            if self._recall is None:
                before = self._steps.count(self._settled)
                raise LedgerError(f"records before {before} are forgotten")
            return self._recall(step, self.posted)
        run = bisect_right(self._starts, step)
        return Fraction(self._totals[run - 1] if run else 0, self._unit)

    def worst(self) -> Paid:
        """The record that has paid most so far, the earliest of them."""
        worst, most = self._settled_worst
        highest = max(self._totals, default=0)
        if highest > most:
            worst, most = self._starts[self._totals.index(highest)], highest
        return Paid(self._steps.count(worst), Fraction(most, self._unit))

    def runs(self) -> Iterator[tuple[Span, Fraction]]:
        """What the records that are not settled have paid, in runs of equals."""
        for (start, stop), total in zip(pairwise(self._starts), self._totals, strict=False):
            if total:
                yield self._steps.records(Span(start, stop)), Fraction(total, self._unit)

    def __repr__(self) -> str:
        record, share = self.worst()
        return f"<Ledger of {self.posted} fits: record {record} has paid most, {float(share):.6g}>"

    def __len__(self) -> int:
        """How many runs are kept: the ledger's size in memory."""
        return len(self._starts)
