"""The plot of a comparison: what ranks the methods over time, and other measures beside it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.compare.contenders import kept
from tidegate.compare.results import Curve, Recommendation, Result
from tidegate.compare.yardstick import Shown, Wording
from tidegate.picture import new_figure
from tidegate.privacy.meaning import amounts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#8C6D31", "#882255", "#44AA99", "0.6")
"""Mostly by Okabe and Ito; people with any colour vision can distinguish them."""

FADING = ("#08306b", "#1f65ab", "#4b97c9", "#85bcdc", "#b5d4e9", "#54278f", "#9e9ac8")
"""Shades for the settings of fading, which belong together."""

WIDTHS = (4.6, 1.6, 1.2, 1.2, 1.2, 1.2)
"""Relative widths of the panels."""

CONSTANT: dict[str, Any] = {"color": "0.4", "linestyle": "--", "linewidth": 1, "zorder": 1}
"""The line of a constant, which every model should be better than."""


def draw(path: Path, recommendations: Sequence[Recommendation], words: Wording) -> None:
    """Write a plot to a .png or .svg file, with a row of panels for each budget."""
    most = max(len(each.results) for each in recommendations)
    figure = new_figure(17, max(4.2, 0.3 * most + 1.5) * len(recommendations))
    rows = figure.subplots(len(recommendations), len(WIDTHS), squeeze=False, width_ratios=WIDTHS)
    for panels, recommendation in zip(rows, recommendations, strict=True):
        _Row(recommendation, words).draw(panels)
    figure.savefig(path, dpi=150)


@dataclass(frozen=True)
class _Row:
    """The panels of one budget; in all but the first each method has a line, the best on top."""

    found: Recommendation
    words: Wording

    def draw(self, panels: Sequence["Axes"]) -> None:
        """Draw all panels."""
        over_time, means, beside, another, seconds, records = panels
        self._over_time(over_time)
        self._means(means)
        self._measure(beside, self.words.beside)
        self._measure(another, self.words.plotted)
        self._bars(seconds, [result.seconds for result in self._ordered], "seconds of a run")
        self._records_kept(records)

    @cached_property
    def _ordered(self) -> list[Result]:
        return self.found.ordered

    @cached_property
    def _colors(self) -> dict[int, str]:
        """A shade for each setting of fading, other colours for other methods, by result."""
        shades = {True: cycle(FADING), False: cycle(COLORS)}
        return {
            id(each): next(shades[each.contender.table.get("kind") == "fading"])
            if each.curve.private
            else "black"
            for each in self.found.results
        }

    def _is_marked(self, result: Result) -> bool:
        return result is self.found.best or result.contender.configured

    def _over_time(self, axes: "Axes") -> None:
        """What ranks, over time; a band of quartiles for the best and the configured schedule."""
        dotted = cycle((":", "-."))
        for result in self.found.results:
            curve, color, base = result.curve, self._colors[id(result)], self._base(result.curve)
            marked = self._is_marked(result)
            if marked:
                lower, upper = (each - base for each in curve.quartiles)
                axes.fill_between(curve.at, lower, upper, color=color, alpha=0.2, linewidth=0)
            axes.plot(
                curve.at,
                curve.median - base,
                color=color,
                linestyle="-" if curve.private else next(dotted),
                linewidth=2.6 if marked else 1.1,
                zorder=3 if marked else 2,
            )
        self._constant_over_time(axes)
        budget = self.found.best.contender.budget
        title = f"{amounts(budget.epsilon, budget.delta)}: {self.words.title}"
        axes.set_title(title, fontsize="medium")
        axes.yaxis.set_major_formatter(self._tick)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("records arrived")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylabel(self.words.axis)

    def _base(self, curve: Curve) -> NDArray[np.float64]:
        """What is subtracted over time: what a constant reaches, if words say so, or else nothing.

        How far numbers are spread differs from time to time by more than models do.
        """
        name = self.words.ranks.constant
        if self.words.relative and name in curve.measures:
            return curve.median_of(name)
        return np.zeros(len(curve.at))

    def _constant_over_time(self, axes: "Axes") -> None:
        """What a constant reaches that knows the test records of each time, if it was measured."""
        curve, name = self.found.configured.curve, self.words.ranks.constant
        if name in curve.measures:
            reached = curve.median_of(name) - self._base(curve)
            axes.plot(curve.at, reached, label=self.words.constant, **CONSTANT)
            axes.legend(loc="best", frameon=False, fontsize="small")

    def _tick(self, value: float, _: object) -> str:
        if self.words.ranks.spec.endswith("%"):
            return f"{100 * value:.4g}%"  # 87.5% is not 88%
        return f"{value:.6g}"

    def _means(self, axes: "Axes") -> None:
        """The means of what ranks, with the noise of their difference from the best; the names."""
        means = [self.found.score(result) for result in self._ordered]
        self._dots(axes, means, f"mean from {self.found.times[0]:,} on")
        for place, (result, mean) in enumerate(zip(self._ordered, means, strict=True)):
            noise = np.nan_to_num(self.found.behind(result).noise, posinf=0.0)  # one run shows none
            ends, color = [mean - noise, mean + noise], self._colors[id(result)]
            axes.plot(ends, [place] * 2, color=color, linewidth=1)
        axes.axvline(self.found.score(self.found.best), color="0.8", linewidth=1, zorder=0)
        axes.set_yticks(range(len(means)), [self._name(result) for result in self._ordered])
        axes.tick_params("y", labelleft=True)
        for label, result in zip(axes.get_yticklabels(), self._ordered, strict=True):
            if self._is_marked(result):
                label.set_fontweight("bold")
        axes.xaxis.set_major_formatter(self._tick)
        axes.locator_params("x", nbins=3)

    def _name(self, result: Result) -> str:
        title = result.contender.title
        return f"{title} (best)" if self.found.recommends(result) else title

    def _measure(self, axes: "Axes", shown: Shown) -> None:
        """The mean of a measure, beside what a constant reaches."""
        values = [result.measure(shown.name, self.found.times) for result in self._ordered]
        self._dots(axes, values, shown.heading.replace("-\n", "-").replace("\n", " "))
        axes.locator_params("x", nbins=3)
        if not math.isnan(reached := self.found.constant(shown)):
            axes.axvline(reached, **CONSTANT)

    def _records_kept(self, axes: "Axes") -> None:
        """How many records stay stored; where that has no bar, in words."""
        counts = [result.contender.records_kept for result in self._ordered]
        bars = np.nan_to_num(counts, posinf=0.0).tolist()
        self._bars(axes, bars, "records kept")
        for place, (result, bar) in enumerate(zip(self._ordered, bars, strict=True)):
            if result.contender.table and not bar:
                axes.text(0, place, f" {kept(result.contender)}", va="center", fontsize="small")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.locator_params("x", nbins=3)

    def _dots(self, axes: "Axes", values: Sequence[float], title: str) -> None:
        colors = [self._colors[id(result)] for result in self._ordered]
        axes.scatter(values, range(len(values)), c=colors, s=28, zorder=3)
        _lines(axes, len(values), title)

    def _bars(self, axes: "Axes", values: Sequence[float], title: str) -> None:
        colors = [self._colors[id(result)] for result in self._ordered]
        axes.barh(range(len(values)), values, color=colors, height=0.6)
        _lines(axes, len(values), title)


def _lines(axes: "Axes", count: int, title: str) -> None:
    """One line for each method, the first on top."""
    axes.set_title(title, fontsize="medium")
    axes.set_yticks(range(count), [""] * count)
    axes.set_ylim(count - 0.5, -0.5)
    axes.grid(axis="y", color="0.92", zorder=0)
    axes.set_axisbelow(True)
    axes.tick_params("y", length=0)
    axes.locator_params("x", nbins=4)
    axes.spines[["top", "right", "left"]].set_visible(False)
