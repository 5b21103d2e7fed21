"""The results of a panel, as curves and as numbers."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tidegate.study.curve import Curve
from tidegate.study.experiment import Notebook
from tidegate.study.panels import Line, Panel


def curves(panel: Panel, notebook: Notebook, runs: int) -> dict[Line, Curve]:
    """The curve of each line; if it has several settings, the curve with the largest mean."""

    def best(line: Line) -> Curve:
        candidates = [notebook.curve(each, runs) for each in (line.experiment, *line.others)]
        return max(candidates, key=lambda curve: curve.mean)

    return {line: best(line) for line in panel.lines}


def rows(panel: Panel, curve_of: Mapping[Line, Curve]) -> Iterator[dict[str, Any]]:
    """Each curve of a panel in numbers: medians of the runs, at its releases.

    The mean is over the releases common to all curves of the column, not counting the non-private
    curve and those marked seldom.
    """
    for column in panel.columns:
        others = [line for line in column.lines if line.kind != "not private" and not line.seldom]
        common = set.intersection(*(set(curve_of[line].at) for line in others))

        def mean(line: Line, common: set[int] = common) -> float:
            curve = curve_of[line]
            return float(np.mean(curve.median[[at in common for at in curve.at]]))

        reference = next(line for line in column.lines if line.kind == "not private")
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
                "mean": round(mean(line), 4),
                "beyond_not_private": round(mean(line) - mean(reference), 4),
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
