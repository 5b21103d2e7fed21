"""`tidegate paper`: reproduce the paper's figures, as published and privately."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from tidegate import Config, InvalidValueError
from tidegate_lab.checks import refuse
from tidegate_lab.paper.contest import contests
from tidegate_lab.paper.experiment import Job, Notebook, Run, in_processes, on_cluster
from tidegate_lab.paper.panels import Panel, panels
from tidegate_lab.paper.plots import overview, plot
from tidegate_lab.paper.results import curves, majority_rows, markdown, measure_cells, rows
from tidegate_lab.paper.sources import NO_TITLES
from tidegate_lab.paper.theorems import note

EPILOG = """\b
Examples:
  tidegate paper --quick            all panels, shortened: two minutes
  tidegate paper a g                two panels with the paper's settings
  tidegate paper                    everything
  tidegate paper --engine dask --scheduler tcp://127.0.0.1:8786

MNIST and the arXiv titles are read from --data. Without it, MNIST is downloaded. Runs that are
already in the output folder are not repeated, so an interrupted command continues, and --runs can
be raised. The workers of a cluster read the data from the same path.
"""


COLUMNS = ("curve", "kind", "private", "first", "last", "mean", "beyond_not_private")
"""The fields that the table shows before the measures; JSON has the whole curve."""

ANY_GATE: dict[str, Any] = {
    "schedule": {"kind": "independent", "step": 1},
    "budget": {"epsilon": 1.0},
    "records": {"classes": [0, 1], "norm": 1.0},
}
"""A configuration whose [compute] table says where runs are made; nothing else of it is used."""


@click.command(epilog=EPILOG)
@click.argument("names", nargs=-1, metavar="[PANEL]...")
@click.option("--quick", is_flag=True, help="One run per curve, on shorter streams.")
@click.option("--runs", type=click.IntRange(1, 1000), help="Runs per curve; the paper has 4.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="tidegate-paper",
    show_default=True,
    help="Folder for plots and numbers.",
)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="TIDEGATE_DATA",
    show_envvar=True,
    help="Folder that holds mnist/ and arxiv/.",
)
@click.option(
    "--kaggle",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Kaggle's arXiv snapshot (JSON), for the articles of 2007 as in the paper.",
)
@click.option(
    "--engine",
    type=click.Choice(["memory", "dask"]),
    default="memory",
    show_default=True,
    help="Run in local processes or on a Dask cluster.",
)
@click.option("--workers", type=click.IntRange(1), help="Number of processes [one per core].")
@click.option("--scheduler", metavar="ADDRESS", help="Scheduler of a running Dask cluster.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Table for people, or JSON lines for programs.",
)
def paper(  # noqa: PLR0913, PLR0917 (one for each option)
    names: tuple[str, ...],
    quick: bool,
    runs: int | None,
    out: Path,
    data: Path | None,
    kaggle: Path | None,
    engine: str,
    workers: int | None,
    scheduler: str | None,
    form: str,
) -> None:
    """Reproduce the paper's figures: as published, which is NOT PRIVATE, and privately."""
    available = [*panels(data, kaggle, quick=quick), *contests(data, kaggle, quick=quick)]
    chosen = _chosen(available, names, titles=data is not None or kaggle is not None)
    for panel in chosen:
        if panel.without:
            click.echo(f"({panel.name}) {panel.without}", err=True)
    times = {panel.name: runs or (1 if quick else panel.runs) for panel in chosen}
    notebook = Notebook(out)
    jobs = notebook.missing((e, times[panel.name]) for panel in chosen for e in panel.experiments)
    started = _start(jobs, engine, workers, scheduler)
    _follow(notebook.keep(started), jobs, chosen, quiet=form == "json")
    drawn = {panel.name: curves(panel, notebook, times[panel.name]) for panel in chosen}
    for panel in chosen:
        plot(out / f"{panel.name}.png", panel, drawn[panel.name], note(panel))
        constants = majority_rows(panel, drawn[panel.name]) if form == "table" else ()
        _show(panel, [*rows(panel, drawn[panel.name]), *constants], form)
    overview(out / "overview.png", chosen, drawn)
    tables = "\n".join(markdown(panel, drawn[panel.name]) for panel in chosen)
    (out / "paper.md").write_text(tables, encoding="utf-8")
    results = {
        panel.name: {
            "title": panel.title,
            "claim": panel.claim,
            "runs": times[panel.name],
            "theorems": note(panel),
            "curves": list(rows(panel, drawn[panel.name])),
            "majority": list(majority_rows(panel, drawn[panel.name])),
        }
        for panel in chosen
    }
    (out / "paper.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if form == "table":
        click.echo(f"Plots and numbers are in {out}.")


def _show(panel: Panel, table: list[dict[str, Any]], form: str) -> None:
    """Print the curves of a panel: as JSON lines, or as a table for each column."""
    if form == "json":
        for row in table:
            click.echo(json.dumps(row))
        return
    for column in panel.columns:
        own = [row for row in table if row["column"] == column.title]
        shown = [_percent(row) | cells for row, cells in zip(own, measure_cells(own), strict=True)]
        title = f"({panel.name}) {panel.title}: {column.title}"
        Console(markup=False).print(_table(title, shown))


def _table(title: str, shown: Sequence[dict[str, str]]) -> Table:
    """A table of rows that all have the same keys."""
    look = {"box": box.SIMPLE_HEAD, "pad_edge": False, "show_edge": False}
    table = Table(title=title, title_justify="left", padding=(0, 1, 0, 0), **look)  # type: ignore[arg-type]
    for name in shown[0]:
        table.add_column(name.replace("_", "\n"), justify="right")
    for row in shown:
        table.add_row(*row.values())
    return table


def _percent(row: dict[str, Any]) -> dict[str, str]:
    """A row of the table, with accuracies in per cent."""
    words = {"True": "yes", "False": "no", "None": "-"}
    text = {key: str(row[key]) for key in COLUMNS}
    return {
        key: f"{row[key]:.1%}" if isinstance(row[key], float) else words.get(each, each)
        for key, each in text.items()
    }


def _chosen(available: Iterable[Panel], names: Sequence[str], *, titles: bool) -> list[Panel]:
    """The panels that are named, or all that there is data for."""
    by_name = {panel.name: panel for panel in available}
    for name in names:
        if name not in by_name:
            raise refuse("panel", "one of " + ", ".join(by_name), name)
    chosen = [by_name[name] for name in dict.fromkeys(names or by_name)]
    without = [panel.name for panel in chosen if panel.of_titles and not titles]
    if without and names:
        raise InvalidValueError(NO_TITLES)
    if without:
        click.echo(f"leaving out {', '.join(without)}: {NO_TITLES}", err=True)
    return [panel for panel in chosen if panel.name not in without]


def _start(
    jobs: Sequence[Job], engine: str, workers: int | None, scheduler: str | None
) -> Iterator[Run]:
    """Start the jobs, and yield each run when it is finished."""
    if engine == "dask":
        given = {"engine": engine, "workers": workers, "scheduler": scheduler}
        compute = {key: value for key, value in given.items() if value is not None}
        return on_cluster(jobs, Config.of({**ANY_GATE, "compute": compute}).compute.build())
    if scheduler is not None:
        raise InvalidValueError(f"--scheduler needs --engine dask, got {engine}: change either one")
    return in_processes(jobs, workers)


def _follow(
    runs: Iterable[Run], jobs: Sequence[Job], chosen: Sequence[Panel], *, quiet: bool
) -> None:
    """Wait for the runs, with a progress bar for all of them and one for each panel."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as progress:
        whole = progress.add_task("all runs", total=len(jobs))
        bars = {}
        for panel in chosen:
            own = {experiment.key for experiment in panel.experiments}
            total = sum(experiment.key in own for experiment, _ in jobs)
            bars[progress.add_task(panel.name, total=total)] = own
        for run in runs:
            progress.advance(whole)
            for bar, own in bars.items():
                if run.key in own:
                    progress.advance(bar)
