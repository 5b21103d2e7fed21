"""`tidegate compare`: how accurate a configuration would be, measured on public records."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tidegate.checks import InvalidValueError, refuse
from tidegate.cli import options
from tidegate.cli.types import DELTA, EPSILON, PATH, PLOT_FILE, RATIO, count
from tidegate.privacy.meaning import amounts
from tidegate.schedule.registry import alone
from tidegate.study.compare_plot import draw
from tidegate.study.comparison import (
    BASELINES,
    Comparison,
    Result,
    common_times,
    load,
    read,
    results,
)

COLUMNS = 4
"""How many times the table shows."""

WARNING = (
    "Use public or synthetic records only. On private records, this table and every setting that "
    "you choose from it would be releases that no budget covers."
)
METHODS = [*alone(), *BASELINES]

EPILOG = """\b
Examples:
  tidegate compare tidegate.toml public.csv
  tidegate compare tidegate.toml public.csv --epsilon 0.5 --epsilon 2
  tidegate compare tidegate.toml public.csv --method sliding --method naive
  tidegate compare tidegate.toml public.parquet --holdout 1/5 --plot plot.png
"""


@click.command(epilog=EPILOG)
@click.argument("config", type=PATH)
@click.argument("data", type=PATH)
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="METHOD",
    type=click.Choice(METHODS),
    help=f"Method to compare with; repeat for several. One of {', '.join(METHODS)}.",
)
@click.option("--epsilon", type=EPSILON, multiple=True, help="Epsilon to try; repeat for several.")
@click.option("--delta", type=DELTA, help="Delta of all budgets [configured].")
@options.weak_delta
@click.option("--window", type=count(), help="Records in a window [configured, or 7 steps].")
@click.option("--block", type=count(), help="Records before the first base [8 steps].")
@click.option("--step", type=count(), help="Records between two releases [configured].")
@click.option(
    "--runs", type=count(most=1000), default=3, show_default=True, help="Runs of each method."
)
@click.option(
    "--holdout",
    type=RATIO,
    help="Hold out this fraction of DATA and test on it, not on the step after each release.",
)
@click.option("--plot", type=PLOT_FILE, help="Plot accuracy over time to this .svg or .png file.")
@options.form
def compare(  # noqa: PLR0913, PLR0917 (an argument for each option)
    config: Path,
    data: Path,
    methods: tuple[str, ...],
    epsilon: tuple[float, ...],
    delta: float | None,
    weak_delta: bool,
    runs: int,
    holdout: Fraction | None,
    plot: Path | None,
    form: str,
    **sizes: int | None,
) -> None:
    """Compare CONFIG with other schedules, budgets and methods on the records in DATA.

    DATA is a .csv, .parquet or .jsonl file of labelled records, in order of arrival and with the
    columns that CONFIG describes. NEVER USE PRIVATE RECORDS: this table and every setting that you
    choose from it would be releases that no budget covers. Use public or synthetic records.
    """
    console = Console(stderr=True)
    console.print(WARNING, style="bold")
    tables = load(config)
    own = tables["budget"]
    delta = own.get("delta") if delta is None else delta
    comparison = Comparison(
        tables=tables,
        sizes={name: size for name, size in sizes.items() if size is not None},
        budgets=[(each, delta) for each in epsilon or (own["epsilon"],)],
        weak_delta=weak_delta,
    )
    records = read(comparison.config, comparison.config.source_of(data))
    stream = comparison.stream(records, every=None if holdout is None else _every(holdout))
    contenders, left_out = comparison.contenders(methods, stream.n)
    total = sum(runs * len(contender.methods) for contender in contenders)
    shown = Progress(console=console, transient=True, disable=not console.is_terminal)
    with closing(comparison.engine), shown as progress:
        task = progress.add_task("comparing", total=total)
        compared = list(results(contenders, stream, runs, lambda: progress.advance(task)))
    times = common_times(compared, comparison.size("step"))
    if not times:
        short = f"{data} has too few records: at no time does every method have a model"
        raise InvalidValueError(f"{short}; use more records, or a smaller --window or --block")
    if plot is not None:
        draw(plot, compared)
    if form == "json":
        for result in compared:
            click.echo(json.dumps(_row(result, times)))
        return
    for budget in dict.fromkeys(result.contender.budget for result in compared):
        title = amounts(budget.epsilon, budget.delta)
        _print(title, [r for r in compared if r.contender.budget == budget], times)
    tuned = dict.fromkeys(each.name for each in contenders if len(each.methods) > 1)
    _notes(config.name, list(tuned), left_out, times, plot)


def _every(holdout: Fraction) -> int:
    if not 0 < holdout <= Fraction(1, 2):
        raise refuse("holdout", "above 0 and at most 1/2", told=str(holdout))
    return round(1 / holdout)


def _row(result: Result, times: Sequence[int]) -> dict[str, Any]:
    curve, budget = result.curve, result.contender.budget
    return {
        "method": result.contender.name,
        "configured": result.contender.configured,
        "private": curve.private,
        "epsilon": budget.epsilon,
        "delta": budget.delta or None,
        "runs": len(curve.runs),
        "mean": round(float(result.at(times).mean()), 4),
        "mean_from": times[0],
        **curve.row,
    }


def _print(title: str, compared: Sequence[Result], times: range) -> None:
    """Print the table of one budget: non-private methods first, then by mean accuracy."""
    shown = _spread(times, COLUMNS)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    table.add_column("method")
    for time in shown:
        table.add_column(f"at {time:,}", justify="right")
    table.add_column("mean", justify="right")
    means = {id(result): float(result.at(times).mean()) for result in compared}
    for result in sorted(compared, key=lambda r: (r.curve.private, -means[id(r)])):
        name = result.contender.name + " *" * result.contender.configured
        accuracies = [*result.at(shown), means[id(result)]]
        style = "bold" if result.contender.configured else None
        table.add_row(name, *(f"{each:.1%}" for each in accuracies), style=style)
    Console(highlight=False).print(table)


def _spread(times: Sequence[int], count: int) -> list[int]:
    """Pick evenly spread times, the first and the last included.

    >>> _spread(range(0, 100, 10), 4)
    [0, 30, 60, 90]
    """
    last = len(times) - 1
    picked = {round(last * i / (count - 1)) for i in range(count)}
    return [times[i] for i in sorted(picked)]


def _notes(
    config: str, tuned: Sequence[str], left_out: Mapping[str, str], times: range, plot: Path | None
) -> None:
    console = Console(highlight=False)
    best = "shown with its best setting, chosen by these same accuracies"
    console.print(
        f"* marks the settings of {config}. Accuracies are medians over the runs, on new records. "
        f"Means cover all times from {times[0]:,} on, when every method has a model."
        + "".join(f" {name} is {best}." for name in tuned)
    )
    for name, reason in left_out.items():
        console.print(f"Left out: {name} ({reason})")
    if plot is not None:
        console.print(f"Plot: {plot}", soft_wrap=True)
