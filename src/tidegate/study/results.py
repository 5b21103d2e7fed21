"""The results of a panel, as curves and as numbers."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tidegate.study.curve import Curve
from tidegate.study.experiment import Notebook
from tidegate.study.panels import Column, Line, Panel


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


def _shared(column: Column, curve_of: Mapping[Line, Curve]) -> set[int]:
    """The releases common to all curves but the non-private one and those marked seldom."""
    others = [line for line in column.lines if line.kind != "not private" and not line.seldom]
    common = set.intersection(*(set(curve_of[line].at) for line in others))
    return {at for at in common if at >= column.since}


def _mean(curve: Curve, shared: set[int]) -> float:
    """The mean of a curve's medians over those of its releases that are shared."""
    return float(np.mean(curve.median[[at in shared for at in curve.at]]))


def rows(panel: Panel, curve_of: Mapping[Line, Curve]) -> Iterator[dict[str, Any]]:
    """Each curve of a panel in numbers: medians of the runs, at its releases.

    The mean is over the releases common to all curves of the column, from its `since` on, not
    counting the non-private curve and those marked seldom.
    """
    for column in panel.columns:
        shared = _shared(column, curve_of)
        reference = next(line for line in column.lines if line.kind == "not private")
        not_private = _mean(curve_of[reference], shared)
        for line in column.lines:
            curve = curve_of[line]
            yield {
                "panel": panel.name,
                "column": column.title,
                "curve": line.label,
                "kind": line.kind,
                "private": curve.private,
                "first": round(float(curve.median[0]), 4),
                "last": round(float(curve.median[-1]), 4),
                "mean": round(_mean(curve, shared), 4),
                "beyond_not_private": round(_mean(curve, shared) - not_private, 4),
                **curve.row,
            }


def markdown(panel: Panel, curve_of: Mapping[Line, Curve]) -> str:
    """The numbers of a panel as a Markdown table, in percent."""
    lines = [
        f"**({panel.name}) {panel.title}**",
        "",
        "| | curve | kind | first | last | mean |",
        "|---|---|---|---:|---:|---:|",
    ]
    for row in rows(panel, curve_of):
        scores = " | ".join(f"{100 * row[key]:.1f}" for key in ("first", "last", "mean"))
        lines.append(f"| {row['column']} | {row['curve']} | {row['kind']} | {scores} |")
    return "\n".join(lines) + "\n"
