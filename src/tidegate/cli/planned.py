"""The plan that `tidegate plan` prints: built from options, with the ledgers that it charges."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

from tidegate.checks import InvalidValueError, refuse
from tidegate.kinds import parameters
from tidegate.privacy import Allocation, Budget, Ledger, Line, Paper, Tapered
from tidegate.privacy.meaning import amounts
from tidegate.privacy.person import Person
from tidegate.schedule import Schedule, Stream, TwoStream
from tidegate.schedule.plan import MeanPaid, Plan, TwoStreamPlan
from tidegate.schedule.protocol import SCHEDULES, build, sources

if TYPE_CHECKING:
    from tidegate.privacy.admission import Admission

MAX_STEPS = 10**9
"""The most steps that can be planned: printing more would take hours."""

TARGET = ("target_step", "source_steps", "target_steps")
"""The options of a two-stream plan besides those of its source."""


class Measured(NamedTuple):
    """The shares of the budget that are not for fits.

    Attributes:
        survey: What each record pays for the survey of its step.
        scores: What each record pays for the scores of the release before its step.
    """

    survey: Fraction = Fraction(0)
    scores: Fraction = Fraction(0)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan that is ready to be printed.

    Attributes:
        title: One line that describes the plan.
        budget: The budget it spends.
        steps: Records in a step of each stream.
        reach: How many records it covers.
        first: How many records have arrived when the first model is released.
        lines: Returns the plan's lines.
        charge: Returns them too, and posts each to its ledger.
        ledgers: A ledger for each stream.
        forever: The most any record of a stream ever pays, scores included.
        measured: The shares of the survey of each step and of scores.
        mean: What records pay on average, scores included; None for two streams.
        person: How much a person may contribute, if persons are protected.
        admission: What persons cost, if they are protected.
    """

    title: str
    budget: Budget
    steps: dict[Stream | None, int]
    reach: int
    first: int
    lines: Callable[[], Iterator[Line]]
    charge: Callable[[], Iterator[Line]]
    ledgers: dict[Stream | None, Ledger]
    forever: dict[Stream | None, Fraction]
    measured: "Measured"
    mean: Callable[[], MeanPaid | None]
    person: Person | None
    admission: "Admission | None"

    @property
    def no_release(self) -> str:
        """Why nothing is released, and what to change."""
        whose = "source records" if "source" in self.steps else "records"
        return (
            f"the first model is released after {self.first:,} {whose}, "
            f"but --until is {self.reach:,}: raise it"
        )


def _schedule_of(kind: str, sizes: dict[str, int], label: str | None = None) -> Schedule:
    """Build a schedule; refuse missing and unknown sizes."""
    required = {each.name: each.required for each in parameters(SCHEDULES[kind])}
    _refuse_unknown(label or kind, sizes, list(required))
    for name, needed in required.items():
        if needed and name not in sizes:
            option = option_name(name)
            raise InvalidValueError(f"{label or kind} needs {option}, such as {option} 1024")
    return build(kind, sizes)


def option_name(name: str) -> str:
    """The option for a parameter of a schedule."""
    return f"--{name.replace('_', '-')}"


def _refuse_unknown(kind: str, sizes: dict[str, int], allowed: Sequence[str]) -> None:
    for name, size in sizes.items():
        if name not in allowed:
            has = ", ".join(map(option_name, allowed))
            raise InvalidValueError(f"{kind} has no {option_name(name)}, got {size}; it has {has}")


def person_of(
    contributions: int | None, period: int | None, typical: Fraction | None
) -> Person | None:
    """How much a person may contribute, if persons are protected."""
    if contributions is None:
        for name, value in (("period", period), ("typical", typical)):
            if value is not None:
                raise InvalidValueError(
                    f"--{name} {value} needs --contributions: add it, or omit --{name}"
                )
        return None
    return Person(
        contributions=contributions,
        period=period,
        typical=Fraction(1) if typical is None else typical,
    )


def allocation_of(name: str, rate: Fraction | None) -> Allocation:
    """The allocation of a name, with its rate if it has one."""
    if name == Tapered.name:
        return Tapered(rate)
    if rate is not None:
        raise InvalidValueError(f"--rate {rate} needs --allocation tapered: add it, or omit --rate")
    return Paper()


def _steps(until: int, step: int) -> int:
    if until // step > MAX_STEPS:
        raise refuse("until", f"at most {MAX_STEPS:,} steps of {step:,} records", until)
    return until // step


def _title(kind: str, budget: Budget, allocation: Allocation | None, person: Person | None) -> str:
    shares = "shares set by the schedule" if allocation is None else f"allocation {allocation.name}"
    about = "" if person is None else " about any one person"
    return f"{kind}, {amounts(budget.epsilon, budget.delta)}{about}, {shares}"


def one_stream(  # noqa: PLR0913, PLR0917 (an argument for each part of a plan)
    kind: str,
    sizes: dict[str, int],
    budget: Budget,
    allocation: Allocation,
    until: int,
    measured: Measured,
    person: Person | None = None,
) -> Planned:
    """The plan of a kind of schedule for one stream."""
    schedule = _schedule_of(kind, sizes)
    planned = Plan(
        schedule=schedule,
        budget=budget,
        allocation=allocation,
        reserve=measured.scores,
        survey=measured.survey,
        person=person,
    )
    step = planned.steps.size
    _steps(until, step)
    ledger = planned.ledger()
    return Planned(
        title=_title(kind, budget, allocation if schedule.allocated else None, person),
        budget=budget,
        steps={None: step},
        reach=until,
        first=planned.first,
        lines=partial(planned.lines, until),
        charge=partial(planned.charge, ledger, until),
        ledgers={None: ledger},
        forever={None: planned.forever + measured.scores},
        measured=measured,
        mean=partial(_mean, planned, until),
        person=person,
        admission=planned.admission,
    )


def _mean(plan: Plan, until: int) -> MeanPaid | None:
    """What records pay on average, scores included."""
    mean = plan.mean_paid(until)
    return None if mean is None else mean._replace(share=mean.share + plan.reserve)


def two_streams(  # noqa: PLR0913, PLR0917 (an argument for each part of a plan)
    sizes: dict[str, int],
    budget: Budget,
    allocation: Allocation,
    until: int,
    measured: Measured,
    person: Person | None = None,
) -> Planned:
    """The plan of a source and a target stream, whose steps arrive in rounds."""
    names = {kind: [each.name for each in parameters(one)] for kind, one in sources().items()}
    _refuse_unknown("twostream", sizes, list(dict.fromkeys([*TARGET, *chain(*names.values())])))
    if "target_step" not in sizes:
        raise InvalidValueError("twostream needs --target-step, such as --target-step 1024")
    target_step = sizes.pop("target_step")
    per_round, targets = sizes.pop("source_steps", 1), sizes.pop("target_steps", 1)
    candidates = [kind for kind, own in names.items() if own[0] in sizes]
    if not candidates:
        first = " or ".join(f"{option_name(own[0])} 1024" for own in names.values())
        raise InvalidValueError(f"twostream needs sizes for its source, such as {first}")
    kind = max(candidates, key=lambda kind: len(sizes.keys() & names[kind]))
    source = _schedule_of(kind, sizes, f"a {kind} source")
    planned = TwoStreamPlan(
        schedule=TwoStream(source=source, step=target_step),
        budget=budget,
        allocation=allocation,
        reserve=measured.scores,
        survey=measured.survey,
        person=person,
    )
    steps = _steps(until, source.steps.size)

    def arrivals() -> Iterator[Stream]:
        for step in range(1, steps + 1):
            yield "source"
            if step % per_round == 0:
                yield from repeat("target", targets)

    ledgers = planned.ledgers()
    return Planned(
        title=_title(f"twostream from {kind}", budget, allocation, person),
        budget=budget,
        steps={"source": source.steps.size, "target": target_step},
        reach=until,
        first=planned.first,
        lines=lambda: planned.lines(arrivals()),
        charge=lambda: planned.charge(ledgers, arrivals()),
        ledgers={"source": ledgers.source, "target": ledgers.target},
        forever={
            "source": planned.forever["source"] + measured.scores,
            "target": planned.forever["target"] + measured.scores,
        },
        measured=measured,
        mean=lambda: None,
        person=person,
        admission=planned.admission,
    )
