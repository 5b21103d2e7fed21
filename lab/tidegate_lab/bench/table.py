"""What all benchmarks share: times taken in turns, bars, and the look of a table."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Table

Run = Callable[[], object]
COLUMNS = ("what", "against", "Tidegate", "the other", "ratio", "bar", "met")


@dataclass(frozen=True)
class Shown:
    """A table that was shown."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


Result = Shown | str
results: list[Result] = []
"""All that was shown or said so far, in order, for the page."""


def seconds(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def medians(runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
    """The median time of each, taken in turns so that all see the same machine."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(seconds(run))
    return {name: median(taken) for name, taken in times.items()}


def faster(
    what: str, against: str, ours: float, theirs: float, bar: float | None = None
) -> list[str]:
    """A row on how many times faster than the other we are, at least `bar` times if given."""
    ratio = theirs / ours
    goal = [] if bar is None else [f">= {bar:g}", yes(ratio >= bar)]
    return [what, against, ms(ours), ms(theirs), f"{number(ratio)} x faster", *goal]


def within(
    what: str, against: str, ours: float, theirs: float, bar: float | None = None
) -> list[str]:
    """A row on how many times the other's time we take, at most `bar` times if given."""
    ratio = ours / theirs
    goal = [] if bar is None else [f"<= {bar:g}", yes(ratio <= bar)]
    return [what, against, ms(ours), ms(theirs), f"{number(ratio)} x its time", *goal]


def yes(met: bool) -> str:
    return "yes" if met else "NO"


def ms(taken: float) -> str:
    return f"{number(1e3 * taken)} ms"


def number(value: float) -> str:
    """Three digits are all that a timing is good for."""
    return f"{value:#.3g}".rstrip(".") if value < 999.5 else f"{value:.0f}"


WIDTH = 100  # the same in a terminal and in a log


def show(title: str, rows: Iterable[Iterable[str]], columns: Iterable[str] = COLUMNS) -> None:
    """Print a table, and keep it for the page."""
    shown = Shown(title, tuple(columns), [tuple(row) for row in rows])
    results.append(shown)
    table = Table(*shown.columns, title=title, title_justify="left")
    for row in shown.rows:
        table.add_row(*row)
    Console(width=WIDTH).print(table)


def say(line: str) -> None:
    """Print a line, and keep it for the page."""
    results.append(line)
    print(line)
