"""The demo's plot: accuracy over time, and the budget spent by the most-charged record."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidegate.demo.drifting_stream import Floats
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
from tidegate.picture import new_figure
from tidegate.privacy.meaning import amounts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = {
    NOT_PRIVATE: ("#000000", ":", 1.4),
    FADING: ("#0072B2", "-", 2.2),
    REFIT: ("#E69F00", "-", 1.4),
    SLIDING: ("#009E73", "-", 1.4),
    CUMULATIVE: ("#D55E00", "--", 1.6),
    NAIVE: ("#CC79A7", "-.", 1.4),
}
"""Colour, line style and width; the colours (Okabe and Ito) suit any colour vision."""

DETAILS = {
    REFIT: ", the strongest baseline",
    CUMULATIVE: ", all records",
    NAIVE: ", ε / {comparison.releases} each",
}
"""What the legend says after the name of a method."""

TICKS = np.array([0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1])
ERROR_OFFSET = 0.004
"""Added to every error rate, so that none is 0."""


def plot(path: Path | str, comparison: Comparison, moments: Sequence[Moment]) -> None:
    """Write the plot of a comparison, as far as it has gone, to a .png or .svg file."""
    figure = new_figure(9.5, 6.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    budget, stream = comparison.budget, comparison.stream
    figure.suptitle(
        f"{stream.records:,} records, a release every {comparison.step:,}; all private methods: "
        f"{amounts(budget.epsilon, budget.delta)}"
    )
    turning = stream.still * stream.records
    _accuracies(above, comparison, moments)
    for axes in (above, below):
        axes.axvline(turning, color="0.6", linewidth=1)
        axes.spines[["top", "right"]].set_visible(False)
    for text, side in (("the ring stands still ", "right"), (" the ring rotates", "left")):
        above.text(turning, 1.001, text, ha=side, va="bottom", fontsize="small", color="0.35")
    _spent(below, moments)
    below.set_xlim(0, stream.records)
    below.xaxis.set_major_formatter("{x:,.0f}")
    below.set_xlabel("records arrived")
    figure.savefig(path, dpi=150, metadata=_metadata(path, comparison, moments))


def _metadata(
    path: Path | str, comparison: Comparison, moments: Sequence[Moment]
) -> dict[str, str | None]:
    """The numbers of the legend inside the file, and no address of the program that drew it."""
    means = comparison.rotating(moments)
    text = ", ".join(f"{title(name)} {means[name]:.1%}" for name in STYLES if name in means)
    drawn_by = "Software" if Path(path).suffix == ".png" else "Creator"
    return {"Description": text, drawn_by: None}


def _accuracies(axes: "Axes", comparison: Comparison, moments: Sequence[Moment]) -> None:
    means = comparison.rotating(moments)
    for name, (color, dashes, width) in STYLES.items():
        points = [(m.at, m.accuracy[name]) for m in moments if name in m.accuracy]
        if points:
            label = title(name) + DETAILS.get(name, "").format(comparison=comparison)
            label += f" ({means[name]:.1%})" if name in means else ""
            axes.plot(*zip(*points, strict=True), dashes, color=color, linewidth=width, label=label)
    axes.set_yscale("function", functions=(_stretched, _accuracy))
    axes.set_ylim(0, 1)
    axes.set_yticks(TICKS, [f"{tick:.4g} %" for tick in (100 * TICKS).round(2)])
    axes.grid(axis="y", color="0.92", linewidth=0.8)
    axes.set_ylabel("accuracy on fresh records\n(stretched towards 100 %)")
    axes.legend(
        title="in brackets: mean accuracy after the ring starts to rotate",
        loc="upper center",
        bbox_to_anchor=(0.5, -0.02),
        ncols=3,
        frameon=False,
        fontsize="small",
        title_fontsize="small",
    )


def _stretched(accuracy: Floats) -> Floats:
    """Where an accuracy is drawn: by the logarithm of its errors, so that small ones are seen."""
    return -np.log(1 + ERROR_OFFSET - np.minimum(accuracy, 1))


def _accuracy(stretched: Floats) -> Floats:
    """The inverse of `_stretched`."""
    return 1 + ERROR_OFFSET - np.exp(-stretched)


def _spent(axes: "Axes", moments: Sequence[Moment]) -> None:
    at, spent = [m.at for m in moments], [m.worst for m in moments]
    axes.step(at, spent, color=STYLES[FADING][0], where="post")
    axes.axhline(1, color="black", linewidth=1, linestyle=":")
    axes.text(
        0.005,
        1.05,
        "100 %: the bound, for ever",
        transform=axes.get_yaxis_transform(),
        fontsize="small",
    )
    axes.set_title("budget spent by the most-charged record (fading)", loc="left", fontsize="small")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_ylim(0, 1.35)
    axes.set_ylabel("budget\nspent")
