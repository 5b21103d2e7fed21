"""`tidegate plan`: what would be released when, and what it costs each record. Needs no data."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tidegate import picture
from tidegate.checks import InvalidValueError, refuse
from tidegate.cli import options
from tidegate.cli.types import Count, Kind, Number, PlotFile, Ratio, kinds_text
from tidegate.plan import Plan, TwoStreamPlan
from tidegate.privacy import (
    Allocation,
    Budget,
    Ledger,
    Line,
    Paper,
    Tapered,
    epsilon_for_sample,
)
from tidegate.privacy.budget import budget_of
from tidegate.privacy.rounding import down
from tidegate.schedule import Fit, Schedule, Stream, TwoStream
from tidegate.schedule.registry import SCHEDULES, Parameter, alone, build, parameters

EPSILON = Number("a finite number above 0", above=0, below=math.inf)
DELTA = Number("a number above 0 and below 1", above=0, below=1)

MAX_STEPS = 10**9
"""More steps than this are refused: printing them would take hours and tell nobody anything."""

TWO_STREAMS = {"block", "window", "step", "sample", "target_step", "source_steps", "target_steps"}

EPILOG = """\b
Examples:
  tidegate plan sliding --window 7168 --step 1024 --epsilon 1 --until 20480
  tidegate plan continual --block 8192 --step 1024 --epsilon 1 --delta 1e-6 --until 65536
  tidegate plan multiresolution --block 1000 --epsilon 0.5 --until 16000 --plot plan.svg
  tidegate plan twostream --window 7000 --step 1000 --target-step 100 --source-steps 2 \\
      --epsilon 1 --until 20000 --format json
"""


def _size_options(command: Callable[..., None]) -> Callable[..., None]:
    """An option for each parameter of the schedules, with its help."""
    known: dict[str, list[tuple[str, Parameter]]] = {}
    for kind, schedule in alone().items():
        for each in parameters(schedule):
            known.setdefault(each.name, []).append((kind, each))
    for name, found in reversed(known.items()):
        whose = "" if len(found) > 1 else f"{found[0][0]}: "
        text = f"{whose}{found[0][1].help}."
        size = Ratio() if found[0][1].ratio else Count()
        command = click.option(_option(name), type=size, help=text[0].upper() + text[1:])(command)
    return command


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


HELP = f"""Show which models KIND would release when, and what each record pays. Needs no data.

KIND is {kinds_text()}. All numbers are in records.
"""


@click.command(epilog=EPILOG, help=HELP)
@click.argument("kind", type=Kind(), metavar="KIND")
@_size_options
@click.option("--target-step", type=Count(), help="twostream: target records between releases.")
@click.option("--source-steps", type=Count(), help="twostream: source steps in a round [1].")
@click.option("--target-steps", type=Count(), help="twostream: target steps after them [1].")
@click.option("--epsilon", type=EPSILON, required=True, help="The bound on any record's loss.")
@click.option("--delta", type=DELTA, help="With it, the bound is (epsilon, delta).")
@options.weak_delta
@click.option(
    "--allocation",
    type=click.Choice([Paper.name, Tapered.name]),
    default=Paper.name,
    show_default=True,
    help="How shares go to levels; growing has its own.",
)
@click.option("--rate", type=Ratio(), help="tapered: the ratio of two levels' shares.")
@click.option(
    "--until",
    type=Count(),
    required=True,
    help="How many records to plan for (twostream: of the source).",
)
@click.option(
    "--rows", type=Count(most=1000), default=24, show_default=True, help="How many to show."
)
@click.option("--plot", type=PlotFile(), help="Draw the first rows into a .svg or .png file.")
@options.form
def plan(  # noqa: PLR0913, PLR0917 (an argument for each option)
    kind: str,
    epsilon: float,
    delta: float | None,
    weak_delta: bool,
    allocation: str,
    rate: Fraction | None,
    until: int,
    rows: int,
    plot: Path | None,
    form: str,
    **given: Any,
) -> None:
    """Plan a kind of schedule, and print it."""
    budget = budget_of(epsilon, delta, weak_delta=weak_delta)
    sizes = {name: size for name, size in given.items() if size is not None}
    if kind == "twostream":
        planned = _two_streams(sizes, budget, _allocation(allocation, rate), until)
    else:
        planned = _one_stream(kind, sizes, budget, _allocation(allocation, rate), until)
    if plot is not None and until < planned.first:
        raise InvalidValueError(f"nothing to plot: {_nothing(planned)}")
    if plot is not None:  # first: whoever reads the rest may stop early
        picture.plot(planned.lines(), plot, most=rows, title=planned.title)
        click.echo(f"The plot is in {plot}", err=True)
    if form == "json":
        _print_json(planned)
    else:
        _print_table(planned, rows)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan that is ready to be printed.

    Attributes:
        title: What it is, in a line.
        budget: The budget it spends.
        steps: Records in a step of each stream.
        reach: How many records it goes to.
        first: How many there are when the first model is released.
        lines: Makes the plan's lines.
        charge: Makes them too, and posts each to its ledger.
        ledgers: A ledger for each stream.
        forever: The most any record of a stream ever pays.
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


def _made(kind: str, sizes: dict[str, int], told: str | None = None) -> Schedule:
    """A schedule of the sizes that were given: all that it needs, none that it does not know."""
    known = {each.name: each.required for each in parameters(SCHEDULES[kind])}
    _refuse_unknown(told or kind, sizes, set(known))
    for name, required in known.items():
        if required and name not in sizes:
            raise InvalidValueError(f"{told or kind} needs {_option(name)}")
    return build(kind, sizes)


def _refuse_unknown(kind: str, sizes: dict[str, int], known: set[str]) -> None:
    for name, size in sizes.items():
        if name not in known:
            raise InvalidValueError(f"{kind} has no {_option(name)}, got {size}")


def _allocation(name: str, rate: Fraction | None) -> Allocation:
    if name == Tapered.name:
        return Tapered(rate)
    if rate is not None:
        raise InvalidValueError(f"--rate goes with --allocation tapered, got {rate}")
    return Paper()


def _steps(until: int, step: int) -> int:
    if until // step > MAX_STEPS:
        raise refuse("until", f"at most {MAX_STEPS:,} steps of {step:,} records", until)
    return until // step


def _title(kind: str, budget: Budget, allocation: Allocation) -> str:
    delta = f", delta = {budget.delta:g}" if budget.delta else ""
    own = kind in SCHEDULES and not SCHEDULES[kind].allocated
    shares = "shares of its own" if own else f"allocation {allocation.name}"
    return f"{kind}, epsilon = {budget.epsilon:g}{delta}, {shares}"


def _one_stream(
    kind: str, sizes: dict[str, int], budget: Budget, allocation: Allocation, until: int
) -> Planned:
    schedule = _made(kind, sizes)
    planned = Plan(schedule=schedule, budget=budget, allocation=allocation)
    step = planned.schedule.step
    _steps(until, step)
    ledger = planned.ledger()
    return Planned(
        title=_title(kind, budget, allocation),
        budget=budget,
        steps={None: step},
        reach=until,
        first=planned.first,
        lines=partial(planned.lines, until),
        charge=partial(planned.charge, ledger, until),
        ledgers={None: ledger},
        forever={None: planned.forever},
    )


def _two_streams(
    sizes: dict[str, int], budget: Budget, allocation: Allocation, until: int
) -> Planned:
    _refuse_unknown("twostream", sizes, TWO_STREAMS)
    if "target_step" not in sizes:
        raise InvalidValueError("twostream needs --target-step")
    target_step = sizes.pop("target_step")
    per_round, targets = sizes.pop("source_steps", 1), sizes.pop("target_steps", 1)
    if not {"window", "block"} & set(sizes):
        raise InvalidValueError("twostream needs --window and --step, or --block, for its source")
    kind = "sliding" if "window" in sizes else "cumulative"
    source = _made(kind, sizes, f"a {kind} source")
    planned = TwoStreamPlan(
        schedule=TwoStream(source=source, step=target_step), budget=budget, allocation=allocation
    )
    steps = _steps(until, source.step)

    def arrivals() -> Iterator[Stream]:
        for step in range(1, steps + 1):
            yield "source"
            if step % per_round == 0:
                yield from repeat("target", targets)

    ledgers = planned.ledgers()
    return Planned(
        title=_title(f"twostream from {kind}", budget, allocation),
        budget=budget,
        steps={"source": source.step, "target": target_step},
        reach=until,
        first=planned.first,
        lines=lambda: planned.lines(arrivals()),
        charge=lambda: planned.charge(ledgers, arrivals()),
        ledgers={"source": ledgers.source, "target": ledgers.target},
        forever={"source": planned.source.forever, "target": planned.target.forever},
    )


def _summary(planned: Planned, fits: int, releases: int) -> dict[str, Any]:
    """The last line: how many, who has paid most so far, and the most anyone ever pays."""
    paid: dict[str, Any] = {}
    for stream, ledger in planned.ledgers.items():
        record, share = ledger.worst()
        forever = {"share": down(planned.forever[stream])}
        answers = {"worst": {"record": record, "share": down(share)}, "forever": forever}
        paid |= answers if stream is None else {stream: answers}
    return {"fits": fits, "releases": releases} | paid


def _print_json(planned: Planned) -> None:
    fits = releases = 0
    terms: dict[tuple[object, ...], str] = {}  # the second half of a line, of which few differ
    for fit, share in _with_progress(planned, hidden=sys.stdout.isatty()):
        key = (fit.span.size, *fit[4:])
        half = terms.get(key) or terms.setdefault(key, _terms(planned.budget, fit, share))
        prior = "null" if fit.prior is None else fit.prior
        start, stop = fit.span
        sys.stdout.write(
            f'{{"fit": {fit.number}, "at": {fit.at}, "start": {start}, "stop": {stop}, '
            f'"prior": {prior}, {half}\n'
        )
        fits += 1
        releases += fit.released
    print(json.dumps({"summary": _summary(planned, fits, releases)}))


def _terms(budget: Budget, fit: Fit, share: Fraction) -> str:
    """What a fit is and costs, as the second half of its line."""
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
    if fit.stream is not None:
        terms["stream"] = fit.stream
    if fit.sample is not None:
        terms["sample"] = fit.sample
        if budget.unit == "epsilon":
            terms["sample_epsilon"] = epsilon_for_sample(amount, fit.sample, fit.span.size)
    return json.dumps(terms)[1:]


def _print_table(planned: Planned, rows: int) -> None:
    console = Console(highlight=False)
    first: list[Line] = []
    fits = releases = 0
    for line in _with_progress(planned):
        if len(first) < rows:
            first.append(line)
        fits += 1
        releases += line.fit.released
    console.print(f"[bold]{planned.title}[/]\n")
    if not fits:
        console.print(f"{_nothing(planned).capitalize()}.")
        return
    found = picture.chains((line.fit for line in planned.lines()), rows)
    console.print(picture.terminal_picture(found, planned.steps, console.width))
    console.print(picture.legend(), end="\n\n")
    console.print(_fits_table(planned.budget, first))
    if fits > len(first):
        console.print(f"[dim]... and {fits - len(first):,} more[/]")
    if any(line.fit.slot_weights for line in first):
        told = "A share is what the newest records pay: older ones count for less, and pay less."
        console.print(f"[dim]{told}[/]")
    console.print(f"\n{fits:,} fits, {releases:,} releases.")
    for stream, ledger in planned.ledgers.items():
        record, share = ledger.worst()
        whose = f"{stream} record" if stream else "record"
        console.print(
            f"The {whose} that has paid most so far is {record:,}: share {down(share):.6g}. "
            f"For ever, none pays more than {float(planned.forever[stream]):g}."
        )


def _nothing(planned: Planned) -> str:
    whose = "source records" if "source" in planned.steps else "records"
    return (
        f"no model is released before {planned.first:,} {whose} have arrived, "
        f"and --until is {planned.reach:,}"
    )


def _with_progress(planned: Planned, *, hidden: bool = False) -> Iterator[Line]:
    """The charged lines, with a bar on the terminal while they are made."""
    console = Console(stderr=True)
    hidden = hidden or not console.is_terminal
    with Progress(console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("planning", total=planned.reach)
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
