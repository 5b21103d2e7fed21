"""The plan that `tidegate plan` prints: built from options, printed as JSON or as a table."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, repeat
from typing import Any, NamedTuple

from rich.progress import Progress
from rich.table import Table

from tidegate import picture
from tidegate.checks import InvalidValueError, refuse
from tidegate.cli import options, plan_persons
from tidegate.cli.screen import Screen
from tidegate.kinds import parameters
from tidegate.privacy import Allocation, Budget, Ledger, Line, Paper, Tapered, epsilon_for_sample
from tidegate.privacy.budget import down
from tidegate.privacy.meaning import amounts
from tidegate.privacy.person import Person
from tidegate.schedule import RecordFit, Schedule, Stream, TwoStream
from tidegate.schedule.plan import MeanPaid, Plan, TwoStreamPlan
from tidegate.schedule.protocol import SCHEDULES, build, sources

MAX_STEPS = 10**9
"""The most steps that can be planned: printing more would take hours."""

TARGET = ("target_step", "source_steps", "target_steps")
"""The options of a two-stream plan besides those of its source."""

MEASURED = {
    "survey": "the survey of its step",
    "scores": "scores of the release before its step; the total below leaves that out",
}

ALL_OF_IT = 0.995
"""A mean share from which on `plan` says that records spend all of their budget."""

Sizes = dict[str, Any]


class OfStream(NamedTuple):
    """The plan of one stream: records in a step, an empty ledger, what any record ever pays."""

    step: int
    ledger: Ledger
    forever: Fraction


class Terms(NamedTuple):
    """What every kind of plan is told.

    Attributes:
        budget: The budget it spends.
        allocation: How it is divided among levels.
        survey: What each record pays for the survey of its step.
        reserve: What each record pays for the scores of the release before its step.
        person: How much a person may contribute, if persons are protected.
    """

    budget: Budget
    allocation: Allocation
    survey: Fraction
    reserve: Fraction
    person: Person | None


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan that is ready to be printed.

    Attributes:
        kind: What it is called.
        plan: The plan.
        allocated: Whether its allocation divides the budget; if not, its schedule does.
        until: How many records it covers.
        streams: Each of its streams, by name; None if it has only one.
        lines: Returns the plan's lines.
        charge: Returns them too, and posts each to its ledger.
        means: Returns what records pay on average, if that is known, scores included.
    """

    kind: str
    plan: Plan | TwoStreamPlan
    allocated: bool
    until: int
    streams: Mapping[Stream | None, OfStream]
    lines: Callable[[], Iterator[Line]]
    charge: Callable[[], Iterator[Line]]
    means: Callable[[], Sequence[MeanPaid]] = tuple

    @property
    def title(self) -> str:
        """One line that describes the plan."""
        plan, shares = self.plan, "shares set by the schedule"
        if self.allocated:
            shares = f"allocation {plan.allocation.name}"
        about = " about any one person" if plan.person else ""
        return f"{self.kind}, {amounts(plan.budget.epsilon, plan.budget.delta)}{about}, {shares}"

    @property
    def no_release(self) -> str:
        """Why nothing is released, and what to change."""
        whose = "source records" if "source" in self.streams else "records"
        return (
            f"the first model is released after {self.plan.first:,} {whose}, "
            f"but --until is {self.until:,}: raise it"
        )

    @property
    def measured(self) -> Mapping[str, Fraction]:
        """The shares of the budget that are not for fits."""
        return {"survey": self.plan.survey, "scores": self.plan.reserve}


# --- built from options


def planned(kind: str, sizes: Sizes, until: int, terms: Terms) -> Planned:
    """The plan of a kind of schedule; of twostream, whose steps arrive in rounds."""
    if kind == TwoStream.kind:
        return _two_streams(sizes, until, terms)
    schedule = _schedule_of(kind, kind, sizes)
    plan = Plan(schedule=schedule, **terms._asdict())
    _steps(until, plan.steps.size)
    ledger = plan.ledger()
    return Planned(
        kind=kind,
        plan=plan,
        allocated=schedule.allocated,
        until=until,
        streams={None: OfStream(plan.steps.size, ledger, plan.forever + plan.reserve)},
        lines=partial(plan.lines, until),
        charge=partial(plan.charge, ledger, until),
        means=partial(_means, plan, until),
    )


def _means(plan: Plan, until: int) -> list[MeanPaid]:
    mean = plan.mean_paid(until)
    return [mean._replace(share=mean.share + plan.reserve)] if mean else []


def _two_streams(sizes: Sizes, until: int, terms: Terms) -> Planned:
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
    source = _schedule_of(kind, f"a {kind} source", sizes)
    plan = TwoStreamPlan(schedule=TwoStream(source=source, step=target_step), **terms._asdict())
    steps = _steps(until, source.steps.size)

    def arrivals() -> Iterator[Stream]:
        for step in range(1, steps + 1):
            yield "source"
            if step % per_round == 0:
                yield from repeat("target", targets)

    ledgers, most = plan.ledgers(), plan.forever
    return Planned(
        kind=f"twostream from {kind}",
        plan=plan,
        allocated=True,
        until=until,
        streams={
            "source": OfStream(source.steps.size, ledgers.source, most["source"] + plan.reserve),
            "target": OfStream(target_step, ledgers.target, most["target"] + plan.reserve),
        },
        lines=lambda: plan.lines(arrivals()),
        charge=lambda: plan.charge(ledgers, arrivals()),
    )


def _schedule_of(kind: str, label: str, sizes: Sizes) -> Schedule:
    """Build a schedule; refuse missing and unknown sizes."""
    required = {each.name: each.required for each in parameters(SCHEDULES[kind])}
    _refuse_unknown(label, sizes, list(required))
    for name, needed in required.items():
        if needed and name not in sizes:
            option = option_name(name)
            raise InvalidValueError(f"{label} needs {option}, such as {option} 1024")
    return build(kind, sizes)


def option_name(name: str) -> str:
    """The option for a parameter of a schedule."""
    return f"--{name.replace('_', '-')}"


def _refuse_unknown(kind: str, sizes: Sizes, allowed: Sequence[str]) -> None:
    for name, size in sizes.items():
        if name not in allowed:
            has = ", ".join(map(option_name, allowed))
            raise InvalidValueError(f"{kind} has no {option_name(name)}, got {size}; it has {has}")


def person_of(contributions: int | None, **more: Any) -> Person | None:
    """How much a person may contribute, if persons are protected."""
    given = {name: value for name, value in more.items() if value is not None}
    if contributions:
        return Person(contributions=contributions, **given)
    for name, value in given.items():
        raise InvalidValueError(f"--{name} {value} needs --contributions: add it, or omit --{name}")
    return None


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


# --- as JSON


def print_json(planned: Planned) -> None:
    """Print a JSON line for each fit, and a summary."""
    fits = releases = 0
    terms: dict[tuple[object, ...], str] = {}  # second halves of lines: there are few different
    for fit, share in _with_progress(planned, hidden=sys.stdout.isatty()):
        key = (fit.span.size, *fit[4:])
        half = terms.get(key) or terms.setdefault(key, _terms(planned.plan.budget, fit, share))
        prior = "null" if fit.prior is None else fit.prior
        start, stop = fit.span
        sys.stdout.write(
            f'{{"fit": {fit.number}, "at": {fit.at}, "start": {start}, "stop": {stop}, '
            f'"prior": {prior}, {half}\n'
        )
        fits += 1
        releases += fit.released
    print(json.dumps({"summary": {"fits": fits, "releases": releases} | _paid(planned)}))


def _terms(budget: Budget, fit: RecordFit, share: Fraction) -> str:
    """The level, cost and role of a fit, as the second half of its line."""
    amount = budget.of_share(share)
    terms: dict[str, Any] = {
        "level": fit.level,
        "share": down(share),
        budget.unit: amount,
        "released": fit.released,
        "role": fit.role,
    }
    if fit.slot_weights:
        terms["emphasis"] = [[*span, str(part)] for span, part in fit.slot_weights]
    if fit.stream:
        terms["stream"] = fit.stream
    if fit.sample:
        terms["sample"] = fit.sample
        if budget.unit == "epsilon":
            terms["sample_epsilon"] = epsilon_for_sample(amount, fit.sample, fit.span.size)
    return json.dumps(terms)[1:]


def _paid(planned: Planned) -> dict[str, Any]:
    """The summary of what is paid: by the most-charged record so far, and ever by any record."""
    paid: dict[str, Any] = {}
    for stream, (_, ledger, forever) in planned.streams.items():
        record, share = ledger.worst()
        worst = {"record": record, "share": down(share)}
        own = {"worst": worst, "forever": {"share": down(forever)}}
        paid |= {stream: own} if stream else own
    for name, share in planned.measured.items():
        paid |= {name: {"share": float(share)}} if share else {}
    for mean in planned.means():
        paid["mean"] = {"share": down(mean.share), "final": mean.final}
    return paid | plan_persons.summary(planned.plan)


# --- as a picture and a table


def print_table(planned: Planned, rows: int) -> None:
    """Print a picture, a table of the first fits and what the most-charged record pays."""
    console = Screen(markup=True)
    first: list[Line] = []
    fits = releases = 0
    for line in _with_progress(planned):
        if len(first) < rows:
            first.append(line)
        fits += 1
        releases += line.fit.released
    console.print(f"[bold]{planned.title}[/]\n")
    if fits:
        chains = picture.chains((line.fit for line in planned.lines()), rows)
        steps = {name: stream.step for name, stream in planned.streams.items()}
        console.print(picture.terminal_picture(chains, steps, console.width))
        console.print(picture.legend(chains), end="\n\n")
        console.print(_fits_table(planned.plan.budget, first))
        if fits > len(first):
            console.print(f"[dim]... and {fits - len(first):,} more[/]")
        if any(map(picture.is_weighted, chains)):
            note = "The newest records pay the share. Older ones have less weight and pay less."
            console.print(f"[dim]{note}[/]")
        console.print(f"\n{fits:,} fits, {releases:,} releases.")
        for said in _paid_in_words(planned):
            console.print(said)
    else:
        console.print(f"{planned.no_release.capitalize()}.")
    for part in plan_persons.shown(planned.plan):
        console.print(part)


def _paid_in_words(planned: Planned) -> Iterator[str]:
    """What records pay."""
    for name, share in planned.measured.items():
        if share:
            yield f"Each record also pays {100 * float(share):g} % for {MEASURED[name]}."
    for stream, (_, ledger, forever) in planned.streams.items():
        record, share = ledger.worst()
        whose = f"{stream} record" if stream else "record"
        yield (
            f"The most-charged {whose} so far is no. {record:,}: it has spent "
            f"{100 * down(share):.6g} % of its budget. No record ever spends more than "
            f"{100 * float(forever):g} %."
        )
    for mean in planned.means():
        yield mean_line(mean, planned.kind)


def mean_line(mean: MeanPaid, kind: str) -> str:
    """What records pay on average, and which schedules leave nothing unspent."""
    spent = f"{100 * float(mean.share):.3g} % of its budget"
    if not mean.final:
        return f"So far a record has spent {spent} on average; later fits can add to that."
    if mean.share >= ALL_OF_IT:
        return "Every record spends all of its budget: none is left unused."
    line = f"Over its life a record spends {spent} on average; the rest is never used."
    if kind == "sliding":
        line += " A window of 3, 7, 15, 31 or 63 steps, --refit, or fading leaves nothing unused."
    return line


def _with_progress(planned: Planned, *, hidden: bool = False) -> Iterator[Line]:
    """The charged lines, with a progress bar on the terminal."""
    console = Screen(stderr=True)
    hidden = hidden or not console.is_terminal
    with Progress(console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("planning", total=planned.until)
        for index, line in enumerate(planned.charge()):
            if index % 1000 == 0 and line.fit.stream != "target":
                progress.update(task, completed=line.fit.at)
            yield line


def _fits_table(budget: Budget, lines: Iterable[Line]) -> Table:
    table = options.lean_table()
    for name in ("fit", "at", "records", "prior", "level", "share", budget.unit):
        table.add_column(name, justify="right")
    table.add_column("")
    for fit, share in lines:
        table.add_row(
            str(fit.number),
            f"{fit.at:,}",
            f"[{fit.span.start:,}, {fit.span.stop:,})",
            "-" if fit.prior is None else str(fit.prior),
            "base" if fit.role == "base" else str(fit.level),
            f"{float(share):.4g}",
            f"{budget.of_share(share):.4g}",
            f"{picture.RELEASE if fit.released else ' '} {fit.stream or ''}".rstrip(),
        )
    return table
