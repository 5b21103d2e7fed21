"""Plans: what is released when and what it costs each record, computed before any data exists."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.checks import refuse, whole
from tidegate.privacy.budget import Budget
from tidegate.privacy.ledger import Ledger, Line
from tidegate.privacy.person import EACH_RECORD, Person, Protects
from tidegate.privacy.shares import Allocation, Paper, Shares
from tidegate.privacy.target_phases import TargetPhases
from tidegate.schedule import Fit, Schedule, Span, Steps, Stream, TwoStream, fits
from tidegate.schedule.fit import Arrived, Certificate
from tidegate.schedule.protocol import needed
from tidegate.schedule.twostream import Target

if TYPE_CHECKING:  # it needs numpy, which a plan without persons does not load
    from tidegate.privacy.admission import Admission

NOTHING_ARRIVED = Arrived()

ONLY = "records"
"""The name of the stream if a schedule has only one."""

SURVEY = Fraction(1, 20)
"""The default share of surveys under a Gaussian budget.

Chosen on flights, MNIST pixels and arXiv titles; see docs/proofs/survey.md.
"""


def default_survey(budget: Budget) -> Fraction:
    """The share of surveys if none is given: none under a pure budget, whose noise is too large.

    >>> from tidegate.privacy import ApproxDP, PureDP
    >>> default_survey(ApproxDP(1.0, 1e-6)), default_survey(PureDP(1.0))
    (Fraction(1, 20), Fraction(0, 1))
    """
    return SURVEY if budget.unit == "mu" else Fraction(0)


MAX_SIMULATED_STEPS = 2048
"""The most steps that `Plan.mean_paid` computes."""


class MeanPaid(NamedTuple):
    """What records have paid on average; `final` if no later fit reads them."""

    share: Fraction
    final: bool


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A schedule with the share of every fit; the privacy proof is about this plan.

    The schedule counts in steps; the arguments and results of a plan count in records.

    Args:
        schedule: Which fits happen when.
        budget: The budget of each record, over all time.
        allocation: How the budget is divided among levels.
        reserve: The share of every record's budget that nothing in this plan spends.
        survey: The share that every record pays for the survey of its step.
        person: How much a person may contribute, if persons are protected instead of records.

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

    schedule: Schedule
    budget: Budget
    allocation: Allocation = Paper()
    reserve: Fraction = Fraction(0)
    survey: Fraction = Fraction(0)
    person: Person | None = None

    def __post_init__(self) -> None:
        for name in ("survey", "reserve"):
            if not 0 <= (share := getattr(self, name)) < 1:
                raise refuse(name, "a share from 0 to below 1", shown=str(share))
        _ = self.shares  # refuse at once what the budget does not allow
        self.protects.check(self.budget, sample=getattr(self.schedule, "sample", None))

    @property
    def protects(self) -> Protects:
        """Who is protected."""
        return self.person or EACH_RECORD

    @cached_property
    def shares(self) -> Shares:
        """The share of each fit."""
        return Shares(
            schedule=self.schedule,
            budget=self.budget,
            allocation=self.allocation,
            reserve=self.reserve + self.survey,
        )

    @property
    def certificate(self) -> Certificate:
        """The most that any record could ever pay, before shares are scaled."""
        return self.shares.certificate

    @property
    def forever(self) -> Fraction:
        """The most that any record ever pays for fits and its survey."""
        return self.shares.forever + self.survey

    @property
    def first(self) -> int:
        """How many records have arrived when the first model is released."""
        return self.steps.count(self.schedule.first)

    @cached_property
    def steps(self) -> Steps:
        """Which records each step holds."""
        return self.schedule.steps

    @cached_property
    def admission(self) -> "Admission | None":
        """Decides in which steps a person's records count; None if records are protected."""
        if not self.protects.persons:
            return None
        from tidegate.privacy.admission import Admission  # noqa: PLC0415
        from tidegate.privacy.rises import Count, rises_of  # noqa: PLC0415

        rises = rises_of(self.schedule, self.shares)
        counted = isinstance(rises, Count)  # which includes all that a record can pay
        return Admission(
            rises=rises,
            contributions=self.protects.contributions,
            measured=Fraction(0) if counted else self.survey + self.reserve,
            period=self.protects.period,
            look_back=self.schedule.look_back,
            first=self.schedule.first,
        )

    def _line(self, fit: Fit) -> Line:
        """The fit in records, with its share."""
        return Line(self.steps.fit(fit, self.budget.power), self.shares.of(fit))

    def due(self, at: int) -> list[Line]:
        """The fits that are due when exactly `at` records have arrived, with their shares."""
        now = self.steps.complete(at)
        return list(map(self._line, self.schedule.due(now))) if self.steps.count(now) == at else []

    def needed(self, at: int) -> int:
        """The first record that any fit or survey may still read after those due at `at` records.

        The first model may read none of the early steps, but a survey reads every step.
        """
        now = self.steps.complete(at)
        first = needed(self.schedule, now)
        return self.steps.count(min(first, now) if self.survey else first)

    def lines(self, until: int) -> Iterator[Line]:
        """All fits due while the first `until` records arrive, with their shares, in order."""
        mapped, share, power = self.steps.fit, self.shares.of, self.budget.power
        due = fits(self.schedule, self.steps.complete(until))
        return (Line(mapped(fit, power), share(fit)) for fit in due)

    def paid(self, record: int, at: int) -> Fraction:
        """What a record has paid once `at` records have arrived, computed from the schedule."""
        step, now = self.steps.step_of(whole("record", record, least=0)), self.steps.complete(at)
        fits = self._add_up(step, lambda fit: fit.at <= now)
        return fits + self.survey if step < now else fits

    def mean_paid(self, at: int) -> "MeanPaid | None":
        """What records have paid on average once `at` records have arrived.

        The mean is over records that no later fit reads; None if there are none yet. If a schedule
        reads every record again and again, it is over all records, which may pay more later. At
        most `MAX_SIMULATED_STEPS` steps are computed: more hardly change the mean.

        >>> from tidegate.privacy import ApproxDP
        >>> from tidegate.schedule import SlidingWindow
        >>> means = [
        ...     Plan(schedule=SlidingWindow(window=window, step=1), budget=ApproxDP(1.0, 1e-6))
        ...     .mean_paid(1000)
        ...     for window in (31, 36)
        ... ]
        >>> [(round(float(mean.share), 3), mean.final) for mean in means if mean]
        [(1.0, True), (0.626, True)]
        """
        now, look_back = min(self.steps.complete(at), MAX_SIMULATED_STEPS), self.schedule.look_back
        changes = [Fraction(0)] * (now + 1)
        for line in self.lines(self.steps.count(now)):
            for span, share in line.charges:
                changes[self.steps.step_of(span.start)] += share
                changes[self.steps.step_of(span.stop - 1) + 1] -= share
        paid = list(accumulate(changes[:now]))
        if look_back:  # the first steps of a stream may pay less
            paid = paid[look_back : max(now - look_back, 0)]
        if not paid:
            return None
        mean = sum(paid, Fraction(0)) / len(paid)
        return MeanPaid(mean + self.survey, bool(look_back))

    def _paid_before(self, step: int, number: int) -> Fraction:
        """What the records of a step have paid for all fits before this number."""
        return self._add_up(step, lambda fit: fit.number < number)

    def _reading(self, step: int) -> Iterator[Fit]:
        """The fits that read a step, in order; there may be infinitely many."""
        for now in self.schedule.reads(step):
            yield from (fit for fit in self.schedule.due(now) if step in fit.span)

    def _add_up(self, step: int, counts: Callable[[Fit], bool]) -> Fraction:
        record = self.steps.count(step)
        counted = takewhile(counts, self._reading(step))
        return sum((self._line(fit).paid(record) for fit in counted), Fraction(0))

    @property
    def streams(self) -> dict[str, Steps]:
        """The steps of each stream, by its name."""
        return {ONLY: self.steps}

    @property
    def source(self) -> "Plan":
        """The plan of the first stream: this one."""
        return self

    def step_lines(self, so_far: Arrived, stream: str, at: int) -> tuple[list[Line], Arrived]:
        """The lines of a step that ends at a record, and the arrivals of two streams after it."""
        del stream
        return self.due(at), so_far

    def next_model(self, stream: str, done: int) -> int:
        """How many records have arrived when the first model after `done` records is made."""
        del stream
        # The first model may not read the next step, but it reads the last one before it.
        last = max(self.steps.complete(done), self.schedule.first - 1)
        return self.steps.count(next(self.schedule.reads(last)))

    def ledgers(self) -> Ledger:
        """The empty ledger of the only stream."""
        return self.ledger()

    def ledger(self, *, crowd: int = 64) -> Ledger:
        """An empty ledger for this plan's lines."""
        return Ledger(recall=self._paid_before, steps=self.steps, crowd=crowd, survey=self.survey)

    def settle(self, ledger: Any, at: int, so_far: Arrived = NOTHING_ARRIVED) -> None:
        """Settle a ledger once `at` records have arrived: drop detail no later fit needs."""
        del so_far
        ledger.settle(self.schedule.settled(self.steps.complete(at)))

    def charge(self, ledger: Ledger, until: int) -> Iterator[Line]:
        """Yield the lines that the ledger does not have yet, each after it is posted.

        >>> from tidegate.privacy import PureDP
        >>> from tidegate.schedule import Continual
        >>> plan = Plan(schedule=Continual(block=8, step=1), budget=PureDP(1.0))
        >>> ledger = plan.ledger()
        >>> sum(1 for line in plan.charge(ledger, until=1000)), float(ledger.worst().share)
        (993, 0.9943181818181818)
        >>> sum(1 for line in plan.charge(ledger, until=1001))
        1
        """
        steps, schedule = self.steps, self.schedule
        for now in range(max(1, steps.complete(ledger.at)), steps.complete(until) + 1):
            if self.survey and ledger.surveyed < steps.count(now):
                ledger.take_survey(steps.records(Span(now - 1, now)))
            for fit in schedule.due(now):
                if fit.number > ledger.last:
                    line = self._line(fit)
                    ledger.post(line)
                    yield line
            ledger.settle(schedule.settled(now))


@dataclass(frozen=True, kw_only=True)
class TwoStreamPlan:
    """The plan of two streams: each has its own ledger, and a record pays in its own stream only.

    >>> from tidegate.privacy import PureDP
    >>> from tidegate.schedule import Cumulative
    >>> schedule = TwoStream(source=Cumulative(block=20), step=5)
    >>> plan = TwoStreamPlan(schedule=schedule, budget=PureDP(1.0))
    >>> ledgers = plan.ledgers()
    >>> for fit, share in plan.charge(ledgers, ["source", "target", "target"]):
    ...     print(fit.stream, tuple(fit.span), fit.prior, share)
    source (0, 20) None 1/2
    target (0, 5) 0 1/2
    target (0, 10) 0 1/4
    >>> str(ledgers.target.paid(3))
    '3/4'
    """

    schedule: TwoStream
    budget: Budget
    allocation: Allocation = Paper()
    reserve: Fraction = Fraction(0)
    survey: Fraction = Fraction(0)
    person: Person | None = None

    def __post_init__(self) -> None:
        _ = self.source  # refuse at once what the budget does not allow
        if self.protects.period:
            allowed = "left out with two streams, whose steps have no common order"
            raise refuse("period", allowed, self.protects.period)

    @property
    def protects(self) -> Protects:
        """Who is protected."""
        return self.person or EACH_RECORD

    @cached_property
    def source(self) -> Plan:
        """The plan of the source stream, which does not depend on the target."""
        return Plan(
            schedule=self.schedule.source,
            budget=self.budget,
            allocation=self.allocation,
            reserve=self.reserve,
            survey=self.survey,
            person=self.person,
        )

    @cached_property
    def target(self) -> Shares:
        """The shares of the target stream, for any order of arrivals."""
        return replace(self.source.shares, schedule=Target())

    @cached_property
    def admission(self) -> "Admission | None":
        """Decides in which steps of either stream a person's records count, for both together."""
        if not self.protects.persons:
            return None
        from tidegate.privacy.admission import Admission  # noqa: PLC0415
        from tidegate.privacy.rises import Count  # noqa: PLC0415

        return Admission(rises=Count(), contributions=self.protects.contributions, streams=2)

    @property
    def forever(self) -> dict[str, Fraction]:
        """The most that any record of each stream ever pays for fits and its survey."""
        return {"source": self.source.forever, "target": self.target.forever + self.survey}

    @property
    def first(self) -> int:
        """How many source records have arrived when the first model is released."""
        return self.source.first

    @property
    def streams(self) -> dict[str, Steps]:
        """See `Plan`."""
        return dict(self.schedule.steps)

    def step_lines(self, so_far: Arrived, stream: str, at: int) -> tuple[list[Line], Arrived]:
        """See `Plan`."""
        del at
        after, lines = self.arrive(so_far, "source" if stream == "source" else "target")
        return lines, after

    def next_model(self, stream: str, done: int) -> int:
        """See `Plan`; every step of two streams may make one."""
        steps = self.schedule.steps[stream]
        return steps.count(steps.complete(done) + 1)

    def settle(self, ledgers: Any, at: int, so_far: Arrived) -> None:
        """See `Plan`."""
        del at
        ledgers.settle(so_far)

    def arrive(self, so_far: Arrived, stream: Stream) -> tuple[Arrived, list[Line]]:
        """Complete a step of a stream: return the arrivals after it, and the lines of its fits."""
        so_far, fits = self.schedule.arrive(so_far, stream)
        steps, power = self.schedule.steps[stream], self.budget.power
        shares = self.source.shares if stream == "source" else self.target
        return so_far, [Line(steps.fit(fit, power), shares.of(fit)) for fit in fits]

    def lines(self, arrivals: Iterable[Stream]) -> Iterator[Line]:
        """The fits that follow from the order in which steps complete, with their shares."""
        so_far = Arrived()
        for stream in arrivals:
            so_far, lines = self.arrive(so_far, stream)
            yield from lines

    def ledgers(self, *, crowd: int = 64) -> "TwoLedgers":
        """Empty ledgers for this plan's lines."""
        return TwoLedgers(self, crowd)

    def charge(self, ledgers: "TwoLedgers", arrivals: Iterable[Stream]) -> Iterator[Line]:
        """Yield the lines, each after it is posted to the ledger of its stream."""
        so_far = Arrived()
        for stream in arrivals:
            so_far, lines = self.arrive(so_far, stream)
            ledger, steps = ledgers.of(stream), self.schedule.steps[stream]
            if self.survey:
                done = steps.complete(ledger.surveyed)
                ledger.take_survey(steps.records(Span(done, done + 1)))
            for line in lines:
                ledger.post(line)
                yield line
            ledgers.settle(so_far)


class TwoLedgers:
    """The ledgers of two streams."""

    def __init__(self, plan: TwoStreamPlan, crowd: int) -> None:
        self._source_schedule = plan.schedule.source
        self._phases = TargetPhases(plan.target)
        self.source = plan.source.ledger(crowd=crowd)
        steps = plan.schedule.steps["target"]
        self.target = Ledger(recall=self._phases.paid, steps=steps, crowd=crowd, survey=plan.survey)

    def of(self, stream: str) -> Ledger:
        """The ledger of a stream."""
        return self.source if stream == "source" else self.target

    def settle(self, so_far: Arrived) -> None:
        """Settle both ledgers after a step of either stream: drop detail no later fit needs."""
        self.source.settle(self._source_schedule.settled(so_far.source))
        self._phases.open(so_far.phase_start, read=so_far.model is not None)
        self.target.settle(so_far.phase_start)


AnyPlan = Plan | TwoStreamPlan
"""A plan of one stream or of two."""
