"""The ledger: what each record has paid, stored for runs of records with equal totals."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import NamedTuple

from tidegate.checks import StoreError, whole
from tidegate.schedule.fit import RecordFit, Span, Steps


class Line(NamedTuple):
    """A fit and its share: each record of its span pays that, or less if its weight is below 1."""

    fit: RecordFit
    share: Fraction

    @property
    def charges(self) -> list[tuple[Span, Fraction]]:
        """What each record of a span pays: the share times a power of its slot weight."""
        if not self.fit.slot_weights:
            return [(self.fit.span, self.share)]
        power = self.fit.power
        return [(span, self.share * part**power) for span, part in self.fit.slot_weights]

    def paid(self, record: int) -> Fraction:
        """What a record pays for the fit."""
        return sum((share for span, share in self.charges if record in span), Fraction(0))


class Paid(NamedTuple):
    """What one record has paid."""

    record: int
    share: Fraction


class LedgerError(StoreError):
    """A request that the plan or a record's budget does not allow; nothing was charged."""


class Ledger:
    """What each record has paid, stored as runs of steps whose records have paid the same.

    It is the last line of defence: it refuses a charge that would take any record above its budget,
    whatever the plan says. Of records that will be charged all together or never again (`settle`),
    it keeps only the most-charged one. So its size depends on the schedule, not on the number of
    records.

    Args:
        recall: Returns what the records of a settled step had paid, given the step and how many
            fits were posted. Without it, nothing can be settled.
        steps: The mapping between steps and records; by default a step is one record.
        crowd: How many runs to keep before settled ones are merged.
        limit: The most that a record may pay; None to add up charges without a limit.
        survey: The share that every record pays when its step is complete; see `take_survey`.

    Attributes:
        posted: How many fits were posted.
        last: The number of the last posted fit, -1 before the first.
        at: How many records had arrived at the last posted fit.

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
    13/12 of its budget: nothing was charged. If a gate reports this, run tidegate verify
    """

    def __init__(
        self,
        recall: Callable[[int, int], Fraction] | None = None,
        *,
        steps: Steps | None = None,
        crowd: int = 64,
        limit: Fraction | None = Fraction(1),
        survey: Fraction = Fraction(0),
    ) -> None:
        self.posted = 0
        self.at = 0
        self.last = -1
        self._recall = recall
        self._survey, self._surveyed = survey, 0
        self._steps = steps or Steps()
        self._limit = None if limit is None else limit.as_integer_ratio()
        self._unit = 1  # totals count units of 1/_unit: far faster to add than Fractions
        self._starts: list[int] = []  # the first step of each run, ascending
        self._totals: list[int] = []  # what each record of a run has paid, 0 in the last run
        self._settled = 0
        self._settled_worst = (0, 0)
        self._to_settle = 0
        self._crowd = self._crowded = crowd

    def post(self, line: Line) -> None:
        """Charge the records of a fit. Post each fit once, in the order of the plan."""
        fit = line.fit
        if fit.number <= self.last:
            raise LedgerError(
                f"fit {fit.number} is posted already, or is out of order: "
                f"post fits after {self.last}, in the order of the plan"
            )
        self._charge(line.charges)
        self.posted, self.at, self.last = self.posted + 1, fit.at, fit.number

    def take_survey(self, span: Span) -> None:
        """Charge the records of the next step for its survey: once, before the step's fits."""
        steps = self._steps.whole(span) or Span(0, 0)
        if steps.start != self._surveyed or steps.size < 1:
            done = self._steps.count(self._surveyed)
            raise LedgerError(
                f"records before {done} have paid for their surveys: "
                f"charge whole steps from there on, in order, not [{span.start}, {span.stop})"
            )
        self._charge([(span, self._survey)])
        self._surveyed = steps.stop

    @property
    def surveyed(self) -> int:
        """The number of records that have paid for their surveys."""
        return self._steps.count(self._surveyed)

    def charge(self, span: Span, share: Fraction) -> None:
        """Charge a share to every record of a span, outside of any plan."""
        if self._recall:
            raise LedgerError("this ledger belongs to a plan: post lines of that plan instead")
        self._charge([(span, share)])

    def _charge(self, charges: Iterable[tuple[Span, Fraction]]) -> None:
        """Make all of the charges, or none if one is refused."""
        made: list[tuple[Span, Fraction]] = []
        try:
            for span, share in charges:
                made.append((self._charge_one(span, share), share))
        except LedgerError:
            for span, share in made:
                self._add(*span, -self._units(share))
            raise

    def _charge_one(self, span: Span, share: Fraction) -> Span:
        """Charge a span of records; return its steps."""
        steps = self._steps.whole(span) or Span(0, 0)
        start, stop = steps
        if not 0 <= start < stop or share <= 0:
            raise LedgerError(
                f"cannot charge {share} to records [{span.start}, {span.stop}): "
                "give a share above 0 and a span of one or more whole steps"
            )
        if start < self._settled and (start > 0 or stop < self._settled):
            before = self._steps.count(self._settled)
            raise LedgerError(
                f"records before {before} are settled: "
                f"charge all of them or none, not [{span.start}, {span.stop})"
            )
        units = self._units(share)
        worst, most = self._add(start, stop, units)
        if self._limit is not None and most * self._limit[1] > self._limit[0] * self._unit:
            self._add(start, stop, -units)
            raise LedgerError(
                f"a charge of {share} to records [{span.start}, {span.stop}) would take record "
                f"{self._steps.count(worst)} to {Fraction(most, self._unit)} of its budget: "
                "nothing was charged. If a gate reports this, run tidegate verify"
            )
        return steps

    def _add(self, start: int, stop: int, units: int) -> tuple[int, int]:
        """Charge steps; return the most-charged of them, the earliest if tied, and its total."""
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
        """The index of the run that starts at a step, after splitting a run if necessary."""
        run = bisect_left(self._starts, step)
        if run == len(self._starts) or self._starts[run] != step:
            self._starts.insert(run, step)
            self._totals.insert(run, self._totals[run - 1] if run else 0)
        return run

    def _join(self, run: int) -> None:
        """Merge a run into the run before it if both have paid the same."""
        if self._totals[run] == (self._totals[run - 1] if run else 0):
            del self._starts[run], self._totals[run]

    def _units(self, share: Fraction) -> int:
        """A share in units; they are made finer if it is not a whole number of them."""
        times, rest = divmod(self._unit, share.denominator)
        if rest:
            unit = lcm(self._unit, share.denominator)
            finer, (step, paid) = unit // self._unit, self._settled_worst
            totals, worst = [finer * total for total in self._totals], (step, finer * paid)
            # All at once: an interrupt in between would leave totals in different units.
            self._unit, self._totals, self._settled_worst = unit, totals, worst
            times = unit // share.denominator
        return share.numerator * times

    def of(self, stream: str) -> "Ledger":
        """The ledger of the only stream: this one."""
        del stream
        return self

    def settle(self, before: int) -> None:
        """Declare that earlier steps will be charged all together or never again."""
        if not self._recall:
            raise LedgerError(
                "only a ledger that belongs to a plan can settle: get one from Plan.ledger()"
            )
        self.forget(before)

    def forget(self, before: int) -> None:
        """Keep only the most-charged of earlier steps, which are never charged one by one again.

        A ledger of a plan can still compute what each of them has paid.
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
            if not self._recall:
                before = self._steps.count(self._settled)
                raise LedgerError(
                    f"what record {record} has paid is forgotten: ask for record {before} or later"
                )
            return self._recall(step, self.posted) + self._survey
        run = bisect_right(self._starts, step)
        return Fraction(self._totals[run - 1] if run else 0, self._unit)

    def worst(self) -> Paid:
        """The most-charged record so far, the earliest if tied, and what it has paid."""
        worst, most = self._settled_worst
        highest = max(self._totals, default=0)
        if highest > most:
            worst, most = self._starts[self._totals.index(highest)], highest
        return Paid(self._steps.count(worst), Fraction(most, self._unit))

    def runs(self) -> Iterator[tuple[Span, Fraction]]:
        """What records that are not settled have paid, by runs of records with equal totals."""
        for (start, stop), total in zip(pairwise(self._starts), self._totals, strict=False):
            if total:
                yield self._steps.records(Span(start, stop)), Fraction(total, self._unit)

    def __repr__(self) -> str:
        record, share = self.worst()
        return f"<Ledger of {self.posted} fits: record {record} has paid most, {float(share):.6g}>"

    def __len__(self) -> int:
        """The number of runs kept, which is the size of the ledger in memory."""
        return len(self._starts)
