"""`tidegate paper`: the figures of the paper, as published and private."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tidegate.checks import refuse
from tidegate.cli import options
from tidegate.cli.types import Count
from tidegate.study.curve import Curve
from tidegate.study.experiment import Notebook
from tidegate.study.panels import PUBLISHED, Panel, chosen, panels
from tidegate.study.plots import overview, plot
from tidegate.study.theorems import note

EPILOG = """\b
Examples:
  tidegate paper --quick            all panels in small: about two minutes
  tidegate paper a g                two panels with the paper's settings
  tidegate paper                    everything

MNIST and the titles are read from DIR, or MNIST is fetched. A run that is in the output folder
already is not run again: what was interrupted goes on, and --runs can be raised.
"""


@click.command(epilog=EPILOG)
@click.argument("names", nargs=-1, metavar="[PANEL]...")
@click.option("--quick", is_flag=True, help="One run each, of shorter streams.")
@click.option("--runs", type=Count(most=1000), help="How many of each curve.  [default: 4]")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="tidegate-paper",
    show_default=True,
    help="Where plots and numbers go.",
)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="TIDEGATE_DATA",
    show_envvar=True,
    help="Holds mnist/ and arxiv/.",
)
@click.option(
    "--kaggle",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Kaggle's snapshot of arXiv (JSON): the articles of 2007, as in the paper.",
)
@options.form
def paper(  # noqa: PLR0913 (one for each option)
    names: tuple[str, ...],
    quick: bool,
    runs: int | None,
    out: Path,
    data: Path | None,
    kaggle: Path | None,
    form: str,
) -> None:
    """Make the paper's figures anew: as published, which is NOT PRIVATE, and private."""
    runs = runs or (1 if quick else 4)
    known = panels(data, kaggle, quick=quick)
    for name in names:
        if name not in {panel.name for panel in known}:
            raise refuse("panel", "one of " + ", ".join(panel.name for panel in known), name)
    asked = chosen(known, names)
    notebook = Notebook(out)
    _compute(asked, notebook, runs, quiet=form == "json")
    curves = {e.key: notebook.curve(e, runs) for panel in asked for e in panel.experiments}
    for panel in asked:
        plot(out / f"{panel.name}.png", panel, curves, note(panel))
        rows = list(_rows(panel, curves))
        if form == "json":
            options.show(rows, form)
        else:
            short = [{k: v for k, v in row.items() if k in SHORT} for row in rows]
            options.show(short, form, title=f"({panel.name}) {panel.title}")
    overview(out / "overview.png", asked, curves)
    _write(out / "paper.json", asked, curves)
    if form == "table":
        Console(highlight=False).print(f"Plots and numbers are in {out}.", soft_wrap=True)


SHORT = ("column", "curve", "kind", "first", "last", "mean", "to_not_private")
"""What the table shows of a row; JSON has the whole curve."""


def _compute(asked: Sequence[Panel], notebook: Notebook, runs: int, *, quiet: bool) -> None:
    """Run what is missing, with a bar for all of it and one for each panel."""
    jobs = notebook.missing([e for panel in asked for e in panel.experiments], runs)
    left = {job[0].key for job in jobs}
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
        for panel in asked:
            own = {experiment.key for experiment in panel.experiments} & left
            total = sum(experiment.key in own for experiment, _ in jobs)
            bars[progress.add_task(f"({panel.name})", total=total)] = own
        for run in notebook.run(jobs):
            progress.advance(whole)
            for bar, own in bars.items():
                if run.key in own:
                    progress.advance(bar)


def _rows(panel: Panel, curves: dict[str, Curve]) -> Iterator[dict[str, Any]]:
    """Each curve of a panel in numbers."""
    for column in panel.columns:
        reference = next((e for e in column.lines if e.kind == "not private"), column.lines[0])
        best = curves[reference.experiment.key].mean
        for line in column.lines:
            curve = curves[line.experiment.key]
            lower, upper = curve.quartiles
            yield {
                "panel": panel.name,
                "column": column.title,
                "curve": line.label,
                "kind": line.kind,
                "private": curve.private,
                "first": round(float(curve.median[0]), 4),
                "last": round(float(curve.median[-1]), 4),
                "mean": round(curve.mean, 4),
                "to_not_private": round(curve.mean - best, 4),
                "at": list(curve.at),
                "median": curve.median.round(4).tolist(),
                "lower_quartile": lower.round(4).tolist(),
                "upper_quartile": upper.round(4).tolist(),
            }


def _write(path: Path, asked: Sequence[Panel], curves: dict[str, Curve]) -> None:
    """All numbers, for programs."""
    whole = {
        panel.name: {
            "title": panel.title,
            "claim": panel.claim,
            "theorems": note(panel),
            "curves": list(_rows(panel, curves)),
        }
        for panel in asked
    }
    path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
