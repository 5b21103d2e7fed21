"""What came of a panel: its curves, and the same in numbers."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tidegate.study.curve import Curve
from tidegate.study.experiment import Notebook
from tidegate.study.panels import Line, Panel


def curves(panel: Panel, notebook: Notebook, runs: int) -> dict[Line, Curve]:
    """The curve of each line; of several settings the one with the largest mean."""

    def best(line: Line) -> Curve:
        found = [notebook.curve(each, runs) for each in (line.experiment, *line.others)]
        return max(found, key=lambda curve: curve.mean)

    return {line: best(line) for line in panel.lines}


def rows(panel: Panel, found: Mapping[Line, Curve]) -> Iterator[dict[str, Any]]:
    """Each curve of a panel in numbers: medians of the runs, at its releases.

    Their mean is over those releases that all curves of the column have, the non-private one aside,
    and those that are seldom.
    """
    for column in panel.columns:
        others = [line for line in column.lines if line.kind != "not private" and not line.seldom]
        common = set.intersection(*(set(found[line].at) for line in others))

        def mean(line: Line, common: set[int] = common) -> float:
            curve = found[line]
            return float(np.mean(curve.median[[at in common for at in curve.at]]))

        reference = next(line for line in column.lines if line.kind == "not private")
        for line in column.lines:
            curve = found[line]
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


def markdown(panel: Panel, found: Mapping[Line, Curve]) -> str:
    """The numbers of a panel as a table for a document, in percent."""
    lines = [
        f"**({panel.name}) {panel.title}**",
        "",
        "| | curve | kind | first | last | mean |",
        "|---|---|---|---:|---:|---:|",
    ]
    for row in rows(panel, found):
        scores = " | ".join(f"{100 * row[key]:.1f}" for key in ("first", "last", "mean"))
        lines.append(f"| {row['column']} | {row['curve']} | {row['kind']} | {scores} |")
    return "\n".join(lines) + "\n"
