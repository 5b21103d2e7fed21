"""The ledger: what each record has paid, kept as spans and not as records."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from tidegate.checks import whole
from tidegate.schedule import Fit, Span


class Line(NamedTuple):
    """A fit and its share: every record of the fit's span pays it, or as much as it counts for."""

    fit: Fit
    share: Fraction

    @property
    def charges(self) -> Iterator[tuple[Span, Fraction]]:
        """What the records of each span pay: the share times the square of what they count for."""
        if not self.fit.emphasis:
            yield self.fit.span, self.share
        for span, part in self.fit.emphasis:
            yield span, self.share * part**2

    def paid(self, record: int) -> Fraction:
        """What a record pays."""
        return sum((share for span, share in self.charges if record in span), Fraction(0))


class Paid(NamedTuple):
    """What one record has paid."""

    record: int
    share: Fraction


class LedgerError(RuntimeError):
    """A charge that the plan does not allow: nothing was charged."""


class Ledger:
    """The sum of shares over records, as a step function of which only the edges are kept.

    Neighbouring records that have paid the same share no edge, and records that will be charged
    all together or never again (`settle`) shrink to the one that has paid most. So the memory
    follows the schedule's shape, not the number of records.

    Args:
        recall: Answers what a settled record had paid when a number of fits had been posted;
            without it nothing may be settled.
        crowd: How many edges are kept before settled ones are put together.

    Attributes:
        posted: How many fits were posted.
        last: The number of the last of them, -1 before the first.
        at: Its time.

    >>> ledger = Ledger()
    >>> ledger.charge(Span(0, 4), Fraction(1, 2))
    >>> ledger.charge(Span(3, 6), Fraction(1, 4))
    >>> [str(ledger.paid(record)) for record in (2, 3, 4, 6)]
    ['1/2', '3/4', '1/4', '0']
    >>> ledger.worst()
    Paid(record=3, share=Fraction(3, 4))
    """

    def __init__(
        self, recall: Callable[[int, int], Fraction] | None = None, *, crowd: int = 64
    ) -> None:
        self.posted = 0
        self.at = 0
        self.last = -1
        self._recall = recall
        self._unit = 1  # sums are whole numbers of 1/_unit: far faster to add than Fractions
        self._edges: dict[int, int] = {}
        self._settled = 0
        self._settled_worst = (0, 0)
        self._to_settle = 0
        self._crowd = self._crowded = crowd

    def post(self, line: Line) -> None:
        """Charge the records of a fit; each fit once, in the order of the plan."""
        fit = line.fit
        if fit.number <= self.last:
            raise LedgerError(f"fit {fit.number} is posted already, or comes too late")
        for span, share in line.charges:
            self._charge(span, share)
        self.posted, self.at, self.last = self.posted + 1, fit.at, fit.number

    def charge(self, span: Span, share: Fraction) -> None:
        """Add a share to every record of a span, outside of any plan."""
        if self._recall is not None:
            raise LedgerError("this ledger belongs to a plan: post the plan's lines")
        self._charge(span, share)

    def _charge(self, span: Span, share: Fraction) -> None:
        start, stop = span
        if not 0 <= start < stop or share <= 0:
            raise LedgerError(f"cannot charge {share} to [{start}, {stop})")
        if start < self._settled and (start > 0 or stop < self._settled):
            raise LedgerError(f"records before {self._settled} are settled: cannot split them")
        units = self._units(share)
        if start < self._settled:
            record, paid = self._settled_worst
            self._settled_worst = (record, paid + units)
            start = self._settled
        if start < stop:
            self._shift(start, units)
            self._shift(stop, -units)

    def _units(self, share: Fraction) -> int:
        """A share in units, which are made finer if it is not a whole number of them."""
        times, rest = divmod(self._unit, share.denominator)
        if rest:
            finer = lcm(self._unit, share.denominator) // self._unit
            self._unit *= finer
            self._edges = {record: finer * edge for record, edge in self._edges.items()}
            record, paid = self._settled_worst
            self._settled_worst = (record, finer * paid)
            times = self._unit // share.denominator
        return share.numerator * times

    def _shift(self, record: int, units: int) -> None:
        edge = self._edges.pop(record, 0) + units
        if edge:
            self._edges[record] = edge

    def settle(self, before: int) -> None:
        """Declare that earlier records will be charged all together or never again."""
        if self._recall is None:
            raise LedgerError("only a ledger that belongs to a plan can settle")
        self._to_settle = max(self._to_settle, before)
        if len(self._edges) > self._crowded:  # rarely, so that a charge stays cheap on average
            self._collapse()
            self._crowded = max(self._crowd, 2 * len(self._edges)) if self._crowd else 0

    def _collapse(self) -> None:
        before = self._to_settle
        total = 0
        for record in sorted(edge for edge in self._edges if edge <= before):
            total += self._edges.pop(record)
            if record < before and total > self._settled_worst[1]:
                self._settled_worst = (record, total)
        if total:
            self._edges[before] = total
        self._settled = before

    def paid(self, record: int) -> Fraction:
        """What a record has paid so far."""
        record = whole("record", record, least=0)
        if record < self._settled and self._recall is not None:
            return self._recall(record, self.posted)
        units = sum(units for edge, units in self._edges.items() if edge <= record)
        return Fraction(units, self._unit)

    def worst(self) -> Paid:
        """The record that has paid most so far, the earliest of them."""
        worst, most = self._settled_worst
        total = 0
        for record in sorted(self._edges):
            total += self._edges[record]
            if total > most:
                worst, most = record, total
        return Paid(worst, Fraction(most, self._unit))

    def runs(self) -> Iterator[tuple[Span, Fraction]]:
        """What the records that are not settled have paid, in runs of equals."""
        total, start = 0, self._settled
        for record in sorted(self._edges):
            if total:
                yield Span(start, record), Fraction(total, self._unit)
            total, start = total + self._edges[record], record

    def __repr__(self) -> str:
        record, share = self.worst()
        return f"<Ledger of {self.posted} fits: record {record} has paid most, {float(share):.6g}>"

    def __len__(self) -> int:
        """How many edges are kept: the ledger's size in memory."""
        return len(self._edges)
