"""Plots of panels: the median of the runs as a line, the quartiles as a shaded band."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tidegate.compare import Curve
from tidegate_lab.paper.panels import Kind, Line, Panel
from tidegate_lab.paper.results import majority

Curves = Mapping[Line, Curve]
"""The curve of each line."""

Dashes = Literal["-", "--", "-.", ":"]

OKABE_ITO = ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
TOL = ("#882255", "#999933")
COLORS = (*OKABE_ITO, *TOL)
"""One per label; people with any colour vision can distinguish them."""

STYLES: Mapping[Kind, tuple[Dashes, float, str]] = {
    "not private": ("--", 1.8, "not private"),
    "overspent": ("--", 1.4, "the whole budget each time: NOT PRIVATE"),
    "as published": ("-", 1.8, "as published"),
    "gradient": ("-", 1.8, "(ε, 1e-6), noisy gradients"),
    "approximate": ("-.", 1.4, "(ε, 1e-6), noisy minimiser"),
    "pure": (":", 1.4, "pure ε, noisy minimiser"),
    "baseline": ("-.", 1.4, "another private method"),
}
"""Dashes, width and legend of each kind of curve."""

GREYS: Mapping[Kind, str] = {"not private": "black", "overspent": "0.55"}
"""Kinds that have only one curve, which needs no colour."""


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; width and height are in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def plot(path: Path, panel: Panel, curves: Curves, note: str = "") -> None:
    """Write the plot of a panel to a .png or .svg file, with a note below."""
    figure = new_figure(5.2 * len(panel.columns), 5)
    row = _panel(figure, panel, curves)
    for axes, column in zip(row, panel.columns, strict=True):
        axes.set_xlabel("records arrived")
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.18), "ncols": 2}
        _legend(axes, column.lines, panel, **below)
    if note:
        figure.supxlabel(note, fontsize="x-small", color="0.35")
    figure.savefig(path, dpi=150)


def overview(path: Path, panels: Sequence[Panel], curves: Mapping[str, Curves]) -> None:
    """Write panels, with their curves by name, to one .png or .svg file, two panels per row."""
    wide = min(2, len(panels))
    rows = -(-len(panels) // 2)
    figure = new_figure(7.5 * wide, 2.8 * rows)
    grid = figure.subfigures(rows, wide, squeeze=False).flat
    for part, panel in zip(grid, panels, strict=False):
        row = _panel(part, panel, curves[panel.name])
        _legend(row[-1], panel.lines, panel, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=110)


def _panel(figure: Any, panel: Panel, curves: Curves) -> Sequence[Axes]:
    """Draw the columns of a panel, on a common scale unless one of them is near."""
    figure.suptitle(f"({panel.name}) {panel.title}", fontsize="medium")
    far = not any(column.near for column in panel.columns)
    constants = [majority(column, curves) for column in panel.columns]
    row: Sequence[Axes] = figure.subplots(1, len(panel.columns), sharey=far, squeeze=False)[0]
    for axes, column, constant in zip(row, panel.columns, constants, strict=True):
        axes.set_title(column.title, fontsize="small")
        for line in column.lines:
            dashes, width, _ = STYLES[line.kind]
            over = 3 if line.kind == "not private" else 2  # keeps both visible where they meet
            style = {"linestyle": dashes, "linewidth": width, "zorder": over}
            _draw(axes, curves[line], _color(line, panel), marker=".", markersize=3, **style)
        axes.grid(axis="y", color="0.9", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.locator_params(axis="x", nbins=5)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k")
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
        near = [curves[line] for line in column.lines]
        shown = near if column.near else [*curves.values(), *filter(None, constants)]
        worst = min(curve.quartiles[0].min() for curve in shown)
        grid = 20 if column.near else 5
        axes.set_ylim(math.floor(max(worst - 0.5 / grid, 0) * grid) / grid, 1)
        if constant is not None:
            _draw_majority(axes, constant)
    row[0].set_ylabel("test accuracy")
    return row


def _draw(axes: Axes, curve: Curve, color: str, **style: Any) -> None:
    """Draw the median of the runs as a line and the quartiles as a shaded band."""
    axes.fill_between(curve.at, *curve.quartiles, color=color, alpha=0.2, linewidth=0)
    axes.plot(curve.at, curve.median, color=color, **style)


def _draw_majority(axes: Axes, constant: Curve) -> None:
    """Draw what every model should be better than; if it is below the scale, only say so."""
    if (best := constant.median.max()) < axes.get_ylim()[0]:
        axes.plot([], [], " ", label=f"majority class: {best:.1%}, below this scale")
    else:
        _draw(axes, constant, "0.5", linewidth=1.0, zorder=1, label="majority class")


def _color(line: Line, panel: Panel) -> str:
    labels = list(dict.fromkeys(each.label for each in panel.lines if each.kind not in GREYS))
    return GREYS.get(line.kind) or COLORS[labels.index(line.label)]


def _legend(axes: Axes, lines: Iterable[Line], panel: Panel, **place: Any) -> None:
    """A colour for each label, dashes for each kind, and the majority class if it was drawn."""
    every = list(lines)
    own = [line for line in every if line.kind not in GREYS]
    labels = {line.label: _color(line, panel) for line in own}
    colors = [Line2D([], [], color=color, label=label) for label, color in labels.items()]
    kinds = {line.kind for line in every}
    styles = [
        Line2D([], [], color=GREYS.get(kind, "black"), linestyle=dashes, label=words)
        for kind, (dashes, _, words) in STYLES.items()
        if kind in kinds
    ]
    constant, _ = axes.get_legend_handles_labels()  # the only line with a label of its own
    axes.legend(handles=[*colors, *styles, *constant], fontsize="x-small", frameon=False, **place)
