"""`tidegate plan`: show each planned release and what it costs each record, without any data."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from tidegate import picture
from tidegate.checks import InvalidValueError, flag, fraction, ratio
from tidegate.cli import options
from tidegate.cli.plan_output import print_json, print_table
from tidegate.cli.planned import (
    Measured,
    allocation_of,
    one_stream,
    option_name,
    person_of,
    two_streams,
)
from tidegate.cli.types import DELTA, EPSILON, PLOT_FILE, RATIO, SLOTS, Kind, count, kinds_text
from tidegate.kinds import Parameter, parameters
from tidegate.privacy import Paper, Tapered
from tidegate.privacy.budget import MAX_CONTRIBUTIONS, budget_of
from tidegate.schedule.protocol import alone

EPILOG = """\b
Examples:
  tidegate plan sliding --window 7168 --step 1024 --epsilon 1 --until 20480
  tidegate plan continual --block 8192 --step 1024 --epsilon 1 --delta 1e-6 \\
      --until 65536
  tidegate plan multiresolution --block 1000 --epsilon 0.5 --until 16000 \\
      --plot plan.svg
  tidegate plan twostream --window 7000 --step 1000 --target-step 100 \\
      --source-steps 2 --epsilon 1 --until 20000 --format json
  tidegate plan fading --step 1024 --forget 1/5 --epsilon 1 --delta 1e-6 \\
      --contributions 4 --until 16384
"""


def _size_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each parameter of the schedules."""
    sizes: dict[str, Parameter] = {}
    kinds: dict[str, dict[str, list[str]]] = {}  # kinds by parameter name and help
    for kind, schedule in alone().items():
        for each in parameters(schedule):
            sizes[each.name] = each
            kinds.setdefault(each.name, {}).setdefault(each.help, []).append(kind)
    for name, each in reversed(sizes.items()):
        if each.check is flag:
            text = f"{_size_help(kinds[name])}."
            command = click.option(option_name(name), is_flag=True, default=None, help=text)(
                command
            )
            continue
        size = RATIO if each.check in (ratio, fraction) else count()
        default = "" if each.required or each.example is None else f" [{each.example}]"
        text = f"{_size_help(kinds[name])}{default}."
        command = click.option(option_name(name), type=size, help=text)(command)
    return command


def _size_help(kinds: dict[str, list[str]]) -> str:
    """The help of a parameter; it names the kinds unless several share one meaning."""
    text, users = next(iter(kinds.items()))
    if len(kinds) == 1 < len(users):
        return text[0].upper() + text[1:]
    return "; ".join(f"{', '.join(users)}: {text}" for text, users in kinds.items())


HELP = f"""Show when KIND releases models and what each record pays. Needs no data.

KIND is {kinds_text()}. All sizes are in records.
"""


@click.command(epilog=EPILOG, help=HELP)
@click.argument("kind", type=Kind(), metavar="KIND")
@_size_options
@click.option("--target-step", type=count(), help="twostream: target records between releases.")
@click.option("--source-steps", type=count(), help="twostream: source steps in a round [1].")
@click.option("--target-steps", type=count(), help="twostream: target steps after them [1].")
@click.option(
    "--epsilon",
    type=EPSILON,
    required=True,
    help="The privacy budget of each record, for ever; with --contributions, of each person.",
)
@click.option(
    "--delta", type=DELTA, help="The delta of the budget; without it, the budget is pure epsilon."
)
@options.weak_delta
@click.option(
    "--allocation",
    type=click.Choice([Paper.name, Tapered.name]),
    default=Paper.name,
    show_default=True,
    help="How the budget is divided among levels; growing has its own rule.",
)
@click.option("--rate", type=RATIO, help="tapered: ratio of the shares of two adjacent levels.")
@click.option("--survey", type=RATIO, help="Share of the budget for a survey of each step [0].")
@click.option("--scores", type=RATIO, help="Share of the budget for scores of releases [0].")
@click.option(
    "--contributions",
    type=count(most=MAX_CONTRIBUTIONS),
    help="Protect persons: all records of one person may cost N times what one record may cost.",
)
@click.option(
    "--period", type=count(), help="Bound a person's cost in any N consecutive steps [for life]."
)
@click.option("--typical", type=SLOTS, help="Slots that a person is expected to have in a fit [1].")
@click.option(
    "--until",
    type=count(),
    required=True,
    help="How many records to plan for (twostream: source records).",
)
@click.option(
    "--rows", type=count(most=1000), default=24, show_default=True, help="How many rows to show."
)
@click.option("--plot", type=PLOT_FILE, help="Plot the first rows to this .svg or .png file.")
@options.form
def plan(  # noqa: PLR0913, PLR0917 (an argument for each option)
    kind: str,
    epsilon: float,
    delta: float | None,
    weak_delta: bool,
    allocation: str,
    rate: Fraction | None,
    survey: Fraction | None,
    scores: Fraction | None,
    contributions: int | None,
    period: int | None,
    typical: Fraction | None,
    until: int,
    rows: int,
    plot: Path | None,
    form: str,
    **given: Any,
) -> None:
    """Plan a kind of schedule, and print it."""
    person = person_of(contributions, period, typical)
    budget = budget_of(epsilon, delta, contributions=contributions or 1, weak_delta=weak_delta)
    sizes = {name: size for name, size in given.items() if size is not None}
    measured = Measured(survey or Fraction(0), scores or Fraction(0))
    parts = (sizes, budget, allocation_of(allocation, rate), until, measured, person)
    planned = two_streams(*parts) if kind == "twostream" else one_stream(kind, *parts)
    if plot is not None and until < planned.first:
        raise InvalidValueError(f"nothing to plot: {planned.no_release}")
    if plot is not None:  # before printing, which ends early in a pipe to `head`
        picture.plot(planned.lines(), plot, most=rows, title=planned.title)
        click.echo(f"Plot: {plot}", err=True)
    if form == "json":
        print_json(planned)
    else:
        print_table(planned, rows)
