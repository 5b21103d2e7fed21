"""The results of a panel, as curves and as numbers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tidegate.compare import Curve
from tidegate_lab.paper.experiment import Notebook
from tidegate_lab.paper.panels import Column, Line, Panel

MEASURES = ("log_loss", "balanced_accuracy", "auc", "bias", "majority", "constant_log_loss")
"""What is measured besides accuracy."""

SHOWN = {"log_loss": ("log-loss", ".3f"), "auc": ("AUC", ".3f"), "bias": ("bias", "+.3f")}
"""The measures that tables show besides accuracy: their headings and formats."""


def curves(panel: Panel, notebook: Notebook, runs: int) -> dict[Line, Curve]:
    """The curve of each line; if it has several settings, the curve with the largest mean.

    As in `rows`, the mean is over the releases that the column's curves have in common.
    """
    best = {}
    for column in panel.columns:
        settings = {
            line: [notebook.curve(each, runs) for each in (line.experiment, *line.others)]
            for line in column.lines
        }
        shared = _shared(column, {line: each[0] for line, each in settings.items()})
        for line, each in settings.items():
            best[line] = max(each, key=lambda curve: _mean(curve, shared))
    return best


def majority(column: Column, curve_of: Mapping[Line, Curve]) -> Curve | None:
    """What always answering the most frequent class reaches; None if it was not measured.

    It depends on the test records alone, so it is read off the curve with the most releases.
    """
    measured = [c for c in map(curve_of.get, _regular(column)) if c and "majority" in c.measures]
    if not measured:
        return None
    curve = max(measured, key=lambda curve: len(curve.at))
    losses = {"log_loss": curve.measures["constant_log_loss"]}
    return Curve(private=False, at=curve.at, runs=curve.measures["majority"], measures=losses)


def _regular(column: Column) -> list[Line]:
    """All lines but the non-private one and those marked seldom."""
    return [line for line in column.lines if line.kind != "not private" and not line.seldom]


def _shared(column: Column, curve_of: Mapping[Line, Curve]) -> set[int]:
    """The releases common to all curves but the non-private one and those marked seldom."""
    common = set.intersection(*(set(curve_of[line].at) for line in _regular(column)))
    return {at for at in common if at >= column.since}


def _mean(curve: Curve, shared: set[int]) -> float:
    """The mean of a curve's medians over those of its releases that are shared."""
    return float(np.mean(curve.median[[at in shared for at in curve.at]]))


def _mean_measure(curve: Curve, name: str, shared: set[int]) -> float | None:
    """The same of a measure, where it is defined; None if it is nowhere."""
    if name not in curve.measures:
        return None
    medians = curve.median_of(name)[[at in shared for at in curve.at]]
    medians = medians[~np.isnan(medians)]
    return round(float(medians.mean()), 4) if medians.size else None


def rows(panel: Panel, curve_of: Mapping[Line, Curve]) -> Iterator[dict[str, Any]]:
    """Each curve of a panel in numbers: medians of the runs, at its releases.

    The mean is over the releases common to all curves of the column, from its `since` on, not
    counting the non-private curve and those marked seldom. So are the measures besides accuracy,
    each None if it was not measured; `measures` has their medians at each release.
    """
    for column in panel.columns:
        for line in column.lines:
            curve = curve_of[line]
            about = {"curve": line.label, "kind": line.kind, "private": curve.private}
            yield _row(panel, column, curve_of, curve, about)


def majority_rows(panel: Panel, curve_of: Mapping[Line, Curve]) -> Iterator[dict[str, Any]]:
    """The same for the majority class, in each column where it was measured."""
    for column in panel.columns:
        if (constant := majority(column, curve_of)) is not None:
            about = {"curve": "majority class", "kind": "constant", "private": None}
            yield _row(panel, column, curve_of, constant, about)


def _row(
    panel: Panel,
    column: Column,
    curve_of: Mapping[Line, Curve],
    curve: Curve,
    about: Mapping[str, Any],
) -> dict[str, Any]:
    shared = _shared(column, curve_of)
    reference = next(line for line in column.lines if line.kind == "not private")
    return {
        "panel": panel.name,
        "column": column.title,
        **about,
        "first": round(float(curve.median[0]), 4),
        "last": round(float(curve.median[-1]), 4),
        "mean": round(_mean(curve, shared), 4),
        "beyond_not_private": round(_mean(curve, shared) - _mean(curve_of[reference], shared), 4),
        **curve.row(),
        **{name: _mean_measure(curve, name, shared) for name in MEASURES},
        "measures": _measures_row(curve),
    }


def _measures_row(curve: Curve) -> dict[str, list[float | None]]:
    """The medians of all measures in rounded numbers, for JSON; None where not defined."""
    return {
        name: [None if np.isnan(each) else round(each, 4) for each in medians.tolist()]
        for name in curve.measures
        if not np.isnan(medians := curve.median_of(name)).all()
    }


def measure_cells(table: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The cells of each row, by heading, for the measures that any row has.

    >>> measure_cells([{"log_loss": 0.5, "auc": None, "bias": None}])
    [{'log-loss': '0.500'}]
    """
    names = [name for name in SHOWN if any(row[name] is not None for row in table)]
    return [
        {
            SHOWN[name][0]: "-" if row[name] is None else format(row[name], SHOWN[name][1])
            for name in names
        }
        for row in table
    ]


def markdown(panel: Panel, curve_of: Mapping[Line, Curve]) -> str:
    """The numbers of a panel as a Markdown table: accuracies in percent, then other measures."""
    titles = [column.title for column in panel.columns]
    table = [*rows(panel, curve_of), *majority_rows(panel, curve_of)]
    table.sort(key=lambda row: titles.index(row["column"]))
    more = measure_cells(table)
    heads = ["", "curve", "kind", "first", "last", "mean", *more[0]]
    lines = [
        f"**({panel.name}) {panel.title}**",
        "",
        "|" + "|".join(f" {head} " if head else " " for head in heads) + "|",
        "|---|---|---|" + "---:|" * (len(heads) - 3),
    ]
    for row, cells in zip(table, more, strict=True):
        scores = [f"{100 * row[key]:.1f}" for key in ("first", "last", "mean")]
        words = [row["column"], row["curve"], row["kind"]]
        lines.append("| " + " | ".join([*words, *scores, *cells.values()]) + " |")
    return "\n".join(lines) + "\n"
