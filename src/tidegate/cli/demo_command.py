"""`tidegate demo`: private models on a drifting stream, beside other methods."""

import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
from click.core import ParameterSource
from rich.live import Live
from rich.table import Table
from rich.text import Text
from threadpoolctl import threadpool_limits

from tidegate.checks import InvalidValueError
from tidegate.cli import options
from tidegate.cli.options import PATH, PLOT_FILE, count
from tidegate.cli.screen import Screen
from tidegate.demo.demo_state import STATE, DriftingStream
from tidegate.demo.side_by_side import (
    CUMULATIVE,
    FADING,
    NAIVE,
    NOT_PRIVATE,
    REFIT,
    SLIDING,
    Comparison,
    Moment,
    title,
)
from tidegate.demo.side_by_side import plot as draw
from tidegate.picture import new_figure, strip
from tidegate.privacy.meaning import meaning
from tidegate.schedule import RecordFit, Span
from tidegate.schedule.fit import SlotWeight

ROWS = 6
"""How many steps the table shows."""

EPILOG = """\b
Examples:
  tidegate demo                          under a minute
  tidegate demo --records 20480          a shorter stream
  tidegate demo --format json            one line per step
"""

IDEA = """\
[bold]A stream of {stream.records:,} sensitive records. A fresh model after every {demo.step:,}.[/]

The records are of {stream.classes} classes on a ring that starts to rotate after a quarter of the
stream. Models of old records go stale, so a new model is trained at every step. Each reveals a
little about its records, and it adds up. Here every private method keeps one promise: all its
models together reveal about any one record at most
[bold]epsilon = {budget.epsilon:g}, delta = {budget.delta:g}[/]. {meaning}
"""

METHODS = {
    FADING: "A model of the newest {demo.window:,} records in which old ones count less and less: "
    "each step █ counts 3/10 less when the next one arrives (▓, ▒, ░), and is deleted in the end. "
    "Each model ◆ starts from the one before. A record pays less as it fades: what it pays "
    "never adds up to more than its budget.",
    REFIT: "The strongest baseline: at every step a model of all of the newest {demo.window:,} "
    "records, for 1/{windows} of their budget, that starts from the one before.",
    SLIDING: "A model of exactly the newest {demo.window:,} records, made as a chain: a base is "
    "refined on blocks of records, which are reused while the window moves.",
    CUMULATIVE: "A model of all records so far, made as chains too: good until the ring rotates, "
    "and the wrong schedule from then on.",
    NAIVE: "A model of the newest {demo.window:,} records, trained from scratch each time for "
    "epsilon/{demo.releases} and delta/{demo.releases}, by simple composition over the "
    "{demo.releases} releases of this stream. Then its budget is spent; the others go on for ever.",
    NOT_PRIVATE: "The same without noise and without any promise: to compare with.",
}


@click.command(epilog=EPILOG)
@click.option(
    "--records",
    type=count(least=10_240, most=10**7),
    default=DriftingStream.records,
    show_default=True,
    help="How many records arrive.",
)
@click.option(
    "--plot",
    type=PLOT_FILE,
    default="tidegate-demo.png",
    show_default=True,
    help="Write the plot to this .png or .svg file.",
)
@click.option(
    "--state",
    type=PATH,
    default=STATE,
    show_default=True,
    help="Keep the state of fading here; replaces the state of an earlier demo.",
)
@options.form
@options.quiet
def demo(records: int, plot: Path, state: Path, form: str, quiet: bool) -> None:
    """Watch private models follow a drifting stream, beside other methods.

    The state is kept. Inspect it with tidegate serve, status, ledger, releases and verify.
    """
    no_plot, context = _why_no_plot(), click.get_current_context()
    if no_plot and context.get_parameter_source("plot") is not ParameterSource.DEFAULT:
        raise InvalidValueError(no_plot)  # asked for: fail before the run, not after it
    turns = DriftingStream.turns * records / DriftingStream.records  # same speed at any length
    comparison = Comparison(stream=DriftingStream(records=records, turns=turns))
    began = time.monotonic()
    with threadpool_limits(1):  # the matrices are small: more threads would be slower
        if quiet:
            moments = list(comparison.run(state))
        elif form == "json":
            moments = list(_print_json(comparison.run(state)))
        else:
            moments = _show_live(comparison, state)
    if no_plot is None:
        draw(plot, comparison, moments)
    if form == "table" and not quiet:
        _summary(comparison, moments)
        drawn = f"Plot: {plot}." if no_plot is None else f"No plot: {no_plot}."
        click.echo(f"Took {time.monotonic() - began:.0f} s. State: {state}. {drawn}")
        click.echo(f"Next, see it live on a page: {_tidegate()} serve --demo {state}")
    elif no_plot:
        click.echo(f"tidegate: {no_plot}", err=True)


def _why_no_plot() -> str | None:
    """What to do to get a plot; None if it can be drawn."""
    try:
        new_figure(1, 1)
    except InvalidValueError as error:
        return str(error)
    return None


def _print_json(moments: Iterable[Moment]) -> Iterator[Moment]:
    for moment in moments:
        row = {
            "at": moment.at,
            "chain": [list(fit.span) for fit in moment.chain],
            "emphasis": [
                [*span, str(part)] for fit in moment.fading for span, part in fit.slot_weights
            ],
            "worst_share": moment.worst,
            "accuracy": dict(moment.accuracy),
        }
        options.answer(row, "json")
        yield moment


def _show_live(comparison: Comparison, state: Path) -> list[Moment]:
    console = Screen(markup=True)
    _explain(console, comparison)
    moments: list[Moment] = []
    with Live(console=console, refresh_per_second=8) as live:
        for moment in comparison.run(state):
            moments.append(moment)
            if console.is_terminal or moment.at == comparison.moments * comparison.step:
                live.update(_table(moments[-ROWS:], comparison))
    return moments


def _explain(console: Screen, comparison: Comparison) -> None:
    budget = comparison.budget
    windows = comparison.window // comparison.step
    facts = {"demo": comparison, "stream": comparison.stream, "budget": budget, "windows": windows}
    promise = meaning(budget.epsilon, budget.delta)
    methods = Table.grid(padding=(0, 2))
    for name, text in METHODS.items():
        methods.add_row(f"[bold]{title(name)}[/]", text.format(**facts))
    headline, _, idea = IDEA.format(**facts, meaning=promise).partition("\n\n")
    console.print(headline, "", " ".join(idea.split()), "", methods, "", sep="\n")


def _table(moments: Sequence[Moment], comparison: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("records", justify="right")
    table.add_column("weights as they fade", width=comparison.window // comparison.step + ROWS - 1)
    table.add_column("budget\nspent", justify="right")
    for method in METHODS:
        name = title(method).replace(" ", "\n")
        table.add_column(name, justify="right", style="bold" if method == FADING else "")
    first = moments[0].at - comparison.window
    for moment in moments:
        accuracies = [moment.accuracy.get(method) for method in METHODS]
        table.add_row(
            f"{moment.at:,}",
            _strip(moment, max(0, first), comparison.step),
            f"{moment.worst:.1%}",
            *("-" if accuracy is None else f"{accuracy:.1%}" for accuracy in accuracies),
        )
    return table


def _strip(moment: Moment, first: int, step: int) -> Text:
    """Draw the slot weights, with record `first` in the leftmost column."""
    return strip(tuple(_moved(fit, first) for fit in moment.fading), step)


def _moved(fit: RecordFit, by: int) -> RecordFit:
    weights = (
        SlotWeight(Span(start - by, stop - by), part) for (start, stop), part in fit.slot_weights
    )
    span = Span(fit.span.start - by, fit.span.stop - by)
    return fit._replace(span=span, slot_weights=tuple(weights))


def _summary(comparison: Comparison, moments: Sequence[Moment]) -> None:
    means = comparison.rotating(moments)
    listed = ", ".join(f"{title(method)} {means[method]:.1%}" for method in METHODS)
    worst = moments[-1].worst
    console = Screen(markup=True)
    console.print()
    console.print(f"Mean accuracy on fresh records after the ring starts to rotate: {listed}.")
    console.print(
        f"No record has spent more than {worst:.1%} of its budget for the {comparison.moments:,} "
        "releases of fading, and none ever will spend more than 100%."
    )


def _tidegate() -> str:
    """What to type to run this command: a path if `tidegate` is not on PATH, as under `make`."""
    called, on_path = sys.argv[0], shutil.which("tidegate")
    if not os.access(called, os.X_OK) or (on_path and os.path.samefile(on_path, called)):
        return "tidegate"
    return called
