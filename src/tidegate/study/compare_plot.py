"""The plot of a comparison: accuracy over time, a panel for each budget."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.picture import new_figure
from tidegate.privacy.meaning import amounts
from tidegate.study.comparison import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "0.5")
"""By Okabe and Ito; people with any colour vision can distinguish them."""


def draw(path: Path, results: Sequence[Result]) -> None:
    """Write a plot of the results to a .png or .svg file."""
    budgets = list(dict.fromkeys(result.contender.budget for result in results))
    figure = new_figure(6.5 * len(budgets), 4.8)
    row = figure.subplots(1, len(budgets), sharey=True, squeeze=False)[0]
    for axes, budget in zip(row, budgets, strict=True):
        axes.set_title(amounts(budget.epsilon, budget.delta), fontsize="medium")
        _panel(axes, [result for result in results if result.contender.budget == budget])
    row[0].set_ylabel("accuracy on new records")
    figure.savefig(path, dpi=150)


def _panel(axes: "Axes", results: Sequence[Result]) -> None:
    names = [result.contender.name for result in results if result.curve.private]
    for result in results:
        curve, name = result.curve, result.contender.name
        color = COLORS[names.index(name) % len(COLORS)] if curve.private else "black"
        curve.draw(
            axes,
            color,
            linestyle="-" if curve.private else ":",
            linewidth=2.4 if result.contender.configured else 1.3,
            label=name + " *" * result.contender.configured,
        )
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")  # 87.5% is not 88%
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("records arrived")
    axes.legend(frameon=False, fontsize="small")
