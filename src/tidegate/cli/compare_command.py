"""`tidegate compare`: how good a configuration's models would be, measured on public records."""

from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import click
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

from tidegate import plugins
from tidegate.checks import InvalidValueError, refuse
from tidegate.cli import options
from tidegate.cli.compare_output import Report
from tidegate.cli.options import DELTA, EPSILON, PATH, PLOT_FILE, RATIO, count
from tidegate.cli.screen import Screen
from tidegate.compare.compare_plot import draw
from tidegate.compare.comparison import Comparison, load, read
from tidegate.compare.contenders import FORGETS, OWN_METHODS, Contender, added_methods
from tidegate.compare.labelled import LabelledStream
from tidegate.compare.results import Result, common_times, results
from tidegate.picture import new_figure

WARNING = (
    "Use public or synthetic records only. On private records, this table and every setting that "
    "you choose from it would be releases that no budget covers."
)

ADDED = added_methods()
METHODS = (*OWN_METHODS, *ADDED)
"""All names that can be compared."""

MORE = f"More methods to compare with: {plugins.LAB}"

EPILOG = """\b
Examples:
  tidegate compare tidegate.toml public.csv --plot plot.png
  tidegate compare tidegate.toml public.csv --forget 1/4 --forget 1/20
  tidegate compare tidegate.toml public.csv --epsilon 0.5 --epsilon 2
  tidegate compare tidegate.toml public.csv --method sliding --method growing
  tidegate compare tidegate.toml public.parquet --holdout 1/5 --format json
"""


class MethodName(click.Choice[str]):
    """The name of a method; if one is missing, says how to get more."""

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """What to say of another name."""
        message = super().get_invalid_choice_message(value, ctx)
        return message if ADDED else f"{message} {MORE}"


@click.command(epilog=EPILOG)
@click.argument("config", type=PATH)
@click.argument("data", type=PATH)
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="METHOD",
    type=MethodName(METHODS),
    help=f"Method to compare with; repeat for several. One of {', '.join(METHODS)}.",
)
@click.option(
    "--forget",
    type=RATIO,
    multiple=True,
    help=f"Forget rate of fading to try; repeat for several [{', '.join(map(str, FORGETS))}].",
)
@click.option("--epsilon", type=EPSILON, multiple=True, help="Epsilon to try; repeat for several.")
@click.option("--delta", type=DELTA, help="Delta of all budgets [configured].")
@options.weak_delta
@click.option("--window", type=count(), help="Records in a window [configured, or 7 steps].")
@click.option("--block", type=count(), help="Records before the first base [8 steps].")
@click.option("--step", type=count(), help="Records between two releases [configured].")
@click.option(
    "--runs", type=count(most=1000), default=5, show_default=True, help="Runs of each method."
)
@click.option(
    "--holdout",
    type=RATIO,
    help="Hold out this fraction of DATA and test on it, not on the step after each release.",
)
@click.option("--plot", type=PLOT_FILE, help="Plot the results to this .svg or .png file.")
@options.form
def compare(  # noqa: PLR0913, PLR0917 (an argument for each option)
    config: Path,
    data: Path,
    methods: tuple[str, ...],
    forget: tuple[Fraction, ...],
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

    Without --method, a grid of schedules and forget rates is tried, beside the methods of other
    packages, such as those of lab/ in a clone of Tidegate. The [schedule] table of the best is
    printed for CONFIG, with the margin by which it won, and with the schedules that are within the
    noise of the runs.

    Classes are compared by accuracy, a number (records.target) by RMSE, each beside other measures
    and what a constant reaches.

    DATA is a .csv, .parquet or .jsonl file of labelled records, in order of arrival and with the
    columns that CONFIG describes. NEVER USE PRIVATE RECORDS: this table and every setting that you
    choose from it would be releases that no budget covers. Use public or synthetic records.
    """
    console = Screen(stderr=True)
    console.print(WARNING, style="bold")
    if not ADDED:
        console.print(MORE)
    if plot:
        new_figure(1, 1)  # if matplotlib is missing, fail before the runs, not after them
    if forget and methods and "fading" not in methods:
        raise InvalidValueError("--forget is for fading: add --method fading, or name no method")
    tables = load(config)
    own = tables["budget"]
    delta = own.get("delta") if delta is None else delta
    comparison = Comparison(
        tables=tables,
        sizes={name: size for name, size in sizes.items() if size is not None},
        budgets=[(each, delta) for each in epsilon or (own["epsilon"],)],
        weak_delta=weak_delta,
        forgets=tuple(dict.fromkeys(forget)) or FORGETS,
    )
    with closing(comparison.engine), progress_bar(console) as progress:
        reading = progress.add_task(f"reading {data.name}", total=None)
        records = read(comparison.config, comparison.config.source_of(data))
        progress.remove_task(reading)
        stream = comparison.stream(records, every=0 if holdout is None else _every(holdout))
        contenders, left_out = comparison.contenders(methods, stream.n)
        compared = run_all(contenders, stream, runs, progress, comparison.size("step"))
    times = common_times(compared, comparison.size("step"))
    if not times:
        short = f"{data} has too few records: at no time can a model of every method be tested"
        raise InvalidValueError(f"{short}; use more records, or a smaller --window or --block")
    report = Report(
        comparison=comparison,
        results=compared,
        times=times,
        runs=runs,
        config=config.name,
        left_out=left_out,
    )
    if plot:
        draw(plot, report.recommendations, comparison.wording)
    if form == "json":
        report.print_json()
        return
    report.print_tables()
    if plot:
        Screen().print(f"Plot: {plot}", soft_wrap=True)


def progress_bar(console: Console) -> Progress:
    """A progress bar on a terminal, which disappears when the work is done."""
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def run_all(
    contenders: Sequence[Contender],
    stream: LabelledStream,
    runs: int,
    progress: Progress,
    step: int = 0,
) -> list[Result]:
    """Run all contenders; the progress bar names the one that is running."""
    total = sum(len(each.methods) * (1 if each.runs_once else runs) for each in contenders)
    task = progress.add_task("comparing", total=total)
    compared: list[Result] = []
    for contender in contenders:
        progress.update(task, description=contender.name)
        compared += results([contender], stream, runs, lambda: progress.advance(task), step)
    return compared


def _every(holdout: Fraction) -> int:
    if not 0 < holdout <= Fraction(1, 2):
        raise refuse("holdout", "above 0 and at most 1/2", shown=str(holdout))
    return round(1 / holdout)
